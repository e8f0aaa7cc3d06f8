"""Derivatives with respect to some parameters, without editing the model.

First a model of three scalars. Then a model that came as somebody else's text, `rbf_model.sg`,
whose two groups of parameters are trained by two rules in turn, from one compiled module: natural
gradient steps for the belief q, Adam for the kernel, which is frozen for a while and thawed again.
"""

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
    assert gradient["c"] == 0 and gradient["c"].shape == () and gradient["c"].dtype == np.float32
    print("   stop_gradient(c):      ", {k: round(v, 6) for k, v in sorted(values(stopped).items())})
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
    """Return the belief after a step along F⁻¹g; F is diag(e^(-2s)) for means, 2 for s = log std."""
    variance = np.exp(2 * parameters["q_log_std"])
    return {
        **parameters,
        "q_mean": parameters["q_mean"] - rate * variance * gradients["q_mean"],
        "q_log_std": parameters["q_log_std"] - rate * gradients["q_log_std"] / 2,
    }


def kernels_compiled(jac):
    """Return how many machine-code versions of the module's kernels there are by now."""
    return sum(len(getattr(f, "signatures", ())) for f in vars(jac.module).values())


def two_rules(factor=20.0, rounds=200):
    """Train until the loss is down by a factor; the kernel is frozen in rounds 5 to 24."""
    print("\n2. Two groups of parameters, two rules, one compiled module")
    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 3, size=(64, 1))
    data = {"x": x, "t": np.sin(2 * x[:, 0]) + 0.05 * rng.normal(size=64), "count": 64.0}
    data["centres"] = np.linspace(-3, 3, 12)[:, None]
    p = {"kernel_log_length": 0.7, "kernel_log_scale": -1.0}
    p |= {"q_mean": np.zeros(12), "q_log_std": np.full(12, -1.0)}

    whole = sg.compile(sg.load(Path(__file__).with_name("rbf_model.sg")))
    start = time.perf_counter()
    belief, kernel = whole.select("q_*"), whole.select("kernel_*")
    print(f"   selecting took {1e3 * (time.perf_counter() - start):.2f} ms and compiled nothing")
    assert belief.module is kernel.module is whole.module
    adam, seen = Adam(rate=0.05), []

    def loss():
        return whole.forward(**data, **p).mean()

    seen.append(loss())
    print(f"   round   0: loss {seen[0]:8.3f}")
    for round_ in range(1, rounds + 1):
        p = natural_step(p, belief.gradient(**data, **p), rate=0.3)
        frozen = 5 <= round_ < 25
        if frozen:
            held = held if round_ > 5 else {n: p[n] for n in kernel.wrt}
            p = adam.step(p, {})  # absent: no gradient, no momentum, no movement
            assert all(p[n] == held[n] for n in kernel.wrt)
        else:
            p = adam.step(p, kernel.gradient(**data, **p))  # at the new point
        if round_ == 1:
            compiled = kernels_compiled(whole)
        if round_ == 24:
            zeroed = adam.step(p, dict.fromkeys(kernel.wrt, 0.0))
            drift = max(abs(zeroed[n] - held[n]) for n in kernel.wrt)
            break_ = {n: adam.steps[n] for n in kernel.wrt}
        seen.append(loss())
        if round_ in (4, 24) or seen[-1] < seen[0] / factor:
            print(f"   round {round_:3}: loss {seen[-1]:8.3f}", "(kernel frozen)" * frozen)
        if seen[-1] < seen[0] / factor and round_ >= 25:
            break
    assert seen[-1] < seen[0] / factor, f"only {seen[0] / seen[-1]:.1f} times lower"
    assert kernels_compiled(whole) == compiled
    return p


def main():
    three_scalars()
    two_rules()


if __name__ == "__main__":
    main()
