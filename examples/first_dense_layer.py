"""A dense layer, y = Wx + b and y = σ(Wx + b): which derivative did I want?

Three different things are easily taken for one another: the Jacobian with respect to the weights,
the Jacobian with respect to the input, and the gradient of the sum over samples. Here they stand
side by side, and the derivation by hand is confirmed.
"""

import numpy as np

import symgrad as sg

X = np.array([[0.5, -1.0, 2.0], [1.0, 0.0, -1.0], [0.0, 3.0, 0.5]])  # three samples, one a row
W = np.array([[0.2, -0.4, 0.1]])
b = np.array([0.3])


def shown(array):
    """Return an array on one line."""
    return np.array2string(np.asarray(array), precision=6, separator=", ").replace("\n", "")


def by_hand():
    """Confirm the derivation by hand, with one output and with several."""
    print("1. The derivation by hand")
    linear = sg.derive("W x + b", dims={"m": 1})
    assert linear["W"].text("matrix") == "∂y/∂W = x"
    assert linear["b"].text("matrix") == "∂y/∂b = 1"
    one = sg.derive("σ(W x + b)", dims={"m": 1})
    assert one["W"].text("matrix") == "∂y/∂W = x σ'(Wx + b)"
    assert one["b"].text("matrix") == "∂y/∂b = σ'(Wx + b)"
    for title, d in (("y = Wx + b, one output:", linear), ("y = σ(Wx + b), one output:", one)):
        print(f"   {title:28}", d["W"].text("matrix"), "  and  ", d["b"].text("matrix"))
    several = sg.derive("σ(W x + b)")
    print("   several outputs:            ", several["W"].text())
    print("                               ", several["b"].text())
    print("   There was no mistake: for one output the δ is 1 and the hand derivation is exact.")


def numbers(title, text, slope_of):
    """Print the three derivatives of a layer for all samples and check each by hand."""
    jac = sg.compile(text, wrt="all")
    J = jac.jacobian(X, W, b)
    slope = slope_of(X @ W.T + b)  # [3 samples, 1]
    per_sample, wrt_x = J["W"].dense(), J["x"].dense()
    summed = jac.gradient(X, W, b, sum=True)
    print(f"\n{title}")
    print("   ∂y/∂W per sample   ", J["W"].shape, shown(per_sample))
    print("   ∂y/∂b per sample   ", J["b"].shape, shown(J["b"]))
    print("   ∂y/∂x              ", J["x"].shape, shown(wrt_x))
    print("   ∂(sum of y)/∂W     ", summed["W"].shape, shown(summed["W"]))
    assert np.allclose(per_sample, (slope * X)[:, None, None, :])
    assert np.allclose(J["b"], slope[:, :, None])
    assert np.allclose(wrt_x, slope[:, :, None] * W)
    assert np.allclose(summed["W"], per_sample.sum(axis=(0, 1)))
    assert np.allclose(summed["W"], jac.vjp(X, W, b, np.ones((3, 1)))["W"])
    return jac


def main():
    by_hand()
    numbers("2. y = Wx + b", "W x + b", np.ones_like)
    jac = numbers(
        "3. y = sigmoid(Wx + b)",
        "sigmoid(W x + b)",
        lambda z: 1 / (1 + np.exp(-z)) * (1 - 1 / (1 + np.exp(-z))),
    )
    print(
        "\n4. Which call gave which"
        "\n   jacobian(x -> model(x), X) gave ∂y/∂x: the weights were not its argument."
        "\n   gradient of sum(model(X)) gave ∂(sum of y)/∂W: the samples are added up."
        "\n   ∂y/∂W per sample, the one that was asked for, is jacobian(...)['W']."
        "\n   X is 3×3 here, so no shape tells X from its transpose: samples come first."
    )
    print("\n5. Why there was an error: the gradient of something that is no scalar")
    answer = None
    try:
        jac.gradient(X, W, b)
    except sg.ShapeError as error:
        answer = str(error)
    print("  ", answer)
    assert answer == "y has shape [m]; a gradient needs a scalar: use jacobian, or sum=True"


if __name__ == "__main__":
    main()
