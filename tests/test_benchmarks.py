"""The benchmarks run: peers agree, tables and JSON name all of them. No time is judged here."""

from __future__ import annotations

import io
import json
import threading
import time
from dataclasses import replace

import numba
import numpy as np
import pytest
from rich.console import Console

from benchmarks import __main__ as command
from benchmarks import (
    by_backpack,
    by_casadi,
    everything,
    frameworks,
    limits,
    machine,
    ours,
    output,
    peers,
    series,
)
from benchmarks.limits import VALUE, filling
from benchmarks.timing import side_by_side
from benchmarks.workload import BY_HAND, FRAMEWORKS, LIMIT, OURS, YARDSTICK, Target, setting
from benchmarks.workloads import WORKLOADS, chosen
from symgrad.bench import settle

NAMES = [one.name for one in WORKLOADS]


@pytest.fixture(autouse=True)
def _plain(monkeypatch, tmp_path):
    """Run kernels as plain Python: nothing is timed, and nothing need be compiled."""
    monkeypatch.setattr(numba.config, "DISABLE_JIT", True)
    monkeypatch.setenv("SYMGRAD_CACHE", str(tmp_path))


@pytest.mark.filterwarnings("ignore:NUMBA_DISABLE_JIT:RuntimeWarning")
@pytest.mark.parametrize("name", NAMES)
def test_all_installed_peers_agree_and_all_others_are_named(name):
    (workload,) = (one for one in WORKLOADS if one.name == name)
    rows, verdicts = peers.measure([workload], quick=True, seconds=0)
    for quantity in workload.quantities:
        own = {row.peer: row for row in rows if row.quantity == quantity.name}
        assert own[OURS].times == 1.0
        assert (BY_HAND in own) and (own[BY_HAND].seconds or own[BY_HAND].reason)
        assert own[YARDSTICK].seconds or "not installed" in own[YARDSTICK].reason
        assert (LIMIT in own) == quantity.limited
        for framework in FRAMEWORKS:
            about = [row for peer, row in own.items() if peer.startswith(framework)]
            assert about, framework
            assert all(row.seconds or row.reason for row in about)
        for row in own.values():
            if row.seconds is not None and row.peer not in (OURS, LIMIT):
                assert row.difference < 1e-9, row
    assert len(verdicts) == sum(len(q.targets) for q in workload.quantities)


@pytest.mark.filterwarnings("ignore:NUMBA_DISABLE_JIT:RuntimeWarning")
@pytest.mark.parametrize("name", ["W1a", "W3", "W6", "W13"])
def test_a_peer_with_one_wrong_number_is_a_disagreement(name, monkeypatch):
    (workload,) = (one for one in WORKLOADS if one.name == name)
    quantity = workload.quantities[0]
    make = quantity.by_hand

    def wrong(placed):
        run = make(placed)

        def numbers(found):
            arrays = {n: a.copy() for n, a in run.numbers(found).items()}
            first = next(iter(arrays.values()))
            first.flat[-1] += 1e-6 * np.abs(first).max()
            return arrays

        return replace(run, numbers=numbers)

    spoilt = replace(workload, quantities=(replace(quantity, by_hand=wrong),))
    with pytest.raises(peers.Disagreement, match="numpy by hand"):
        peers.measure([spoilt], quick=True, seconds=0)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_a_difference(bad):
    right = {"W": np.ones((3, 2))}
    found = {"W": np.array([[1, 1], [1, bad], [1, 1]])}
    assert not peers.difference(right, found, "") <= 1e-9


def test_names_and_shapes_that_differ_are_a_disagreement():
    right = {"W": np.ones((3, 2))}
    with pytest.raises(peers.Disagreement, match="ours are"):
        peers.difference(right, {"b": np.ones((3, 2))}, "")
    with pytest.raises(peers.Disagreement, match="ours is"):
        peers.difference(right, {"W": np.ones((2, 3))}, "")


@pytest.mark.filterwarnings("ignore:NUMBA_DISABLE_JIT:RuntimeWarning")
def test_the_command_writes_table_json_and_plot(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(command, "start_again", lambda arguments, huge: None)
    pytest.importorskip("matplotlib")
    files = [tmp_path / "found.json", tmp_path / "found.png"]
    options = ["--quick", "--json", str(files[0]), "--plot", str(files[1])]
    command.main(["peers", "W2", "W13", "growth", "float32", *options])
    printed = capsys.readouterr().out
    found = json.loads(files[0].read_text(encoding="utf-8"))
    assert files[1].read_bytes().startswith(b"\x89PNG")
    assert {row["workload"] for row in found["rows"]} == {"W2", "W13"}
    assert found["machine"]["cores"] == machine.cores()
    assert "numpy" in found["machine"]["versions"]
    assert any("gemm" in limit for limit in found["limits"])
    assert len(found["curves"]) == 7
    assert all(len(one["at"]) == len(one["ours"]) for one in found["curves"])
    assert any("float32" in one["quantity"] for one in found["verdicts"])
    for words in ("W2", "W13", "numpy by hand", "times mean nothing", "not judged", "float32"):
        assert words in printed
    for peer, reason in found["absent"].items():
        assert f"skipped: {peer}: {reason}" in " ".join(printed.split())


def test_an_absent_peer_is_named_with_the_reason(monkeypatch):
    monkeypatch.setattr(frameworks, "find_spec", lambda name: None)
    monkeypatch.setattr(by_backpack, "find_spec", lambda name: None)
    monkeypatch.setattr(by_casadi, "find_spec", lambda name: None)
    reasons = [frameworks.absent(n, quick=False) for n in ("torch.func", "torch.compile", "jax")]
    reasons += [by_backpack.absent(), by_casadi.absent()]
    assert reasons == [
        f"{n} is not installed" for n in ("torch", "torch", "jax", "torch", "casadi")
    ]


@pytest.mark.filterwarnings("ignore:NUMBA_DISABLE_JIT:RuntimeWarning")
def test_a_framework_that_a_workload_leaves_out_is_named_with_the_reason():
    (workload,) = chosen(["W13"])
    rows, _ = peers.measure(
        [replace(workload, without={"torch.func": "left out here"})], quick=True, seconds=0
    )
    (row,) = (row for row in rows if row.peer.startswith("torch.func"))
    assert row.seconds is None and row.reason == "left out here"


def test_the_limit_writes_every_entry_of_arrays_of_any_length():
    for dtype in (np.float64, np.float32):
        arrays = [np.zeros(size, dtype)[start:] for size in (3, 70, 1003) for start in (0, 1, 3)]
        _, fill = filling(arrays)
        fill()
        assert all((array == VALUE).all() for array in arrays)


@pytest.mark.parametrize("threads", [1, 3])
def test_the_compiled_limit_writes_every_entry_too(threads, monkeypatch):
    monkeypatch.setattr(numba.config, "DISABLE_JIT", False)
    monkeypatch.setattr(limits, "cores", lambda: threads)
    monkeypatch.setattr(limits, "timed", lambda call, seconds: -call.args[0])
    limits.stores.cache_clear()
    try:
        for dtype in (np.float64, np.float32):
            arrays = [np.zeros(s, dtype)[k:] for s in (3, 70, 1003, 5001) for k in (0, 1, 3)]
            name, fill = filling(arrays)
            fill()
            assert name == "non-temporal fill" + (" by 3 threads" if threads > 1 else "")
            assert all((array == VALUE).all() for array in arrays)
    finally:
        limits.stores.cache_clear()


def test_openblas_variables_are_removed_and_huge_pages_asked_for_once():
    given = {"OPENBLAS_CORETYPE": "Haswell", "HOME": "/h"}
    removed = machine.environment(given, huge=False)
    assert removed == {"HOME": "/h", machine.TOLD: "OPENBLAS_CORETYPE"}
    assert machine.environment(removed, huge=False) is None
    huge = machine.environment(removed, huge=True)
    assert huge["GLIBC_TUNABLES"] == "glibc.malloc.hugetlb=1"
    assert machine.environment(huge, huge=True) is None


def test_a_workload_is_chosen_by_its_name_or_by_its_number():
    assert [one.name for one in chosen(["W1", "W7v"])] == ["W1a", "W1b", "W1c", "W7v"]
    assert [one.name for one in chosen([])] == NAMES
    with pytest.raises(ValueError, match="W99"):
        chosen(["W99"])


def test_every_target_of_the_table_has_a_workload():
    aims = {one.name: [t for q in one.quantities for t in q.targets] for one in WORKLOADS}
    assert all(aims.values())
    assert Target(LIMIT, 0.85) in aims["W1b"]


def test_a_target_is_judged_by_the_best_of_its_peers():
    (workload,) = chosen(["W1a"])
    quantity = workload.quantities[0]
    keys = ("W1a", quantity.name)
    rows = [
        peers.Row(*keys, OURS, 1e-3, 1.0),
        peers.Row(*keys, "torch.func vmap(jacrev)", 5e-3, 5.0),
        peers.Row(*keys, "casadi jacobian", 2e-3, 2.0),
        peers.Row(*keys, "jax", reason="jax is not installed"),
    ]
    judged = [
        peers.judged(workload, quantity, Target("best framework", least), rows).met
        for least in (1.9, 2.1)
    ]
    assert judged == [True, False]
    alone = peers.judged(workload, quantity, Target("jax", 2), rows)
    assert alone.met is None and alone.remark == "jax is not installed"
    assert peers.judged(workload, quantity, Target("", 2e-3), rows).met


def test_exponents_and_crossovers_are_those_of_the_curve():
    at = (1, 2, 4, 8, 16)
    assert series.exponent(at, [3e-3 * a**2 for a in at]) == pytest.approx(2)
    one = series.Curve("", "m", at, (1, 2, 4, 8, 16), (3, 3, 3, 3, 3), 1.0, 1)
    assert one.crossover == "slower from m=4"
    assert replace(one, yardstick=(20,) * 5).crossover == "always faster"
    assert replace(one, yardstick=()).crossover == "torch is not installed"


def test_turns_are_taken_in_blocks_and_each_has_its_own_median():
    calls = []
    times = side_by_side(lambda: calls.append("a"), lambda: calls.append("b"), seconds=0)
    assert len(times) == 2 and all(t >= 0 for t in times)
    assert calls == list("ab" + "aaa" + "bbb")
    calls.clear()
    slow, fast = side_by_side(lambda: time.sleep(0.01), lambda: calls.append("b"), seconds=0.001)
    assert slow >= 0.01 > fast
    assert len(calls) > 9, "what is slow is called twice, the other goes on"


def test_a_block_waits_for_threads_that_still_spin():
    busy = threading.Event()

    def spin():
        while not busy.is_set():
            pass

    one = threading.Thread(target=spin)
    threading.Timer(0.05, busy.set).start()
    one.start()
    settle()
    assert busy.is_set()
    one.join()


@pytest.mark.filterwarnings("ignore:NUMBA_DISABLE_JIT:RuntimeWarning")
def test_dense_results_are_written_into_the_same_arrays_every_time():
    (workload,) = chosen(["W3"])
    placed = setting(workload, quick=True)
    runs = [ours.dense(placed, workload.quantities[0]), workload.quantities[0].by_hand(placed)]
    outs = {n: id(placed.out(n)) for n in placed.selected}
    for run in runs:
        assert {n: id(a) for n, a in run.call().items()} == outs


def test_a_missed_target_and_a_failed_peer_are_seen_in_the_table():
    keys = ("W1a", "dense")
    rows = (peers.Row(*keys, OURS, 1e-3, 1.0), peers.Row(*keys, "torch.compile x", reason="broke"))
    verdicts = (peers.Verdict(*keys, "2 x", "1 x", False),)
    facts = machine.facts() | {"removed variables": ["OPENBLAS_CORETYPE"]}
    text = io.StringIO()
    output.printed(output.Report(facts, {}, rows, verdicts), Console(file=text, width=160))
    assert "missed" in text.getvalue()
    assert "skipped: torch.compile x: broke" in text.getvalue()
    assert "removed from the environment of this process: OPENBLAS_CORETYPE" in text.getvalue()


@pytest.mark.parametrize(
    "compact, factors, met", [(1.5, 2.5, True), (2.5, 1.5, True), (1.5, 1.6, False)]
)
def test_the_better_of_compact_and_factors_is_judged_and_both_are_said(compact, factors, met):
    (workload,) = chosen(["W1a"])
    quantity = workload.quantities[-1]
    (aim,) = quantity.targets

    def rows(name, times):
        keys = ("W1a", name)
        return [peers.Row(*keys, OURS, 1e-3, 1.0), peers.Row(*keys, YARDSTICK, times / 1e3, times)]

    before = {aim.either: rows(aim.either, compact)}
    found = peers.judged(workload, quantity, aim, rows(quantity.name, factors), before)
    assert found.met is met
    assert found.quantity == "compact into out= or factors"
    assert f"{compact:g} x" in found.measured and f"{factors:g} x" in found.measured


def test_compact_and_factors_are_judged_where_the_table_asks_for_it():
    for name in ("W1a", "W1c", "W2"):
        (workload,) = chosen([name])
        assert {q.form for q in workload.quantities} == {"dense", "compact", "factors"}
        (aim,) = workload.quantities[-1].targets
        assert aim == Target(YARDSTICK, 1 / 0.6, either="compact into out=")


@pytest.mark.slow
def test_one_command_runs_by_default_and_with_huge_pages_into_one_file(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    files = [tmp_path / "found.json", tmp_path / "found.png"]
    options = ["--quick", "--json", str(files[0]), "--plot", str(files[1])]
    command.main(["all", "tiny", "growth", *options])
    found = json.loads(files[0].read_text(encoding="utf-8"))
    assert found.keys() == {"default", "huge pages", "targets"}
    assert [found[half]["machine"]["huge pages"] for half in everything.HALVES] == [False, True]
    for half in everything.HALVES:
        assert {row["workload"] for row in found[half]["rows"]} == {"tiny"}
        assert len(found[half]["curves"]) == 7
    assert len(found["targets"]) == len(found["default"]["verdicts"])
    assert files[1].read_bytes().startswith(b"\x89PNG")


def test_a_half_that_fails_ends_the_command_with_its_code(monkeypatch):
    class Done:
        returncode = 3

    monkeypatch.setattr(everything.subprocess, "run", lambda *_, **__: Done)
    with pytest.raises(SystemExit) as ended:
        command.main([])
    assert ended.value.code == 3


def test_targets_that_ask_for_huge_pages_are_those_of_the_second_half():
    def report(measured):
        asked = ("2 x as fast as jax", "2 x as fast as jax, huge pages")
        verdicts = tuple(peers.Verdict("W3", "dense", one, measured, True) for one in asked)
        return output.Report({}, {}, (), verdicts)

    reports = dict(zip(everything.HALVES, (report("3 x"), report("4 x")), strict=True))
    assert [one.measured for one in everything.settled(reports)] == ["3 x", "4 x"]


def test_a_report_is_read_again_as_it_was_written():
    curve = series.Curve("factors", "m", (1, 2, 4), (1.0, 2.0, 4.0), (), 1.0, 1)
    keys = ("W1a", "dense")
    rows = (peers.Row(*keys, OURS, 1e-3, 1.0), peers.Row(*keys, "jax", reason="no"))
    made = output.Report(machine.facts(), {"fill": 1.0}, rows, (), (curve,), quick=True)
    assert output.loaded(json.loads(json.dumps(output.plain(made)))) == made
