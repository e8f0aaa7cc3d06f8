"""Laws of build and load: whole files or none, one module per content, no state left behind."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from symgrad import errors
from symgrad.build import build, cache_key, file_stem, load, write

SOURCE = '''"""A generated module."""
SYMGRAD_VERSION = "0"
NAME = __name__


class ShapeError(ValueError):
    pass


class ArgumentError(TypeError):
    pass


def fail():
    raise ShapeError("no")
'''

JITTED = '''"""A generated module with a kernel."""
from numba import njit
SYMGRAD_VERSION = "0"


@njit(cache=True)
def double(x):
    return 2.0 * x
'''


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("SYMGRAD_CACHE", str(folder))
    return folder


def test_the_same_text_is_built_once_and_its_file_left_alone(cache):
    first = build(SOURCE, "dense")
    stamp = first.stat().st_mtime_ns
    assert build(SOURCE, "dense") == first
    assert first.stat().st_mtime_ns == stamp
    assert first == cache / cache_key(SOURCE) / "dense.py"
    assert first.read_text(encoding="utf-8") == SOURCE


def test_another_text_is_another_file(cache):
    assert build(SOURCE, "dense") != build(SOURCE + "\n", "dense")


def test_the_key_covers_the_versions(monkeypatch):
    before = cache_key(SOURCE)
    monkeypatch.setattr("symgrad.build._numba_version", lambda: "99")
    other_numba = cache_key(SOURCE)
    monkeypatch.setattr("symgrad.build.__version__", "99")
    assert len({before, other_numba, cache_key(SOURCE)}) == 3
    assert re.fullmatch("[0-9a-f]{16}", before)


def test_a_damaged_entry_is_written_again(cache):
    path = build(SOURCE, "dense")
    path.write_text(SOURCE[:40], encoding="utf-8")
    assert build(SOURCE, "dense").read_text(encoding="utf-8") == SOURCE


@pytest.mark.parametrize("name", ["../../etc/x", "σ", "a b", "", "encoder.0", "x" * 999])
def test_a_name_never_leaves_the_folder(cache, name):
    path = build(SOURCE, name)
    assert path.parent.parent == cache
    assert re.fullmatch(r"[0-9A-Za-z_]{1,60}", file_stem(name))


def test_an_explicit_path_is_written_as_it_is(tmp_path, cache):
    path = tmp_path / "dense_jac.py"
    path.write_text("older", encoding="utf-8")
    path.chmod(0o640)
    assert build(SOURCE, "dense", path=path) == path
    assert path.read_text(encoding="utf-8") == SOURCE
    assert path.stat().st_mode & 0o777 == 0o640
    assert not cache.exists()


def test_a_link_is_followed_and_a_device_is_not_replaced(tmp_path):
    target, link = tmp_path / "target.py", tmp_path / "link.py"
    target.write_text("older", encoding="utf-8")
    link.symlink_to(target)
    build(SOURCE, "dense", path=link)
    assert link.is_symlink()
    assert target.read_text(encoding="utf-8") == SOURCE
    build(SOURCE, "dense", path=os.devnull)
    assert not Path(os.devnull).is_file()


def test_a_missing_folder_is_named_as_the_user_wrote_it(tmp_path):
    with pytest.raises(OSError) as caught:
        build(SOURCE, "dense", path=tmp_path / "nowhere" / "dense.py")
    assert caught.value.filename == str(tmp_path / "nowhere" / "dense.py")


@pytest.mark.parametrize("broken", ["os.replace", "os.chmod"])
def test_nothing_half_written_is_left_when_writing_is_cut_short(tmp_path, monkeypatch, broken):
    path = tmp_path / "dense_jac.py"
    path.write_text("older", encoding="utf-8")

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(broken, interrupt)
    with pytest.raises(KeyboardInterrupt):
        write(path, SOURCE)
    assert path.read_text(encoding="utf-8") == "older"
    assert os.listdir(tmp_path) == ["dense_jac.py"]


def test_a_killed_process_leaves_no_partial_module(tmp_path, cache):
    script = (
        "import os\nfrom symgrad.build import build\n"
        "os.replace = lambda *_: os._exit(9)\n"  # dies between writing and renaming
        f"build({SOURCE!r}, 'dense')"
    )
    ended = subprocess.run([sys.executable, "-c", script], check=False)
    assert ended.returncode == 9
    assert not list(cache.rglob("*.py"))
    assert load(build(SOURCE, "dense")).SYMGRAD_VERSION == "0"


def test_an_unwritable_cache_falls_back_to_a_private_folder_with_one_warning(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("", encoding="utf-8")  # a folder cannot be made here, even by root
    monkeypatch.setenv("SYMGRAD_CACHE", str(blocked / "cache"))
    with pytest.warns(UserWarning, match="SYMGRAD_CACHE") as caught:
        path = build(SOURCE, "dense")
        other = build(SOURCE + "\n", "dense")
    assert len(caught) == 1
    assert load(path).SYMGRAD_VERSION == "0"
    assert path.parent.parent == other.parent.parent
    assert path.parent.parent.stat().st_mode & 0o077 == 0


@pytest.mark.slow
def test_processes_may_build_and_load_the_same_module_at_once(cache):
    source = SOURCE + "".join(f"x{i} = {i}\n" for i in range(5000)) + "END = 1\n"
    script = (
        "from symgrad.build import build, load\n"
        f"source = {source!r}\n"
        "for _ in range(20): assert load(build(source, 'dense')).END == 1"
    )
    racers = [subprocess.Popen([sys.executable, "-c", script]) for _ in range(4)]
    assert [racer.wait() for racer in racers] == [0] * 4
    assert [path.name for path in cache.rglob("*") if path.is_file()] == ["dense.py"]


def test_the_same_content_loads_as_the_same_module():
    path = build(SOURCE, "dense")
    assert load(path) is load(str(path))


def test_a_file_written_again_in_the_same_second_loads_as_what_it_now_holds(tmp_path):
    path = tmp_path / "m.py"
    one = load(build(SOURCE + "VALUE = 1\n", "m", path=path))
    two = load(build(SOURCE + "VALUE = 2\n", "m", path=path))
    assert (one.VALUE, two.VALUE) == (1, 2)


def test_a_loaded_module_stands_in_sys_modules_only_under_its_own_name():
    before = set(sys.modules)
    module = load(build(SOURCE, "json"))
    assert set(sys.modules) - before == {module.NAME}
    assert module.NAME.startswith("symgrad_generated_")
    import json

    assert json is not module


def test_a_module_that_fails_to_load_is_forgotten():
    before = set(sys.modules)
    path = build(SOURCE + "1 / 0\n", "dense")
    with pytest.raises(ZeroDivisionError):
        load(path)
    assert set(sys.modules) == before


def test_a_loaded_module_raises_the_errors_of_symgrad():
    module = load(build(SOURCE, "dense"))
    with pytest.raises(errors.ShapeError, match="no"):
        module.fail()
    assert module.ArgumentError is errors.ArgumentError


def test_a_file_that_symgrad_did_not_write_is_not_executed(tmp_path):
    path = tmp_path / "theirs.py"
    path.write_text("raise SystemExit('executed')\n", encoding="utf-8")
    with pytest.raises(errors.ArgumentError, match=r"theirs\.py"):
        load(path)


def test_plain_loads_without_the_compiler_and_leaves_the_switches_as_they_were(monkeypatch):
    numba = pytest.importorskip("numba")
    monkeypatch.delenv("NUMBA_DISABLE_JIT", raising=False)
    path = build(JITTED, "jitted")
    compiled, plain = load(path), load(path, plain=True)
    assert hasattr(compiled.double, "py_func")
    assert not hasattr(plain.double, "py_func")
    assert plain.double(3.0) == 6.0
    assert compiled is not plain
    assert load(path, plain=True) is plain
    assert "NUMBA_DISABLE_JIT" not in os.environ
    assert numba.config.DISABLE_JIT == 0


def test_a_module_loaded_while_the_compiler_is_off_is_not_handed_out_when_it_is_on(monkeypatch):
    numba = pytest.importorskip("numba")
    path = build(JITTED.replace("double", "doubled"), "switched")
    with monkeypatch.context() as switched:
        switched.setattr(numba.config, "DISABLE_JIT", 1)
        assert not hasattr(load(path).doubled, "py_func")
    assert hasattr(load(path).doubled, "py_func")


@pytest.mark.slow
def test_plain_before_numba_was_ever_imported_does_not_disable_it_for_good():
    path = build(JITTED, "jitted")
    script = (
        "from symgrad.build import load\n"
        f"plain = load({str(path)!r}, plain=True)\n"
        f"compiled = load({str(path)!r})\n"
        "assert not hasattr(plain.double, 'py_func') and hasattr(compiled.double, 'py_func')"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.slow
def test_a_second_process_compiles_no_kernel_again(cache):
    path = build(JITTED, "jitted")
    script = (
        "from symgrad.build import build, load\n"
        f"double = load(build({JITTED!r}, 'jitted')).double\n"
        "double(1.0)\n"
        "print(sum(double.stats.cache_hits.values()), sum(double.stats.cache_misses.values()))"
    )
    runs = [
        subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
        for _ in range(2)
    ]
    assert [run.stdout.split() for run in runs] == [["0", "1"], ["1", "0"]]
    assert list(path.parent.rglob("*.nbi"))


def test_loading_warns_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(build(SOURCE, "quiet"))
