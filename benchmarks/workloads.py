"""The workloads: W1 to W8 as measured elsewhere, sequences (W9-W12), Hessians (W13-W15), calls.

-> Workloads
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from benchmarks import by_hand
from benchmarks.layers import DENSE, MLP
from benchmarks.samples import (
    ATTENTION,
    CONVOLUTION,
    FACTORISATION,
    LAYER_NORM,
    LOGISTIC,
    LSTM,
    PRODUCT,
    SIGMOID_MLP,
    SMALL_NET,
    attention,
    convolution,
    dense_layer,
    factorisation,
    layer_norm,
    logistic,
    lstm,
    mlp,
    product,
    sigmoid_mlp,
    small_net,
)
from benchmarks.workload import (
    BY_HAND,
    FRAMEWORK,
    LIMIT,
    YARDSTICK,
    Network,
    Quantity,
    Target,
    Workload,
)

WRITES = Target(LIMIT, 0.85)
"""Times faster than the limit: at least 85 % of what the machine can write."""


def ahead(times: float) -> Target:
    """Return a target against the best framework with huge pages."""
    return Target(FRAMEWORK, times, huge=True)


ONE = Network("tanh", (("W", "b"),), final=True)
THREE = Network("tanh", (("W1", "b1"), ("W2", "b2"), ("W3", "b3")))
TWO = Network("sigmoid", (("W1", "b1"), ("W2", "b2")))


COMPACT = "compact into out="


def without_zeros(least: float) -> tuple[Quantity, ...]:
    """Return what is not zero of dY/dW, compact and in factors: the better of both is judged."""
    aim = (Target(YARDSTICK, 1 / least, either=COMPACT),) if least else ()
    return (
        Quantity(COMPACT, "compact", by_hand.dense_layer_compact),
        Quantity("factors", "factors", by_hand.dense_layer_factors, aim),
    )


def one_layer(
    name: str, sizes: dict[str, int], dense: tuple[Target, ...], least: float
) -> Workload:
    """Return dY/dW of a dense layer at a size: dense, and compact or in factors."""
    asked = Quantity("dense into out=", "dense", by_hand.dense_layer, dense, limited=True)
    quantities = (asked, *without_zeros(least))
    title = f"dY/dW of tanh(W x + b), b={sizes['B']}, {sizes['n']} -> {sizes['m']}"
    return Workload(name, title, DENSE, sizes, dense_layer, quantities, wrt=("W",), network=ONE)


def network(
    name: str,
    title: str,
    of: tuple[Any, ...],
    sizes: dict[str, int],
    quantities: Iterable[Quantity],
    wrt: tuple[str, ...] | str = "params",
) -> Workload:
    """Return a workload of an MLP."""
    text, sample, layers = of
    return Workload(name, title, text, sizes, sample, tuple(quantities), wrt, network=layers)


TANH, SIGMOID = (MLP, mlp, THREE), (SIGMOID_MLP, sigmoid_mlp, TWO)
W3_SIZES = {"B": 256, "n": 32, "h": 64, "k": 64, "m": 10}
W4_SIZES = {"B": 64, "n": 784, "h": 128, "m": 10}


def all_of_it(least: float) -> tuple[Quantity, ...]:
    """Return dense Jacobians and factors of a network, by all its parameters."""
    dense = (ahead(2),)
    return (
        Quantity("dense into out=", "dense", by_hand.network_dense, dense, limited=True),
        Quantity("factors", "factors", by_hand.factors, (Target(YARDSTICK, 1 / least),)),
    )


SOME = (Quantity("dense into out=", "dense", by_hand.network_dense, (Target(BY_HAND, 1.1),)),)
NTK = (Target("jax", 9, huge=True), Target(BY_HAND, 1.1))

W2_SIZES = {"B": 4096, "n": 6, "m": 3}
W2 = Workload(
    "W2",
    "dY/dW of tanh(W x + b), b=4096, 6 -> 3",
    DENSE,
    W2_SIZES,
    dense_layer,
    (
        Quantity(
            "dense into out=, sizes fixed",
            "dense",
            by_hand.dense_layer,
            (Target(FRAMEWORK, 2),),
            fixed=True,
            limited=True,
        ),
        Quantity("dense into out=", "dense", by_hand.dense_layer, (Target(FRAMEWORK, 1.2),)),
        *without_zeros(0.6),
    ),
    wrt=("W",),
    network=ONE,
)


def scalars(name: str, title: str, domain: str, hand: Any, times: float) -> Workload:
    """Return d/da and d/db of exp(log(b a x) + c), 1e6 samples."""
    text = PRODUCT.replace("y =", f"{domain}\ny =")
    asked = Quantity("dense into out=", "dense", hand, (Target(FRAMEWORK, times),), limited=True)
    sizes = {"B": 1_000_000}
    return Workload(name, title, text, sizes, product, (asked,), ("a", "b"), positive=True)


def sequence(
    name: str, title: str, text: str, sample: Any, sizes: dict[str, int], hand: Any, **rest: Any
) -> Workload:
    """Return the dense Jacobians of a layer by all its parameters."""
    aim = (ahead(2),)
    asked = Quantity("dense into out=", "dense", hand, aim, limited=True)
    return Workload(name, title, text, sizes, sample, (asked,), **rest)


def summed(
    name: str, title: str, text: str, sample: Any, sizes: dict[str, int], hand: Any
) -> Workload:
    """Return the Hessian of a sum over samples by all pairs of parameters."""
    aims = (Target("torch.func", 3), Target("jax", 3))
    asked = Quantity("summed Hessian", "hessian_sum", hand, aims)
    return Workload(name, title, text, sizes, sample, (asked,), order=2)


WORKLOADS = (
    one_layer("W1a", {"B": 256, "n": 64, "m": 32}, (WRITES, ahead(2.5)), 0.6),
    one_layer("W1b", {"B": 1024, "n": 32, "m": 16}, (WRITES,), 0),
    one_layer("W1c", {"B": 64, "n": 256, "m": 64}, (WRITES, ahead(2)), 0.6),
    W2,
    network("W3", "MLP 32-64-64-10 tanh, b=256", TANH, W3_SIZES, all_of_it(0.9)),
    network("W4", "MLP 784-128-10 sigmoid, b=64", SIGMOID, W4_SIZES, all_of_it(0.6)),
    network("W5a", "first bias and last weight of W3", TANH, W3_SIZES, SOME, ("b1", "W3")),
    network("W5b", "first bias and last weight of W4", SIGMOID, W4_SIZES, SOME, ("b1", "W2")),
    network(
        "W6",
        "empirical tangent kernel of W3, b=128",
        TANH,
        {**W3_SIZES, "B": 128},
        (Quantity("gram", "gram", by_hand.tangent_kernel, NTK),),
    ),
    network(
        "W7v",
        "GGN times a vector, W3",
        TANH,
        W3_SIZES,
        (Quantity("ggn_matvec", "ggn_matvec", by_hand.curvature_product, (Target("jax", 1.2),)),),
    ),
    network(
        "W7d",
        "diagonal of the GGN, W3",
        TANH,
        W3_SIZES,
        (
            Quantity(
                "ggn_diagonal",
                "ggn_diagonal",
                by_hand.curvature_diagonal,
                (Target("torch.compile", 2.5),),
            ),
        ),
    ),
    scalars("W8a", "d/da, d/db of exp(log(b a x) + c), 1e6", "", by_hand.as_written, 2),
    scalars("W8b", "the same with assert a*b*x > 0", "assert a*b*x > 0", by_hand.with_domain, 6),
    sequence(
        "W9",
        "conv1d, 16 -> 32 channels, 5 taps, T=60, b=16",
        CONVOLUTION,
        convolution,
        {"B": 16, "c": 16, "T": 64, "o": 32, "k": 5},
        by_hand.convolution,
        small={"B": 3, "c": 2, "T": 7, "o": 4, "k": 3},
        without={
            "torch.compile": "it compiles this for more than five minutes",
            "jax": "a call of vmap(jacrev) takes more than a minute",
        },
    ),
    sequence(
        "W10",
        "attention head, 32 tokens of 64, d=32, b=4",
        ATTENTION,
        attention,
        {"B": 4, "T": 32, "n": 64, "d": 32},
        by_hand.attention,
    ),
    sequence(
        "W11",
        "layer norm, 32 tokens of 128, b=32",
        LAYER_NORM,
        layer_norm,
        {"B": 32, "T": 32, "n": 128},
        by_hand.layer_norm,
        positive=True,
    ),
    sequence(
        "W12",
        "LSTM over 32 steps, 16 -> 32, last state, b=32",
        LSTM,
        lstm,
        {"B": 32, "T": 32, "n": 16, "m": 32},
        None,
        without={"torch.compile": "it unrolls the steps, and compiles for minutes"},
    ),
    summed(
        "W13",
        "logistic regression, 1000 samples of 200",
        LOGISTIC,
        logistic,
        {"B": 1000, "n": 200},
        by_hand.logistic_hessian,
    ),
    summed(
        "W14",
        "matrix factorisation, 100 x 100, rank 5, by one factor",
        FACTORISATION,
        factorisation,
        {"m": 100, "n": 100, "k": 5},
        by_hand.factorisation_hessian,
    ),
    summed(
        "W15",
        "small net 16-20-8, cross-entropy, b=256",
        SMALL_NET,
        small_net,
        {"B": 256, "n": 16, "h": 20, "m": 8},
        None,
    ),
    Workload(
        "conversation",
        "dY/dW and dY/db of tanh(W x + b), b=5, 6 -> 3",
        DENSE,
        {"B": 5, "n": 6, "m": 3},
        dense_layer,
        (Quantity("dense into out=", "dense", None, (Target(YARDSTICK, 1 / 0.3),)),),
    ),
    Workload(
        "tiny",
        "one sample, dY/dW of tanh(W x + b), 6 -> 3: a call of the module",
        DENSE,
        {"n": 6, "m": 3},
        dense_layer,
        (Quantity("dense into out=", "dense", by_hand.dense_layer, (Target("", 3e-6),)),),
        wrt=("W",),
    ),
)


def chosen(names: Iterable[str]) -> list[Workload]:
    """Return workloads by name: `W1` means W1a, W1b and W1c; all of them without names.

    Raises ValueError for a name that means none.
    """
    wanted = list(names)
    if not wanted:
        return list(WORKLOADS)
    for name in wanted:
        if not any(means(name, one) for one in WORKLOADS):
            known = ", ".join(one.name for one in WORKLOADS)
            raise ValueError(f"no workload is called {name!r}; there are {known}")
    return [one for one in WORKLOADS if any(means(name, one) for name in wanted)]


def means(name: str, one: Workload) -> bool:
    """Return whether a name means a workload; a letter at its end may be left out."""
    return name in (one.name, one.name.rstrip("abcdv"))
