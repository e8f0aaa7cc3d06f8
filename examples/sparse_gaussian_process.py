"""Two optimizers share one model: how do I give each the gradient of its own parameters?

In a sparse variational Gaussian process natural gradient steps move the belief q about the values
at the inducing points, and Adam the kernel's parameters, both from one compiled module. With a
Gaussian likelihood one full natural step must reach the best bound there is, which is known in
closed form; with a Bernoulli likelihood two schedules are compared: in turn, and both at once.
"""

import numpy as np
from chosen_parameters import Adam
from plots import saved

import symgrad as sg

PROCESS = '''
"""The evidence bound of a sparse Gaussian process: the share of one of `count` samples."""
x: input[d]
t: input
count: const
kernel_centres: param[m, d]   # the inducing points
kernel_log_length: param
kernel_log_scale: param
q_mean: param[m]              # the belief q about the values at the centres, which are L v:
q_root: param[m, m]           # v has this mean, and the covariance q_root q_rootᵀ

def k(r2, scale, length):
    return scale * exp(-r2 / (2 * length**2))

# of parameters only: computed once a call, not once a sample
scale = exp(2 * kernel_log_scale)
length = exp(kernel_log_length)
K[i, j] = k(sum[a]((kernel_centres[i, a] - kernel_centres[j, a])**2), scale, length)
L = cholesky(K + 1e-6 * eye(m))
S = q_root @ q_root.T
KL = (trace(S) + sum(q_mean**2) - m - logdet(S)) / 2

c[i] = k(sum[a]((x[a] - kernel_centres[i, a])**2), scale, length)
w = solve(L, c)
mean_f = dot(w, q_mean)
var_f = scale - sum(w**2) + dot(w, S @ w)
'''
GAUSSIAN = """
kernel_log_noise: param
fit = -(log(2*pi) + 2*kernel_log_noise + ((t - mean_f)**2 + var_f) * exp(-2*kernel_log_noise)) / 2
bound = fit - KL / count
"""
BERNOULLI = """
nodes: const[h]               # of a Gauss-Hermite quadrature
weights: const[h]
f[i] = mean_f + sqrt(2 * var_f) * nodes[i]
fit = dot(weights, log_sigmoid(t * f)) / sqrt(pi)
bound = fit - KL / count
"""


def natural_step(p, uphill, rate):
    """Return the parameters after a step of q along its natural gradient.

    In the natural parameters (S⁻¹ m, -S⁻¹/2) of a Gaussian it is the gradient with respect to
    (m, S + m mᵀ): S⁻¹ ← S⁻¹ - 2 rate ∂L/∂S, then m ← m + rate S ∂L/∂m.
    """
    root = p["q_root"]
    by_covariance = np.linalg.solve(root.T, uphill["q_root"].T) / 2  # ∂L/∂root = 2 ∂L/∂S root
    precision = np.linalg.inv(root @ root.T) - rate * (by_covariance + by_covariance.T)
    S = np.linalg.inv(precision)
    mean = p["q_mean"] + rate * S @ uphill["q_mean"]
    return {**p, "q_mean": mean, "q_root": np.linalg.cholesky((S + S.T) / 2)}


def downhill(gradient):
    """Return what Adam, which minimises, takes for a bound to be maximised."""
    return {name: -g for name, g in gradient.items()}


def compiled(likelihood):
    """Return the model and its two selections: one module, two sets of parameters."""
    whole = sg.compile(sg.layer(PROCESS + likelihood, name="sparse_process"))
    belief, kernel = whole.select("q_*"), whole.select("kernel_*")
    assert belief.module is kernel.module is whole.module
    print("   natural gradient:", ", ".join(belief.wrt), "  Adam:", ", ".join(kernel.wrt))
    return whole, belief, kernel


def start(x, m):
    """Return parameters with m centres over the data, and a belief that is the prior."""
    centres = np.linspace(x.min(), x.max(), m)[:, None]
    kernel = {"kernel_centres": centres, "kernel_log_length": 0.0, "kernel_log_scale": 0.0}
    return kernel | {"q_mean": np.zeros(m), "q_root": np.eye(m)}


def best_bound(x, t, kernel_centres, kernel_log_length, kernel_log_scale, kernel_log_noise, **_):
    """Return Titsias's collapsed bound, log N(t; 0, Q + σ² I) - tr(K - Q)/(2 σ²), Q = A Aᵀ."""

    def k(a, b):
        square = ((a[:, None] - b[None]) ** 2).sum(-1)
        return np.exp(2 * kernel_log_scale - square * np.exp(-2 * kernel_log_length) / 2)

    noise = np.exp(2 * kernel_log_noise)
    L = np.linalg.cholesky(k(kernel_centres, kernel_centres) + 1e-6 * np.eye(len(kernel_centres)))
    A = np.linalg.solve(L, k(kernel_centres, x)).T
    C = A @ A.T + noise * np.eye(len(x))
    likelihood = -(len(x) * np.log(2 * np.pi) + np.linalg.slogdet(C)[1] + t @ np.linalg.solve(C, t))
    lost = len(x) * np.exp(2 * kernel_log_scale) - (A**2).sum()
    return likelihood / 2 - lost / (2 * noise)


def gaussian(rounds=100):
    """Reach the best bound in one step; then train the kernel, q following in one step a round."""
    print("1. Gaussian likelihood")
    whole, belief, kernel = compiled(GAUSSIAN)
    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 3, size=(80, 1))
    t = np.sin(2 * x[:, 0]) + 0.3 * rng.normal(size=80)
    data = {"x": x, "t": t, "count": len(x)}
    p = start(x, 12) | {"kernel_log_noise": 0.0}
    print(f"   bound at the start                    {whole.forward(**data, **p).sum():14.8f}")
    p = natural_step(p, belief.gradient(**data, **p), rate=1.0)
    reached, best = whole.forward(**data, **p).sum(), best_bound(**data, **p)
    print(f"   after one full natural step           {reached:14.8f}")
    print(f"   the best for this kernel, closed form {best:14.8f}, difference {reached - best:.1e}")
    assert abs(reached - best) < 1e-8
    adam = Adam(rate=0.05)
    for _ in range(rounds):
        p = adam.step(p, downhill(kernel.gradient(**data, **p)))
        p = natural_step(p, belief.gradient(**data, **p), rate=1.0)
    trained, best = whole.forward(**data, **p).sum(), best_bound(**data, **p)
    print(f"   after {rounds} rounds of Adam and a step  {trained:14.8f}")
    print(f"   the best for that kernel, closed form {best:14.8f}, difference {trained - best:.1e}")
    assert abs(trained - best) < 1e-8
    assert trained > reached


def in_turn(model, data, p, adam):
    """Return the parameters after both steps, Adam's gradient taken at the new q: two passes."""
    _, belief, kernel = model
    p = natural_step(p, belief.gradient(**data, **p), rate=0.5)
    return adam.step(p, downhill(kernel.gradient(**data, **p)))


def at_once(model, data, p, adam):
    """Return the parameters after both steps, all gradients taken at the old point: one pass."""
    whole, belief, kernel = model
    both = whole.gradient(**data, **p)
    p = natural_step(p, {n: both[n] for n in belief.wrt}, rate=0.5)
    return adam.step(p, downhill({n: both[n] for n in kernel.wrt}))


def bernoulli(rounds=100):
    """Classify points on a line by both schedules; return the bounds after every round."""
    print("\n2. Bernoulli likelihood, by Gauss-Hermite quadrature")
    model = compiled(BERNOULLI)
    nodes, weights = np.polynomial.hermite.hermgauss(20)
    rng = np.random.default_rng(1)
    x = rng.uniform(-3, 3, size=(200, 1))
    t = np.where(rng.uniform(size=200) < 1 / (1 + np.exp(-4 * np.sin(2 * x[:, 0]))), 1.0, -1.0)
    data = {"x": x, "t": t, "count": len(x), "nodes": nodes, "weights": weights}
    curves = {}
    for title, schedule in (("in turn", in_turn), ("at once", at_once)):
        p, adam = start(x, 12), Adam(rate=0.05)
        bounds = curves[title] = [model[0].forward(**data, **p).sum()]
        for _ in range(rounds):
            p = schedule(model, data, p, adam)
            bounds.append(model[0].forward(**data, **p).sum())
    print("   round   " + "".join(f"{title:>12}" for title in curves))
    for n in sorted({0, 1, 2, 5, 10, 30, rounds}):
        print(f"   {n:5}   " + "".join(f"{bounds[n]:12.4f}" for bounds in curves.values()))
    return curves


def main():
    gaussian()
    curves = bernoulli()

    def draw(figure):
        axes = figure.subplots()
        for (title, bounds), style in zip(curves.items(), ("-", "--"), strict=True):
            axes.plot(range(1, len(bounds)), bounds[1:], style, label=title)
        axes.set(xlabel="round", ylabel="evidence bound", title="Natural gradient steps and Adam")
        axes.legend()

    saved("sparse_gaussian_process.png", draw)


if __name__ == "__main__":
    main()
