"""The public cases: value, Jacobians (dense and structured), VJP and JVP of every layer.

Two arrays agree where |a - b| <= rtol * (|b| + 1e-3 * max|b|) + 1e-12; products with random
vectors at ten times rtol. The numbers come from PyTorch in float64, one sample at a time.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import symgrad as sg

FOLDER = Path(__file__).parent / "cases"
CASES = [pytest.param(path, id=path.stem) for path in sorted(FOLDER.glob("*.json"))]


def agree(actual, expected, rtol):
    expected = np.asarray(expected, float)
    assert np.shape(actual) == expected.shape
    scale = np.max(np.abs(expected), initial=0.0)
    bound = rtol * (np.abs(expected) + 1e-3 * scale) + 1e-12
    assert np.all(np.abs(actual - expected) <= bound)


@pytest.fixture(params=CASES)
def case(request):
    data = json.loads(request.param.read_text())
    arrays = {
        name: np.asarray(value, float if not name.startswith("#") else int)
        for name, value in data["arrays"].items()
    }
    layer = sg.layer(data["layer"], name=data["name"])
    for declaration in layer.declarations:
        if declaration.role == "index":
            arrays[declaration.name] = arrays[declaration.name].astype(int)
    compiled = sg.compile(layer, wrt=data["wrt"])
    expected = {
        j["wrt"]: np.reshape(np.asarray(j["values"], float), j["shape"]) for j in data["jacobians"]
    }
    return data, compiled, arrays, expected


def test_value_and_every_form_of_the_jacobian(case):
    data, compiled, arrays, expected = case
    rtol = data["rtol"]
    value = compiled.forward(arrays)
    agree(value, data["outputs"]["0"], rtol)
    J = compiled.jacobian(**arrays)
    agree(J.value, data["outputs"]["0"], rtol)
    assert set(J) == set(expected)
    rng = np.random.default_rng(1)
    u = rng.normal(size=np.shape(value))
    pulled = compiled.vjp(arrays, u)
    per_sample = compiled.vjp_per_sample(arrays, u)
    batch = u.shape[0]
    inputs = {d.name for d in compiled.layer.declarations if d.role == "input"}
    total = np.zeros_like(u)
    tangents = {}
    for name, right in expected.items():
        block = J[name]
        assert block.shape == right.shape
        agree(block.dense(), right, rtol)
        agree(np.asarray(block), right, rtol)
        agree(getattr(compiled, f"jac_{name}")(**arrays), right, rtol)
        out = np.full(right.shape, np.nan)
        assert getattr(compiled, f"jac_{name}")(**arrays, out=out) is out
        agree(out, right, rtol)
        flat = right.reshape(batch, int(np.prod(u.shape[1:])), -1)
        rows = np.einsum("bo,bop->bp", u.reshape(batch, -1), flat)
        own = right.shape[u.ndim :]
        agree(per_sample[name], rows.reshape(batch, *own), 10 * rtol)
        agree(block.per_sample_vjp(u), rows.reshape(batch, *own), 10 * rtol)
        summed = rows.reshape(batch, *own) if name in inputs else rows.sum(0).reshape(own)
        agree(pulled[name], summed, 10 * rtol)
        agree(block.vjp(u), summed, 10 * rtol)
        agree(block.norm(), np.sqrt((flat**2).sum((1, 2))), 10 * rtol)
        v = rng.normal(size=(batch, *own) if name in inputs else own)
        tangents[name] = v
        part = np.einsum(
            "bop,bp->bo" if name in inputs else "bop,p->bo",
            flat,
            v.reshape(batch, -1) if name in inputs else v.reshape(-1),
        )
        agree(block.jvp(v), part.reshape(u.shape), 10 * rtol)
        total += part.reshape(u.shape)
    agree(compiled.jvp(arrays, tangents), total, 10 * rtol)
    agree(J.jvp(tangents), total, 10 * rtol)
    y, pull = compiled.pullback(**arrays)
    agree(y, data["outputs"]["0"], rtol)
    again = pull(u)
    for name in expected:
        agree(again[name], pulled[name], 1e-12)
