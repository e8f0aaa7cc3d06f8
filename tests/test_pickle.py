"""Laws of copies: what is pickled comes alive in another process and gives the same numbers."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from layers import TEXTS, arrays_for, compiled

import symgrad as sg


@pytest.fixture(scope="module")
def jac():
    return compiled(TEXTS["dense"], plain=False, name="dense")


def same(first, second):
    """Whether two compiled layers give the same bytes."""
    arrays = arrays_for(first)
    J, K = first.jacobian(**arrays), second.jacobian(**arrays)
    return list(J) == list(K) and all(np.array_equal(J[k], K[k]) for k in J)


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda j: pickle.loads(pickle.dumps(j))])
def test_a_copy_is_the_same_compiled_layer(jac, way):
    for one in (jac, jac.select("W"), jac.select("inputs")):
        other = way(one)
        assert same(one, other)
        assert (other.layer, other.wrt, other.source) == (one.layer, one.wrt, one.source)
        assert (other.name, other.path, other.report) == (one.name, one.path, one.report)


def test_a_pickle_outlives_its_file(tmp_path):
    jac = compiled(TEXTS["dense"], plain=False, path=tmp_path / "dense_jac.py")
    packed = pickle.dumps(jac)
    jac.path.unlink()
    other = pickle.loads(packed)
    assert other.path.is_file() and other.path != jac.path
    assert same(jac, other)
    jac.path.write_text("raise SystemExit\n")
    assert same(jac, pickle.loads(packed)), "another file of that name is not run"


@pytest.mark.parametrize("way", [copy.deepcopy, lambda j: pickle.loads(pickle.dumps(j))])
@pytest.mark.parametrize("name", ["dense", "two", "embedding"])
def test_jacobians_are_copied_with_what_they_are_made_of(name, way):
    one = compiled(TEXTS[name], plain=False, name=name)
    J = one.jacobian(**arrays_for(one))
    K = way(J)
    assert list(K) == list(J)
    for key in J:
        np.testing.assert_array_equal(K[key], J[key])
        assert (K[key].formula, K[key].shape) == (J[key].formula, J[key].shape)
        for label, factor in K[key].factors().items():
            assert not np.shares_memory(factor, J[key].factors()[label])


def test_layers_and_derivations_are_pickled(jac):
    derivation = sg.derive(TEXTS["dense"])
    assert pickle.loads(pickle.dumps(derivation)).text() == derivation.text()
    assert pickle.loads(pickle.dumps(jac.layer)) == jac.layer


def test_a_process_that_shares_nothing_computes_with_it(tmp_path):
    script = tmp_path / "spawned.py"
    script.write_text(
        textwrap.dedent(
            """
            import multiprocessing
            import numpy as np
            import symgrad as sg

            if __name__ == "__main__":
                jac = sg.compile("tanh(W @ x + b)", check=False)
                x, W, b = np.ones((4, 3)), np.eye(2, 3), np.ones(2)
                with multiprocessing.get_context("spawn").Pool(1) as pool:
                    J = pool.apply(jac.jacobian, (x, W, b))
                    dense = pool.apply(jac.jac_W, (x, W, b))
                np.testing.assert_array_equal(J["W"], dense)
                np.testing.assert_array_equal(jac.jac_W(x, W, b), dense)
                print("same")
            """
        )
    )
    environment = {**os.environ, "SYMGRAD_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, str(script)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout == "same\n", done.stderr
