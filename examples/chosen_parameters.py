"""Derivatives with respect to some parameters, without editing the model.

First a model of three scalars. Then a model that came as somebody else's text, `rbf_model.sg`,
whose two groups of parameters are trained by two rules in turn, from one compiled module: natural
gradient steps for the belief q, Adam for the kernel, which is frozen for a while and thawed again.
"""

import copy
import time
from pathlib import Path

import numpy as np

import symgrad as sg

MODEL = "exp(log(b*a*x) + c)"
SCALARS = {"inputs": {"x": ""}, "params": {"a": "", "b": "", "c": ""}}
POINT = {"x": np.array([1.0]), "a": 1.0, "b": 2.0, "c": 3.0}


def values(jac):
    """Return {θ: ∂f/∂θ} at the point."""
    return {name: float(block.dense()[0]) for name, block in jac.jacobian(**POINT).items()}


def three_scalars():
    """Print the derivatives for four ways to choose."""
    model = sg.layer(MODEL, **SCALARS)
    wanted = sg.compile(model, wrt=["a", "b"])
    print(f"1. f = {MODEL}, a = 1, b = 2, c = 3, x = 1: f = {wanted.forward(**POINT)[0]:.6f}")
    for title, jac in (
        ("a and b only", wanted),
        ("all parameters but c", sg.compile(model).select(["*", "!c"])),
        ("all parameters", sg.compile(model)),
    ):
        print(f"   {title + ':':22}", {k: round(v, 6) for k, v in sorted(values(jac).items())})
    assert sorted(values(wanted)) == ["a", "b"]
    assert not any(hasattr(wanted.module, name) for name in ("jac_c", "jac_c_factors"))
    stopped = sg.compile(sg.layer(MODEL.replace("c", "stop_gradient(c)"), **SCALARS))
    gradient = stopped.gradient(**{k: np.float32(v) for k, v in POINT.items()})
    zero = gradient["c"]
    assert (zero, zero.shape, zero.dtype) == (0, (), np.float32)
    print(
        "   stop_gradient(c):      ", {k: round(v, 6) for k, v in sorted(values(stopped).items())}
    )
    print("   Absent is no key and no code; stopped is a zero of c's own shape and dtype.")
    tidy = sg.derive(f"x: input\na: param\nb: param\nc: param\nassert a*b*x > 0\ny = {MODEL}\n")
    print("   Where a b x > 0 it simplifies:", tidy["a"].text())


class Adam:
    """Adam; it moves the parameters it is given gradients for, and knows no others."""

    def __init__(self, rate):
        self.rate, self.first, self.second, self.steps = rate, {}, {}, {}

    def step(self, parameters, gradients):
        """Return the parameters after one step."""
        moved = dict(parameters)
        for name, g in gradients.items():
            n = self.steps[name] = self.steps.get(name, 0) + 1
            m = self.first[name] = 0.9 * self.first.get(name, 0.0) + 0.1 * g
            v = self.second[name] = 0.999 * self.second.get(name, 0.0) + 0.001 * g**2
            change = (m / (1 - 0.9**n)) / (np.sqrt(v / (1 - 0.999**n)) + 1e-8)
            moved[name] = parameters[name] - self.rate * change
        return moved


def natural_step(parameters, gradients, rate):
    """Return the belief after a natural gradient step in a Gaussian's own parameters.

    With precision λ = e^(-2s), s = log std, and a rate r:
    λ ← λ (1 + r ∂L/∂s), then mean ← mean - r ∂L/∂mean / λ.
    """
    precision = np.exp(-2 * parameters["q_log_std"]) * (1 + rate * gradients["q_log_std"])
    return {
        **parameters,
        "q_mean": parameters["q_mean"] - rate * gradients["q_mean"] / precision,
        "q_log_std": -np.log(precision) / 2,
    }


def kernels_compiled(jac):
    """Return how many machine-code versions of the module's kernels there are by now."""
    return sum(len(getattr(f, "signatures", ())) for f in vars(jac.module).values())


def samples_and_start():
    """Return 64 noisy samples of a sine, and the parameters before training."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 3, size=(64, 1))
    data = {"x": x, "t": np.sin(2 * x[:, 0]) + 0.05 * rng.normal(size=64), "count": 64.0}
    data["centres"] = np.linspace(-3, 3, 12)[:, None]
    start = {"kernel_log_length": -2.0, "kernel_log_scale": -1.0}  # too narrow to fit
    return data, start | {"q_mean": np.zeros(12), "q_log_std": np.full(12, -1.0)}


def two_rules(factor=30.0, most_rounds=400):
    """Train until the loss is down by a factor; the kernel is frozen in rounds 11 to 30."""
    print("\n2. Two groups of parameters, two rules, one compiled module")
    data, p = samples_and_start()
    whole = sg.compile(sg.load(Path(__file__).with_name("rbf_model.sg")))
    begin = time.perf_counter()
    belief, kernel = whole.select("q_*"), whole.select("kernel_*")
    print(f"   selecting took {1e3 * (time.perf_counter() - begin):.2f} ms and compiled nothing")
    print("   natural gradient:", ", ".join(belief.wrt), "  Adam:", ", ".join(kernel.wrt))
    assert belief.module is kernel.module is whole.module

    adam = Adam(rate=0.02)
    first = loss = whole.forward(**data, **p).mean()
    print(f"   round   0: loss {first:7.3f}")
    done = 0
    while done <= 30 or loss > first / factor:
        done += 1
        assert done <= most_rounds, f"the loss is only {first / loss:.1f} times lower"
        p = natural_step(p, belief.gradient(**data, **p), rate=0.1)
        if 10 < done <= 30:
            before = p
            p = adam.step(p, {})  # absent: no gradient, no momentum
            assert all(p[name] is before[name] for name in kernel.wrt)
        else:
            p = adam.step(p, kernel.gradient(**data, **p))  # taken at the new belief
        loss = whole.forward(**data, **p).mean()
        if done == 1:
            compiled = kernels_compiled(whole)
        if done == 10:
            print(f"   round  10: loss {loss:7.3f}, kernel frozen")
        if done == 30:
            print(f"   round  30: loss {loss:7.3f}, kernel thawed")
            absent_is_not_zeroed(adam, p, kernel.wrt)
    print(f"   round {done:3}: loss {loss:7.3f}, {first / loss:.1f} times lower than at the start")
    assert loss <= first / factor
    assert kernels_compiled(whole) == compiled
    print(f"   kernels compiled: {compiled} after the first round, {compiled} after the last")


def absent_is_not_zeroed(adam, p, names):
    """Show that a zero gradient moves a parameter under Adam, and an absent one does not."""
    absent = adam.step(p, {})
    zeroed = copy.deepcopy(adam).step(p, dict.fromkeys(names, 0.0))
    for name in names:
        assert absent[name] == p[name] != zeroed[name]
        print(
            f"   {name}: absent moves it by {absent[name] - p[name]:.0e}, "
            f"a zeroed gradient by {zeroed[name] - p[name]:.0e}"
        )


def main():
    three_scalars()
    two_rules()


if __name__ == "__main__":
    main()
