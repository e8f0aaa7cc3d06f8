"""Threads of generated modules: the same bytes, few threads, no threads left behind."""

import ast
import contextlib
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from layers import TEXTS, arrays_for

import symgrad as sg
from symgrad import build
from symgrad.warm import calls

MATRICES = "x: input[n]\nA: input[n, n]\ny = cholesky(A @ A.T + eye(n)) @ x"
NAMES = ("mlp", "scalars", "layernorm", "embedding", "two")
NONSENSE = [0, -1, "x", 1.5, True]
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
needs_signals = pytest.mark.skipif(sys.platform == "win32", reason="needs signals")


def compiled(name, **options):
    """A layer whose kernels are compiled, and arrays of a batch that divides into nothing."""
    text = {**TEXTS, "matrices": MATRICES}[name]
    jac = sg.compile(text, "all", name=name, check=False, **options)
    return jac, arrays_for(jac, batch=37)


@pytest.fixture
def dense(monkeypatch):
    """A layer that shares out calls of any size."""
    jac, arrays = compiled("dense")
    monkeypatch.setattr(jac.module, "_SHARE_FROM", 0)
    monkeypatch.setattr(jac.module, "_PIECE", 1)
    monkeypatch.setattr(jac.module, "_LONG", 0)
    monkeypatch.setattr(jac.module, "_FEW", 0)
    monkeypatch.delenv("SYMGRAD_NUM_THREADS", raising=False)
    return jac, arrays


@pytest.fixture
def ran(dense, monkeypatch):
    """Which threads worked on pieces of a call."""
    module, found = dense[0].module, set()
    together = module._together

    def noting(run, count, step, threads):
        everyone = threading.Barrier(threads)

        def note(lo, hi):
            if threading.get_ident() not in found:
                found.add(threading.get_ident())
                everyone.wait(60)  # nobody takes a second piece before all have one
            run(lo, hi)

        found.clear()
        together(note, count, step, threads)

    monkeypatch.setattr(module, "_together", noting)
    return found


def flat(found):
    """All arrays of a result, in order, as bytes."""
    if isinstance(found, dict):
        found = tuple(found.values())
    if isinstance(found, tuple):
        return [part for one in found for part in flat(one)]
    return [np.asarray(found).tobytes()]


def everything(jac, arrays):
    return [flat(call()) for call in calls(jac.forms, jac.module, arrays)]


# ------------------------------------------------------------------ results


@pytest.mark.parametrize("name", [*NAMES, "matrices"])
def test_any_number_of_threads_gives_the_same_bytes(name, monkeypatch):
    jac, arrays = compiled(name)
    monkeypatch.setenv("SYMGRAD_NUM_THREADS", "1")
    alone = everything(jac, arrays)
    shared_out = []
    together = jac.module._together

    def noting(run, count, step, threads):
        shared_out.append(threads)
        together(run, count, step, threads)

    monkeypatch.setattr(jac.module, "_together", noting)
    monkeypatch.setattr(jac.module, "_SHARE_FROM", 0)
    monkeypatch.setattr(jac.module, "_LONG", 0, raising=False)
    for count in (3, 7):
        shared_out.clear()
        monkeypatch.setenv("SYMGRAD_NUM_THREADS", str(count))
        assert everything(jac, arrays) == alone
        assert set(shared_out) == {count}


def test_second_derivatives_are_the_same_bytes(monkeypatch):
    jac, arrays = compiled("scalars", order=2)
    monkeypatch.setenv("SYMGRAD_NUM_THREADS", "1")
    alone = everything(jac, arrays)
    monkeypatch.setattr(jac.module, "_SHARE_FROM", 0)
    monkeypatch.setenv("SYMGRAD_NUM_THREADS", "7")
    assert everything(jac, arrays) == alone


def test_calls_from_many_threads_at_once_are_right(dense):
    jac, _ = dense
    jac.num_threads = 3
    jac.module._SHARE_FROM = 0
    given = [arrays_for(jac, batch=30 + k, seed=k) for k in range(8)]
    u = [np.ones_like(jac.forward(**arrays)) for arrays in given]
    expected = [flat((jac.jac_W(**a), jac.vjp(a, v))) for a, v in zip(given, u, strict=True)]
    start = threading.Barrier(len(given))

    def call(k):
        start.wait(60)
        return [flat((jac.jac_W(**given[k]), jac.vjp(given[k], u[k]))) for _ in range(50)]

    with ThreadPoolExecutor(len(given)) as pool:
        for found, right in zip(pool.map(call, range(len(given))), expected, strict=True):
            assert all(one == right for one in found)
    (crew,) = [crew for _, crew, _ in jac.module._CREWS.values() if crew]
    assert len(crew) == 2  # all callers together have the threads of one call


@needs_fork
def test_a_fork_after_the_pool_was_used_has_threads_of_its_own(dense, ran):
    jac, arrays = dense
    jac.module.num_threads = 3
    try:
        right = flat(jac.jac_W(**arrays))
        assert len(ran) == 3
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", DeprecationWarning
            )  # that there are threads is the point
            child = os.fork()
        if not child:
            with contextlib.suppress(BaseException):
                signal.alarm(60)
                if flat(jac.jac_W(**arrays)) == right and len(ran) == 3:
                    os._exit(0)
            os._exit(1)
        assert flat(jac.jac_W(**arrays)) == right
        assert len(ran) == 3
        assert os.waitpid(child, 0)[1] == 0
        assert flat(jac.jac_W(**arrays)) == right
    finally:
        jac.module.num_threads = None


# ------------------------------------------------------------------ how many


def test_small_calls_start_no_thread(monkeypatch):
    jac = sg.compile("x: input[n]\nw: param[n]\ny = sin(w * x) + 7.25", check=False)
    jac.num_threads = 4
    monkeypatch.setattr(jac.module, "_together", None)
    everything(jac, arrays_for(jac, batch=64))
    assert not jac.module._CREWS


def test_the_environment_says_how_many_threads_there_are(dense, ran, monkeypatch):
    jac, arrays = dense
    for count in (2, 5, 3):
        monkeypatch.setenv("SYMGRAD_NUM_THREADS", f" {count} ")
        jac.jac_W(**arrays)
        assert len(ran) == count
    ran.clear()
    monkeypatch.setenv("SYMGRAD_NUM_THREADS", "1")
    jac.jac_W(**arrays)
    assert not ran


def test_a_number_that_is_asked_for_wins_over_the_environment(dense, ran, monkeypatch):
    jac, arrays = dense
    monkeypatch.setenv("SYMGRAD_NUM_THREADS", "2")
    mine = jac.select("params")
    mine.num_threads = np.int64(4)
    mine.jac_W(**arrays)
    assert len(ran) == 4
    jac.jac_W(**arrays)
    assert len(ran) == 2
    assert (mine.num_threads, jac.num_threads, jac.module.num_threads) == (4, None, None)
    mine.num_threads = None
    mine.jac_W(**arrays)
    assert len(ran) == 2


def test_a_module_alone_has_a_number_of_threads_too(dense, ran, monkeypatch):
    jac, arrays = dense
    monkeypatch.setattr(jac.module, "num_threads", 3)
    jac.module.jac_W(*arrays.values())
    assert len(ran) == 3


def test_the_number_goes_where_the_layer_goes(dense):
    own = sg.compile(TEXTS["dense"], "all", name="dense", check=False, num_threads=2)
    assert own.num_threads == 2
    assert dense[0].num_threads is None
    assert own.module._fill_y is dense[0].module._fill_y  # nothing is compiled again
    assert own.module.per_sample_vjp is own.module.vjp_per_sample
    assert own.module.ShapeError is sg.ShapeError
    assert own.select("W").num_threads == 2
    assert pickle.loads(pickle.dumps(own)).num_threads == 2
    assert pickle.loads(pickle.dumps(own.jacobian(**dense[1])))["W"].shape == (37, 3, 3, 4)


def test_without_a_wish_there_are_as_many_as_cores_of_the_process(dense, monkeypatch):
    module = dense[0].module
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 3, 5}, raising=False)
    assert module._threads() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert module._threads() == 1


@pytest.mark.parametrize("wish", NONSENSE)
def test_what_is_no_number_of_threads_is_refused(wish, dense, monkeypatch):
    jac, arrays = dense
    with pytest.raises(sg.ArgumentError, match="num_threads is"):
        sg.compile(TEXTS["dense"], check=False, num_threads=wish)
    with pytest.raises(sg.ArgumentError, match="num_threads is"):
        jac.num_threads = wish
    with monkeypatch.context() as patch:
        patch.setattr(jac.module, "num_threads", wish)
        with pytest.raises(sg.ArgumentError, match=r"num_threads is .*expected a whole number"):
            jac.jac_W(**arrays)
    monkeypatch.setenv("SYMGRAD_NUM_THREADS", str(wish))
    with pytest.raises(sg.ArgumentError, match="SYMGRAD_NUM_THREADS is"):
        jac.jac_W(**arrays)
    with pytest.raises(sg.ArgumentError, match="SYMGRAD_NUM_THREADS is"):
        sg.compile(TEXTS["dense"], check=False)


def test_plain_python_shares_nothing_out(monkeypatch):
    jac, arrays = compiled("dense")
    module = build.load(jac.path, plain=True)
    monkeypatch.setattr(module, "_SHARE_FROM", 0)
    monkeypatch.setattr(module, "_together", None)
    monkeypatch.setenv("SYMGRAD_NUM_THREADS", "3")
    assert module.jac_W(*arrays.values()).shape == (37, 3, 3, 4)


@pytest.mark.parametrize("name", NAMES)
def test_no_kernel_is_parallel_in_itself(name):
    tree = ast.parse(compiled(name)[0].source)
    words = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    words |= {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
    words |= {k.arg for n in ast.walk(tree) if isinstance(n, ast.Call) for k in n.keywords}
    assert not words & {"prange", "parallel"}


# ------------------------------------------------------------------ pieces


@pytest.mark.parametrize(("count", "step"), [(0, 1), (1, 1), (7, 3), (12, 3), (5, 9)])
def test_every_element_is_in_one_piece(count, step, dense):
    done = []
    dense[0].module._together(lambda lo, hi: done.append((lo, hi)), count, step, 3)
    assert sorted(k for lo, hi in done for k in range(lo, hi)) == list(range(count))
    assert all(hi - lo <= step for lo, hi in done)


def test_within_a_piece_nothing_is_shared_out(dense):
    together = dense[0].module._together
    everyone, done = threading.Barrier(3), []

    def outer(lo, _hi):
        everyone.wait(60)  # three threads are inside
        mine = threading.get_ident()
        together(lambda a, _b: done.append((lo, a, threading.get_ident() == mine)), 4, 1, 3)

    together(outer, 3, 1, 3)
    assert sorted(done) == [(lo, a, True) for lo in range(3) for a in range(4)]
    together(lambda lo, _hi: done.append(lo), 3, 1, 3)
    assert len(done) == 15  # and afterwards there are threads again


def test_a_caller_has_its_error_state_in_all_pieces(dense):
    everyone, found = threading.Barrier(3), []

    def note(*_):
        everyone.wait(60)
        found.append(np.geterr()["over"])

    with np.errstate(over="raise"):
        dense[0].module._together(note, 3, 1, 3)
    if np.lib.NumpyVersion(np.__version__) >= "2.0.0":  # older ones keep it in each thread
        assert found == ["raise"] * 3


@pytest.mark.parametrize("where", ["caller", "helper"])
def test_an_error_in_a_piece_reaches_the_caller_when_all_pieces_are_done(where, dense):
    together, caller = dense[0].module._together, threading.get_ident()
    both, begun, ended = threading.Barrier(2), [], []

    def fail(lo, _hi):
        begun.append(lo)
        if len(begun) <= 2:
            both.wait(60)
        if (threading.get_ident() == caller) == (where == "caller"):
            raise ZeroDivisionError(where)
        time.sleep(0.05)  # the error is there before this piece ends
        ended.append(lo)

    with pytest.raises(ZeroDivisionError, match=where):
        together(fail, 1000, 1, 2)
    assert len(begun) == len(ended) + 1 < 1000
    before = list(begun)
    together(lambda *_: None, 4, 1, 2)
    assert begun == before
    assert not dense[0].module._INSIDE.get()


@needs_signals
def test_interrupts_wait_for_pieces_that_others_work_on(dense):
    caller = threading.get_ident()
    both, begun, ended = threading.Barrier(2), [], []

    def piece(*_):
        both.wait(60)
        if threading.get_ident() != caller:
            begun.append(1)
            for _ in range(3):
                signal.pthread_kill(caller, signal.SIGINT)
                time.sleep(0.05)  # the caller is told, and may not leave yet
            ended.append(1)

    with pytest.raises(KeyboardInterrupt):
        dense[0].module._together(piece, 2, 1, 2)
    assert begun == ended == [1]


def test_a_call_is_done_alone_where_no_thread_can_be_started(dense, monkeypatch):
    jac, arrays = dense
    right = flat(jac.jac_W(**arrays))

    def refuse(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    monkeypatch.setattr(jac.module, "_CREWS", {})
    monkeypatch.setenv("SYMGRAD_NUM_THREADS", "3")
    assert flat(jac.jac_W(**arrays)) == right
    ((_, crew, _),) = jac.module._CREWS.values()
    assert not crew


@pytest.mark.slow
def test_a_process_whose_threads_wait_ends_in_silence(dense, tmp_path):
    jac, arrays = dense
    np.savez(tmp_path / "arrays.npz", **arrays)
    script = textwrap.dedent(
        f"""
        import atexit, threading
        import numpy as np
        from symgrad import build
        module = build.load({str(jac.path)!r})
        module._SHARE_FROM, module._PIECE, module._FEW, module.num_threads = 0, 1, 0, 5
        arrays = np.load({str(tmp_path / "arrays.npz")!r})
        given = [arrays[name] for name in {list(arrays)!r}]
        module.jac_W(*given)
        assert len(threading.enumerate()) == 5
        atexit.register(module.jac_W, *given)
        """
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=False, timeout=120
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")


# ------------------------------------------------------------------ lazily compiled


def test_only_the_kernels_that_a_call_needs_are_compiled():
    text = "x: input[n]\nW: param[m, n]\nb: param[m]\ny = arctan(W @ x + b) + 0.125"
    jac = sg.compile(text, check=False)
    module = jac.module
    kernels = {n: k for n, k in vars(module).items() if hasattr(k, "signatures") and "_fill" in n}
    assert not [n for n, k in kernels.items() if k.signatures]
    jac.jac_W(**arrays_for(jac))
    drivers = ("_few_W",)
    tree = ast.parse(jac.source)
    needed = {
        n.id
        for f in tree.body
        if isinstance(f, ast.FunctionDef) and f.name in drivers
        for n in ast.walk(f)
        if isinstance(n, ast.Name)
    } & set(kernels)
    assert needed < set(kernels)
    assert {n for n, k in kernels.items() if k.signatures} == needed
