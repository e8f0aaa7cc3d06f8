"""Does the tangent kernel of a random network converge with its width, and how fast?

`J.gram()` is the kernel of a network at hand, Σ over all parameters of ∂y(x)/∂θ ∂y(x')/∂θ. For
infinite width and ReLU it is known in closed form (the arc-cosine kernels of Cho and Saul, the
recursion of Jacot, Gabriel and Hongler). Random networks of growing width are compared with it:
they must deviate from it like 1/√width.
"""

import numpy as np
from plots import saved

import symgrad as sg

NETWORK = '''
"""Two hidden layers of width h, scaled so that values stay of order one."""
x: input[n]
W1: param[h, n]
W2: param[h, h]
w: param[h]

a1 = sqrt(2/n) * (W1 @ x)
a2 = sqrt(2/h) * (W2 @ relu(a1))
y = dot(w, relu(a2)) / sqrt(h)
'''
WIDTHS = (16, 32, 64, 128, 256, 512, 1024)
NETWORKS = 40
"""Random networks a width."""


def infinite_width(x):
    """Return the tangent kernel of the network as h → ∞, `[B, B]`.

    With κ(a, a') the covariance of a hidden layer and c its cosine, the next one's is
    κ₁ = |a| |a'| (√(1 - c²) + c (π - arccos c)) / π, and the tangent kernel goes on as
    Θ ← Θ κ₀ + κ₁, κ₀ = (π - arccos c) / π.
    """
    covariance = 2 * x @ x.T / x.shape[1]
    tangent = covariance
    for _ in range(2):
        length = np.sqrt(np.diag(covariance))
        c = np.clip(covariance / np.outer(length, length), -1, 1)
        falling = (np.pi - np.arccos(c)) / np.pi
        covariance = np.outer(length, length) * (np.sqrt(1 - c**2) / np.pi + c * falling)
        tangent = tangent * falling + covariance
    return tangent / 2


def kernels_of_networks(jac, x, h, rng):
    """Return the tangent kernels of random networks of a width, `[NETWORKS, B, B]`."""
    shapes = {"W1": (h, x.shape[1]), "W2": (h, h), "w": (h,)}
    networks = [{n: rng.normal(size=s) for n, s in shapes.items()} for _ in range(NETWORKS)]
    return np.stack([jac.jacobian(x, p).gram() for p in networks])


def main():
    jac = sg.compile(sg.layer(NETWORK, name="network"))
    rng = np.random.default_rng(0)
    angle = np.linspace(0, np.pi, 13)
    x = np.stack([np.cos(angle), np.sin(angle)], axis=1)  # a half circle: 13 points
    limit = infinite_width(x)
    print(f"{NETWORKS} networks a width, kernels of {len(x)} points; closed form for h = ∞")
    print("   width   ∂y/∂W2 would be      Θ(0, 0)   Θ(0, π/2)   deviation")
    found, deviations = {}, []
    for h in WIDTHS:
        kernels = found[h] = kernels_of_networks(jac, x, h, rng)
        deviations.append(np.sqrt(((kernels - limit) ** 2).mean() / (limit**2).mean()))
        average = kernels.mean(axis=0)
        print(f"   {h:5}   {f'[{len(x)}, {h}, {h}]':18}{average[0, 0]:10.4f}{average[0, 6]:12.4f}"
              f"{deviations[-1]:12.4f}")  # fmt: skip
    print(f"       ∞                     {limit[0, 0]:10.4f}{limit[0, 6]:12.4f}")
    exponent, offset = np.polyfit(np.log(WIDTHS), np.log(deviations), 1)
    print(f"   the deviation falls like width^{exponent:.3f}; the law is width^-0.5")
    assert abs(exponent + 0.5) < 0.06

    def draw(figure):
        left, right = figure.subplots(1, 2)
        for h in WIDTHS[::3]:
            left.plot(angle, found[h][0, 0], label=f"one network, width {h}")
        left.plot(angle, limit[0], "k--", label="infinite width")
        left.set(xlabel="angle between two inputs", ylabel="tangent kernel")
        left.legend()
        right.loglog(WIDTHS, deviations, "o", label="root mean square deviation")
        right.loglog(WIDTHS, np.exp(offset) * np.power(WIDTHS, exponent), label=f"{exponent:.2f}")
        right.set(xlabel="width")
        right.legend()

    saved("wide_networks.png", draw)


if __name__ == "__main__":
    main()
