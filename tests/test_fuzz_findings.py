"""Faults that random layers found, each as the smallest layer that showed it."""

from __future__ import annotations

import numpy as np
import pytest
from fuzz.laws import Refused, faults

import symgrad as sg
from symgrad.check import check
from symgrad.derive import derive
from symgrad.select import select

SEEDS = range(5)
"""Each draws sizes 1 to 3, batches 1 to 3 and numbers of its own."""

FINDINGS = {
    "a slope that is called by name reads no definition of its argument's name": (
        "U: param[d]\nW: param[1]\nh = tanh(log_softmax(U))\n"
        "y[q] = mish(sum[s](W[s])) + W[q]\n"
    ),
    "a step backwards sums over two axes of what it reads": (
        "x: input[T, n]\nU: param[2, n, n]\nz[t: T] = U @ h[t - 1]\n"
        "h[t: T] = tanh(z[t, 0]) * z[t, 1] + x[t]\n"
    ),
    "a sum of what its index does not stand in is no view": (
        "U: param[m]\nc: const = 0.5\na: param\ny = tanh(sum[k: 3](a)) * U\n"
        "z[i] = exp(sum[k: 3](U[i])) + tanh(sum[k: 2](c))\nreturn y, z\n"
    ),
    "an extremum over two axes of each row keeps the rows apart":
        "b: param[n, n, 2]\ny[j] = min(b[j], axis=None)\n",
    "an extremum over two indices reads rows of its own in tangents":
        "c: param[p]\nv: input[2]\ny[q: 2, i] = min[s, t](v[s] + c[t] * i) * v[i]\n",
    "an index array without axes is taken from a single sample too":
        "t: index(n)\nw: input[n, n]\nv: input[n]\ny[j] = w[j][t] + v[j]\n",
    "a factor of a shifted term is read only inside its guard":
        "r: const[n + 3, n]\nc: param[n]\nw: param[n, p]\n"
        "y[j] = sum[l](r[2 + n, l] * c[n - j - 1]) * w[j + 1, 0]\n",
    "an inner sum of a shifted term is read only inside its guard":
        "v: input\nx: input[n + 3, m]\nU: param[n]\ny[q: 1, i] = (x[i + n, 0] + v) * U[i]\n",
    "a slope of a shifted term is read only inside its guard":
        "W: param[n + 1]\nb: param[n]\ny[i: n] = tanh(b[i]) * W[i + 1] ** 2\n",
    "a reduction inside concatenate has its own axes":
        "W: param[d, p, 3]\nv: input[d, m]\ny = concatenate([sum(W), v], axis=1)\n",
    "an extremum inside concatenate has its own axes":
        "x: input[3, n, 4]\nv: input[1, 2]\ny = concatenate([mean(max(x)), max(v)])\n",
    "what stop_gradient holds inside pad has its own axes":
        "w: param[n]\ny = pad(2 * w - stop_gradient(w), ((0, 1),))\n",
    "padding a gather reads no index beside the index array":
        "t: index(n)[n]\nb: param[m, n]\ny = pad(b[:, t], (0, 1))\n",
    "a gather that a sum over samples runs over is summed once":
        "t: index(p)[1]\nc: param[p]\nh = leaky_relu(cumsum(c)[t], 2)\n",
    "factors keep the order of an array's own axes":
        "b: param[d, p, 1]\nW: param[d, p, 1]\nc: param[p]\n"
        "y[i, q, j] = einsum('iql,l->i', b, W[j, q]) + c[i]\n",
    "axes in a structure are not called like its dims":
        "U: param[2, p, 3, 3]\ny[i, q: p] = U[i + q][::-1]\n",
    "equal factors of a product stay as many":
        "b: param\nU: param\nz = square(b * U)\n",
    "a matrix product with a part of an array takes that part":
        "c: param[2, d]\nb: param[d]\ny = c[:d] @ b\n",
    "a factor that is a part of an array is that part":
        "w: input[5, 4]\nx: input[2]\nv: input[2]\ny[q, i] = softmax(w[4])[:2] * x[q] + v[i]\n",
    "a part of a softmax can be gathered from":
        "t: index(n)[3]\nx: input[n]\ny = softmax(x)[::-1][t]\n",
    "rows that several samples gather are added up":
        "t: index(2)\nE: param[2, d]\nW: param[m, d]\ny = W @ E[t]\n",
    "a sum of zeros can be read": "w: input[2]\nh = w @ zeros((2, 2)) @ w\n",
    "one Jacobian is read only when all its terms are added":
        "b: param[3, n, 3]\nW: param[3]\nU: param[3]\n"
        "y[j, i] = (sum[t](b[t, j] * W[t]) + 2) * U[i]\n",
    "a slope of order one that cancels is no disagreement":
        "U: param[1, m]\ny = var(normalize(U, axis=0), axis=(0, -1))\n",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SYMGRAD_CACHE", str(tmp_path))


@pytest.mark.parametrize("name", FINDINGS)
def test_finding(name):
    tested = 0
    for seed in SEEDS:
        try:
            found = faults(FINDINGS[name], "all", seed, differences=seed == 0, explained=seed == 0)
        except Refused as refused:
            assert "size" in str(refused) or "point" in str(refused)
            continue
        tested += 1
        assert found == []
    assert tested


def test_a_constant_layer_is_not_refused_for_rounding():
    text = FINDINGS["a slope of order one that cancels is no disagreement"]
    assert sg.compile(text).report.ok


def test_definitions_of_a_split_extremum_share_no_index():
    program = check(sg.layer("b: param[n, m, p]\ny[j] = max(b[j], axis=None)\n"))
    prepared = derive(program, select(program, "all")).program
    own = [i for d in prepared.definitions for i in d.indices]
    assert len(set(own)) == len(own)


def test_a_gather_by_one_number_works_without_a_batch_axis():
    jac = sg.compile("t: index(v)\nE: param[v, d]\ny = tanh(E[t])", check=False)
    E = np.arange(6.0).reshape(3, 2)
    np.testing.assert_array_equal(jac.forward(2, E), jac.forward(np.array([2]), E)[0])
