"""Private training clips every sample's gradient: must all of them be in memory for that?

Differentially private gradient descent (Abadi et al., 2016) adds up per-sample gradients, none
longer than a bound, and noise. `J.norm(u)` and `J.clipped_vjp(u, bound)` work with the factors of
the per-sample gradients: no array [samples, *parameter] is made. Both are held against a loop over
the samples, and the memory they took is measured. `u` is 1 for every sample, as the output is its
loss.
"""

import time
import tracemalloc

import numpy as np
from plots import saved

import symgrad as sg

CLASSIFIER = '''
"""The loss of a classifier with one hidden layer."""
x: input[n]
label: index(c)
W1: param[h, n]
b1: param[h]
W2: param[c, h]
b2: param[c]

a = tanh(W1 @ x + b1)
loss = -log_softmax(W2 @ a + b2)[label]
'''
SAMPLES, INPUTS, HIDDEN, CLASSES = 256, 200, 300, 10
BOUND, NOISE, RATE, STEPS = 13.0, 0.5, 0.05, 60


def measured(work):
    """Return what `work` returns, the seconds it took, and the most memory it had, in MB."""
    work()  # numba compiles
    start = time.perf_counter()
    found = work()
    took = time.perf_counter() - start
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found, took, peak / 1e6


def in_a_loop(jac, data, p):
    """Return all norms and the sum of the clipped gradients, sample by sample."""
    norms, total = [], {n: np.zeros_like(v) for n, v in p.items()}
    for x, label in zip(*data, strict=True):
        gradient = jac.gradient(x, label, p)
        norms.append(np.sqrt(sum((g**2).sum() for g in gradient.values())))
        for n, g in gradient.items():
            total[n] += g * min(1, BOUND / norms[-1])
    return np.array(norms), total


def from_factors(jac, data, p):
    """Return the same without a gradient of any single sample."""
    J, u = jac.jacobian(*data, p), np.ones(SAMPLES)
    return J.norm(u), J.clipped_vjp(u, BOUND)


def from_all_gradients(jac, data, p):
    """Return the same from an array of all gradients."""
    gradients = jac.gradient(*data, p, per_sample=True)
    norms = np.sqrt(sum((g.reshape(SAMPLES, -1) ** 2).sum(axis=1) for g in gradients.values()))
    scale = np.minimum(1, BOUND / norms)
    return norms, {n: np.tensordot(scale, g, axes=1) for n, g in gradients.items()}


def compare(jac, data, p):
    """Print time and memory of three ways; they must agree. Return the norms."""
    size = sum(v.size for v in p.values())
    everything = 8 * SAMPLES * size / 1e6
    print(f"{SAMPLES} samples, {size} parameters: all gradients are {everything:.1f} MB")
    ways = {
        "from factors": from_factors,
        "a loop over samples": in_a_loop,
        "all gradients": from_all_gradients,
    }
    found, peaks = {}, {}
    for title, way in ways.items():
        found[title], took, peaks[title] = measured(lambda way=way: way(jac, data, p))
        print(f"   {title:20} {1e3 * took:8.1f} ms   peak {peaks[title]:7.1f} MB")
    norms, clipped = found["from factors"]
    for other_norms, other in found.values():
        assert np.allclose(norms, other_norms, rtol=1e-12)
        assert all(np.allclose(clipped[n], g, rtol=1e-10, atol=1e-12) for n, g in other.items())
    print(f"   norms from {norms.min():.2f} to {norms.max():.2f}, "
          f"{(norms > BOUND).sum()} of {SAMPLES} clipped to {BOUND}: all agree")  # fmt: skip
    assert peaks["from factors"] < everything / 10
    return norms


def main():
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(CLASSES, INPUTS))
    label = rng.integers(0, CLASSES, size=SAMPLES)
    data = (0.3 * centres[label] + rng.normal(size=(SAMPLES, INPUTS)), label)
    shapes = {"W1": (HIDDEN, INPUTS), "W2": (CLASSES, HIDDEN)}
    p = {n: rng.normal(size=s) / np.sqrt(s[1]) for n, s in shapes.items()}
    p |= {"b1": np.zeros(HIDDEN), "b2": np.zeros(CLASSES)}
    jac = sg.compile(sg.layer(CLASSIFIER, name="classifier"))
    norms = compare(jac, data, p)

    losses = []
    u = np.ones(SAMPLES)
    for _ in range(STEPS):
        J = jac.jacobian(*data, p)
        losses.append(J.value.mean())
        for n, g in J.clipped_vjp(u, BOUND).items():
            noise = NOISE * BOUND * rng.normal(size=g.shape)
            p[n] = p[n] - RATE * (g + noise) / SAMPLES
    print(f"private training: loss {losses[0]:.3f}, after {STEPS} steps {losses[-1]:.3f}")
    assert losses[-1] < losses[0] / 2

    def draw(figure):
        left, right = figure.subplots(1, 2)
        left.hist(norms, bins=30)
        left.axvline(BOUND, color="k", linestyle="--")
        left.set(xlabel="norm of a sample's gradient", title="before clipping")
        right.plot(losses)
        right.set(xlabel="step", ylabel="mean loss", title="private training")

    saved("private_gradients.png", draw)


if __name__ == "__main__":
    main()
