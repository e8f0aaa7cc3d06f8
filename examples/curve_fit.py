"""How do I fit a curve with a Levenberg-Marquardt of my own, and is it as good as SciPy's?

Two overlapping peaks on a sloping base. `J.solve(residual, damping)` is the whole step, the rest is
the choice of the damping. From several guesses the fit is held against both methods of
`scipy.optimize.least_squares` for the same model and the same test of convergence: it ends in the
same minimum, after no more evaluations of the model and no more of its Jacobian.
"""

from functools import partial

import numpy as np
from plots import saved

import symgrad as sg

PEAKS = '''
"""Peaks on a sloping base."""
x: input
height: param[k]
centre: param[k]
log_width: param[k]
base: param
slope: param

peak[i] = height[i] * exp(-((x - centre[i]) * exp(-log_width[i]))**2 / 2)
y = sum(peak) + base + slope * x
'''


TRUTH = {
    "height": np.array([2.0, 1.0]),
    "centre": np.array([-0.6, 0.9]),
    "log_width": np.log([0.6, 0.4]),
    "base": np.array(0.3),
    "slope": np.array(0.1),
}
GUESSES = 5
TOLERANCE = 1e-8


class Counted:
    """A model that counts how often its values and its Jacobians are asked for."""

    def __init__(self, jac):
        self.jac, self.values, self.jacobians = jac, 0, 0

    def forward(self, x, p):
        """Return the values, `[B]`."""
        self.values += 1
        return self.jac.forward(x, p)

    def jacobian(self, x, p):
        """Return the Jacobians with respect to all parameters."""
        self.jacobians += 1
        return self.jac.jacobian(x, p)


def fit(model, x, t, p, damping=1.0):
    """Return the parameters of the least squares fit, by Levenberg-Marquardt.

    The damping follows Nielsen's rule: it falls, at most tenfold, the better a step did what its
    linear model promised, and rises ever faster while steps do not lower the cost.
    """
    r = t - model.forward(x, p)
    J, rise = model.jacobian(x, p), 2.0
    while True:
        step = J.solve(r, damping)
        trial = {n: p[n] + step[n] for n in p}
        r_linear, r_trial = r - J.jvp(step), t - model.forward(x, trial)
        promised, gained = (1 - (s @ s) / (r @ r) for s in (r_linear, r_trial))
        if gained > 0:
            p, r = trial, r_trial
            damping, rise = damping * max(0.1, 1 - (2 * gained / promised - 1) ** 3), 2.0
        else:
            damping, rise = damping * rise, 2 * rise
        if max(promised, abs(gained)) < TOLERANCE:
            return p
        if gained > 0:
            J = model.jacobian(x, p)


def fit_by_scipy(least_squares, method, model, x, t, p):
    """Return SciPy's fit, as parameters."""
    cuts = np.cumsum([v.size for v in p.values()])[:-1]

    def named(vector):
        parts = np.split(vector, cuts)
        return {n: part.reshape(v.shape) for (n, v), part in zip(p.items(), parts, strict=True)}

    def residual(vector):
        return model.forward(x, named(vector)) - t

    def dense(vector):
        J = model.jacobian(x, named(vector))
        return np.concatenate([block.dense().reshape(len(x), -1) for block in J.values()], axis=1)

    begin = np.concatenate([v.ravel() for v in p.values()])
    tests = dict.fromkeys(("ftol", "xtol", "gtol"), TOLERANCE)
    found = least_squares(residual, begin, dense, method=method, **tests)
    model.values, model.jacobians = found.nfev, found.njev  # its own count: lm looks once more
    return named(found.x)


def fitters():
    """Return the ways to fit, by name; SciPy's where it is installed."""
    found = {"J.solve": fit}
    try:
        from scipy.optimize import least_squares
    except ImportError:
        print("SciPy is not installed: the comparison is left out")
        return found
    for method in ("lm", "trf"):
        found[f"SciPy's {method}"] = partial(fit_by_scipy, least_squares, method)
    return found


def main():
    jac = sg.compile(sg.layer(PEAKS, name="peaks"))
    rng = np.random.default_rng(0)
    x = np.linspace(-3, 3, 80)
    t = jac.forward(x, TRUTH) + 0.05 * rng.normal(size=len(x))
    ways = fitters()
    print("guess   fitted by       cost at the minimum   values   Jacobians")
    for number in range(1, GUESSES + 1):
        guess = {n: v + 0.3 * rng.normal(size=v.shape) for n, v in TRUTH.items()}
        found = {}
        for name, way in ways.items():
            model = Counted(jac)
            p = way(model, x, t, guess)
            r = t - jac.forward(x, p)
            found[name] = (p, r @ r / 2, model.values, model.jacobians)
            print(f"{number:5}   {name:14}{found[name][1]:21.14f}{model.values:9}"
                  f"{model.jacobians:12}")  # fmt: skip
        p, cost, values, jacobians = found["J.solve"]
        for q, other, other_values, other_jacobians in found.values():
            assert abs(cost - other) <= 1e-9 * cost
            assert all(np.allclose(p[n], q[n], atol=1e-4) for n in p)
            assert values <= other_values
            assert jacobians <= other_jacobians
    for n, v in p.items():
        print(f"{n:10} true {np.round(TRUTH[n], 3)!s:16} fitted {np.round(v, 3)}")

    def draw(figure):
        axes = figure.subplots()
        axes.plot(x, t, ".", label="data")
        axes.plot(x, jac.forward(x, guess), "--", label=f"guess {GUESSES}")
        axes.plot(x, jac.forward(x, p), label="fit")
        axes.legend()

    saved("curve_fit.png", draw)


if __name__ == "__main__":
    main()
