"""The README is run: its Python in one session, its commands in one folder, its output compared."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)

pytestmark = pytest.mark.slow


def blocks(language):
    return [text for name, text in BLOCKS if name == language]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the README's layer file in it, and nothing else."""
    (layer,) = blocks("sg")
    (tmp_path / "dense.sg").write_text(layer, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shell(line, folder):
    """Run one command line with the scripts of this interpreter found first."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.run(
        line,
        shell=True,
        cwd=folder,
        env={**os.environ, "PATH": path, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


def test_every_symgrad_command_runs(folder):
    lines = [line for text in blocks("sh") for line in text.splitlines()]
    commands = [line.partition(" # ")[0].strip() for line in lines if line.startswith("symgrad ")]
    assert len(commands) >= 5
    for command in commands:
        ended = shell(command, folder)
        assert ended.returncode == 0, f"{command}\n{ended.stdout}\n{ended.stderr}"
    assert (folder / "dense_jac.py").is_file()


def test_the_demo_prints_the_formula_that_the_first_screen_shows(folder):
    printed = shell("symgrad demo", folder).stdout
    for line in blocks("text")[0].splitlines():
        assert line in printed


def test_every_python_block_runs_and_prints_what_its_comments_say(folder):
    session = {"__name__": "readme"}
    checked = 0
    for text in blocks("python"):
        statements = text.splitlines()
        for line in statements:
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(line, "README.md", "exec"), session)
            expected = re.fullmatch(r"print\(.*\) +# ([(\[].*|True)", line)
            if expected:
                assert printed.getvalue().strip() == expected[1], line
                checked += 1
    assert checked >= 8


def test_the_error_shown_is_the_error_raised(folder):
    shown = blocks("text")[1]
    layer = "x: input[p]\nW: param[m, n]\nb: param[m]\n\n"
    statement = re.search(r"^    (.*)$", shown, re.MULTILINE)[1]
    (folder / "dense.sg").write_text(layer + statement + "\n", encoding="utf-8")
    ended = shell("symgrad derive dense.sg", folder)
    assert ended.returncode == 2
    assert ended.stderr == shown


def test_ci_installs_and_tests_as_the_readme_says():
    (command,) = (text.strip() for text in blocks("sh") if "pytest" in text)
    install, tests = command.split(" && ")
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert install.removeprefix("pip install ") in script
    assert tests.removeprefix("pytest ") in script


def test_every_file_the_readme_links_to_exists():
    for target in re.findall(r"\[[^\]]+\]\(([\w./-]+\.md)\)", README):
        assert (ROOT / target).exists(), target


def test_every_option_the_readme_names_is_an_option():
    import typer

    from symgrad.cli import app

    command = typer.main.get_command(app)
    known = {"--help", "--debug", "--version"}
    for sub in command.commands.values():
        for parameter in sub.params:
            known |= set(parameter.opts) | set(parameter.secondary_opts)
    measuring = subprocess.run(
        [sys.executable, "-m", "benchmarks", "peers", "--help"],
        cwd=ROOT, capture_output=True, check=True, text=True,
    ).stdout  # fmt: skip
    known |= set(re.findall(r"--[a-z][a-z-]*", measuring))
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", README))
    assert named <= known
