"""Laws of the package: what is shipped is whole, and works from anywhere."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LAYER = "sigmoid(W x + b)"

pytestmark = pytest.mark.slow


def run(*command, cwd, **environment):
    """Run a command from another folder, away from the checkout; fail with what it printed."""
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    ended = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**clean, "PYTHONIOENCODING": "utf-8", **environment},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert ended.returncode == 0, f"{command}\n{ended.stdout}\n{ended.stderr}"
    return ended.stdout


@pytest.fixture(scope="module")
def distributions(tmp_path_factory):
    """Build the sdist and the wheel and return both paths."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-d", folder, cwd=ROOT)
    return next(folder.glob("*.tar.gz")), next(folder.glob("*.whl"))


def environment(folder, *install):
    """Make an environment that borrows our dependencies, but not our symgrad; install into it."""
    venv.create(folder, with_pip=False, symlinks=os.name != "nt")
    scripts = folder / ("Scripts" if os.name == "nt" else "bin")
    python = scripts / "python"
    purelib = Path(
        run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder)[:-1]
    )
    # Read last (the name sorts last), so that what is installed here is found first.
    ours = [p for p in sys.path if Path(p).name in ("site-packages", "dist-packages")]
    (purelib / "zz_borrowed.pth").write_text("\n".join(ours), encoding="utf-8")
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet")
    run(*pip, "--no-deps", "--no-index", "--ignore-installed", *install, cwd=folder)
    return python, scripts / "symgrad"


def whole_line_works(python, symgrad, folder):
    """From a folder that is not the checkout: derive, compile, and use what was compiled."""
    assert run(symgrad, "--version", cwd=folder).startswith("symgrad ")
    cache = {"SYMGRAD_CACHE": str(folder / "cache")}
    assert run(symgrad, "derive", LAYER, cwd=folder, **cache).strip()
    run(symgrad, "compile", LAYER, "-o", "dense_jac.py", cwd=folder, **cache)
    script = (
        "import numpy as np, dense_jac\n"
        "x, W, b = np.ones((5, 6)), np.ones((3, 6)), np.ones(3)\n"
        "print(dense_jac.jac_W(x, W, b).shape)"
    )
    assert run(python, "-c", script, cwd=folder) == "(5, 3, 3, 6)\n"


def where(python, folder):
    """Return where the package and its templates are found."""
    script = "from symgrad import locate; print(locate.__file__); print(locate.locate())"
    package, templates = run(python, "-c", script, cwd=folder).splitlines()
    return Path(package).parent, Path(templates)


def test_the_wheel_holds_the_package_and_its_templates(distributions):
    _, wheel = distributions
    shipped = set(zipfile.ZipFile(wheel).namelist())
    sources = {p.relative_to(ROOT).as_posix() for p in (ROOT / "symgrad").rglob("*.py")}
    folder = ROOT / "templates"
    templates = {
        f"symgrad/templates/{p.relative_to(folder).as_posix()}"
        for p in folder.rglob("*")
        if p.is_file()
    }
    assert sources | templates | {"symgrad/py.typed"} <= shipped
    assert "symgrad/templates/module.py.jinja" in shipped
    assert all(name.startswith(("symgrad/", "symgrad-")) for name in shipped)


def test_the_sdist_is_complete_enough_to_build_the_same_wheel(distributions, tmp_path):
    sdist, wheel = distributions
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.iterdir()
    for needed in ("LICENSE", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "tests", ".ci/run"):
        assert (unpacked / needed).exists(), needed
    again = tmp_path / "again"
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", again, cwd=unpacked)
    (rebuilt,) = again.iterdir()
    names = zipfile.ZipFile(wheel).namelist()
    assert sorted(zipfile.ZipFile(rebuilt).namelist()) == sorted(names)


def test_the_installed_wheel_works_from_another_folder(distributions, tmp_path):
    _, wheel = distributions
    python, symgrad = environment(tmp_path / "venv", wheel)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    package, templates = where(python, elsewhere)
    assert package.is_relative_to(tmp_path / "venv")
    assert templates == package / "templates"
    whole_line_works(python, symgrad, elsewhere)


def test_an_editable_install_works_from_another_folder(tmp_path):
    pytest.importorskip("hatchling")
    python, symgrad = environment(
        tmp_path / "venv", "--no-build-isolation", "--editable", str(ROOT)
    )
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    package, templates = where(python, elsewhere)
    assert package == ROOT / "symgrad"
    assert templates == ROOT / "templates"
    whole_line_works(python, symgrad, elsewhere)


def test_help_does_not_wait_for_numba():
    script = (
        "import sys; from symgrad.cli import main; main(['derive', '--help'])\n"
        "print('numba' in sys.modules)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert ended.stdout.splitlines()[-1] == "False"


def test_the_version_is_said_once():
    import symgrad
    from symgrad.version import __version__

    assert PROJECT["project"]["dynamic"] == ["version"]
    assert symgrad.__version__ == __version__


def test_every_lint_rule_left_out_has_its_reason():
    lines = (ROOT / "pyproject.toml").read_text(encoding="utf-8").splitlines()
    start = lines.index("ignore = [")
    rules = lines[start + 1 : lines.index("]", start)]
    assert rules
    assert [line for line in rules if "#" not in line] == []
