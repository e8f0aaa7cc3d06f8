"""How sure is a trained network of its prediction?

Laplace's approximation: near the trained weights the posterior is a Gaussian whose precision is the
Gauss-Newton matrix and the prior's; `J.functional_variance` carries it to the outputs. Taken for
the last layer only, which is linear, it is no approximation: it must be the Bayesian linear
regression on the last layer's features, and is.
"""

import numpy as np
from plots import saved

import symgrad as sg

NETWORK = '''
"""A regression with one hidden layer."""
x: input
hidden_W: param[h]
hidden_b: param[h]
last_w: param[h]
last_b: param

y = dot(last_w, tanh(hidden_W * x + hidden_b)) + last_b
'''
NOISE = 0.1
PRIOR = 1.0
"""Standard deviations of the data about y, and of every weight about 0."""


def objective(jac, x, t, p):
    """Return the negative logarithm of the posterior, constants left out."""
    r = t - jac.forward(x, p)
    return r @ r / (2 * NOISE**2) + sum((v**2).sum() for v in p.values()) / (2 * PRIOR**2)


def gauss_newton(jac, x, t, p):
    """Return where the posterior would be largest if y were linear in the selected parameters.

    With λ = (NOISE / PRIOR)² it is (JᵀJ + λ I)⁻¹ Jᵀ (t - y + J θ): ridge regression.
    """
    J = jac.jacobian(x, p)
    return J.solve(t - J.value + J.jvp({n: p[n] for n in J}), damping=(NOISE / PRIOR) ** 2)


def trained(jac, x, t, p):
    """Return the parameters after Gauss-Newton steps, each halved until it helps."""
    before = objective(jac, x, t, p)
    while True:
        target = gauss_newton(jac, x, t, p)
        for size in 0.5 ** np.arange(20):
            trial = {n: v + size * (target[n] - v) for n, v in p.items()}
            after = objective(jac, x, t, trial)
            if after < before:
                break
        if before - after < 1e-6 * before:
            return p
        p, before = trial, after


def posterior(J):
    """Return the covariance of the selected parameters, {(θ, φ): `[*p, *q]`}."""
    shapes = [J[n].shape[J.value.ndim :] for n in J]
    sizes = [int(np.prod(s)) for s in shapes]
    ggn = J.ggn()
    rows = [[ggn[a, b].reshape(m, n) for b, n in zip(J, sizes, strict=True)]
            for a, m in zip(J, sizes, strict=True)]  # fmt: skip
    covariance = np.linalg.inv(np.block(rows) / NOISE**2 + np.eye(sum(sizes)) / PRIOR**2)
    cuts = np.cumsum(sizes)[:-1]
    return {
        (a, b): block.reshape((*s, *z))
        for a, s, row in zip(J, shapes, np.split(covariance, cuts, 0), strict=True)
        for b, z, block in zip(J, shapes, np.split(row, cuts, 1), strict=True)
    }


def regression(features, t, new_features):
    """Return mean and variance of the exact Bayesian linear regression."""
    precision = features.T @ features / NOISE**2 + np.eye(features.shape[1]) / PRIOR**2
    mean = np.linalg.solve(precision, features.T @ t) / NOISE**2
    spread = np.linalg.solve(precision, new_features.T)
    return new_features @ mean, np.einsum("bi,ib->b", new_features, spread)


def main():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-2, -0.5, 30), rng.uniform(0.7, 2, 30)])
    t = np.sin(3 * x) + NOISE * rng.normal(size=len(x))
    start = {n: rng.normal(size=20) for n in ("hidden_W", "hidden_b", "last_w")}
    whole = sg.compile(sg.layer(NETWORK, name="network"))
    p = trained(whole, x, t, start | {"last_b": np.zeros(())})

    last = whole.select("last_*")
    p |= gauss_newton(last, x, t, p)
    residual = np.std(t - whole.forward(x, p))
    print(f"trained: root mean square residual {residual:.3f}, noise {NOISE}")
    print("last layer:", ", ".join(last.wrt), "  all:", ", ".join(whole.wrt))
    new = np.linspace(-3, 3, 121)
    variance = {}
    for title, jac in (("last layer", last), ("all parameters", whole)):
        covariance = posterior(jac.jacobian(x, p))
        J = jac.jacobian(new, p)
        variance[title] = J.functional_variance(covariance)

    features, new_features = (
        np.column_stack([np.tanh(np.outer(z, p["hidden_W"]) + p["hidden_b"]), np.ones(len(z))])
        for z in (x, new)
    )
    mean, exact = regression(features, t, new_features)
    far = np.abs(variance["last layer"] / exact - 1).max()
    print(f"against Bayesian linear regression: variance to {far:.0e} relatively, mean to "
          f"{np.abs(J.value - mean).max():.0e}")  # fmt: skip
    assert far < 1e-8
    assert np.allclose(J.value, mean, atol=1e-8)
    assert (variance["all parameters"] >= exact * (1 - 1e-8)).all()  # fixing the rest makes sure
    print("     x        y     deviation: last layer   all parameters")
    for n in range(0, len(new), 15):
        deviations = [np.sqrt(v[n]) for v in variance.values()]
        print(f"{new[n]:6.2f} {J.value[n]:8.3f} {deviations[0]:22.3f} {deviations[1]:16.3f}")

    def draw(figure):
        axes = figure.subplots()
        for title, colour in (("all parameters", "lightblue"), ("last layer", "tab:orange")):
            band = 2 * np.sqrt(variance[title])
            axes.fill_between(new, mean - band, mean + band, color=colour, label=title)
        axes.plot(new, mean, "k", label="y ± 2 deviations")
        axes.plot(x, t, ".", label="data")
        axes.legend()

    saved("laplace_bands.png", draw)


if __name__ == "__main__":
    main()
