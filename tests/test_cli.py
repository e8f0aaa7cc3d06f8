"""Laws of the command line: exit codes, where things are printed, and that nothing tracebacks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest

import symgrad
from symgrad import cli, errors
from symgrad.transliterate import transliterate

LAYER = "y = sigmoid(W x + b)"
TEXT = "∂y_i/∂W_jk = δ_ij σ'(z_i) x_k"


class Library:
    """Stands in for the library: records what it is asked for and answers with fixed nouns."""

    def __init__(self):
        self.calls = []
        self.error = None
        self.assumptions = ()
        self.report = SimpleNamespace(ok=True, __str__=lambda: "all agree")

    def layer(self, text, **_options):
        return SimpleNamespace(text=text, assumptions=self.assumptions)

    def derive(self, layer, **options):
        return self._answer(
            "derive",
            layer,
            options,
            SimpleNamespace(
                text=lambda style="index": f"{style}: {TEXT}",
                latex=lambda style="index": f"{style}: \\delta",
                markdown=lambda: "# markdown",
                html=lambda: "<p>",
                tex=lambda: "\\documentclass",
            ),
        )

    def compile(self, layer, **options):
        return self._answer(
            "compile", layer, options, SimpleNamespace(report="report", source="", path="p")
        )

    def check(self, subject, **options):
        return self._answer("check", subject, options, self.report)

    def show_stage(self, layer, stage, **options):
        return self._answer("show", layer, {"stage": stage, **options}, "a stage")

    def _answer(self, name, subject, options, result):
        self.calls.append((name, subject, options))
        if self.error is not None:
            raise self.error
        return result


@pytest.fixture
def library(monkeypatch):
    fake = Library()
    for name in ("layer", "derive", "compile", "check", "show_stage"):
        monkeypatch.setattr(symgrad, name, getattr(fake, name), raising=False)
    return fake


def run(*arguments, **environment):
    """Run the real command in a fresh process."""
    return subprocess.run(
        [sys.executable, "-m", "symgrad.cli", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        check=False,
    )


def test_derive_prints_the_formula_and_only_it(library, capsys):
    assert cli.main(["derive", LAYER]) == 0
    out, err = capsys.readouterr()
    assert out == f"index: {TEXT}\n"
    assert err == ""
    assert library.calls[0][2] == {"wrt": "params", "functions": {}, "dims": {}}


def test_options_reach_the_library_as_python_values(library):
    arguments = ["--wrt", "W,b", "--wrt", "!c", "--set", "σ=tanh", "--dim", "m=1,n=6"]
    assert cli.main(["derive", LAYER, *arguments]) == 0
    assert library.calls[0][2] == {
        "wrt": ["W", "b", "!c"],
        "functions": {"σ": "tanh"},
        "dims": {"m": 1, "n": 6},
    }


@pytest.mark.parametrize(
    ("ending", "expected"),
    [("txt", f"index: {TEXT}"), ("tex", "\\documentclass"), ("md", "# markdown"), ("html", "<p>")],
)
def test_the_ending_of_the_output_file_chooses_the_format(
    library, tmp_path, capsys, ending, expected
):
    path = tmp_path / f"out.{ending}"
    assert cli.main(["derive", LAYER, "-o", str(path)]) == 0
    assert path.read_text(encoding="utf-8") == expected + "\n"
    assert capsys.readouterr().out == ""


def test_a_stated_format_and_style_win(library, capsys):
    assert cli.main(["derive", LAYER, "--format", "latex", "--style", "matrix"]) == 0
    assert capsys.readouterr().out == "matrix: \\delta\n"
    assert cli.main(["derive", LAYER, "--format", "html", "--style", "matrix"]) == 2
    assert "--style matrix" in capsys.readouterr().err


def test_assumptions_of_a_one_liner_go_to_stderr(library, capsys):
    library.assumptions = ("x: input[n]", "W: param[m, n]")
    assert cli.main(["derive", LAYER]) == 0
    out, err = capsys.readouterr()
    assert "assumed" not in out
    assert err == "assumed: x: input[n]\nassumed: W: param[m, n]\n"


def test_compile_says_what_it_wrote_and_how_it_was_checked(library, tmp_path, capsys):
    path = tmp_path / "dense_jac.py"
    assert cli.main(["compile", LAYER, "-o", str(path), "--no-check"]) == 0
    assert capsys.readouterr().out == f"report\nwrote {path}\n"
    assert library.calls[0][2]["path"] == path
    assert library.calls[0][2]["check"] is False


def test_check_exits_with_1_exactly_if_a_derivative_disagrees(library, capsys):
    assert cli.main(["check", LAYER, "--batch", "7", "--dim", "n=5", "--seed", "3"]) == 0
    assert library.calls[0][2] == {"batch": 7, "dims": {"n": 5}, "seed": 3}
    library.report.ok = False
    assert cli.main(["check", LAYER]) == 1


def test_check_hands_a_module_on_as_a_path(library):
    assert cli.main(["check", "dense_jac.py"]) == 0
    assert library.calls[0][1] == "dense_jac.py"


@pytest.mark.parametrize("stage", ["parse", "check", "derive", "simplify", "plan", "source"])
def test_show_knows_every_stage(library, capsys, stage):
    assert cli.main(["show", LAYER, "--stage", stage]) == 0
    assert library.calls[0][2]["stage"] == stage
    assert capsys.readouterr().out == "a stage\n"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.LayerSyntaxError("m"), 2),
        (errors.ShapeError("m"), 2),
        (errors.SelectionError("m"), 2),
        (errors.ArgumentError("m"), 2),
        (errors.DerivationError("m"), 2),
        (errors.CodegenError("m"), 2),
        (errors.ValidationError("m"), 1),
        (errors.InternalError("m"), 70),
        (KeyboardInterrupt(), 130),
        (FileNotFoundError(2, "No such file or directory", "dense.sg"), 2),
        (ZeroDivisionError("m"), 70),
    ],
)
def test_every_error_has_its_exit_code_and_one_message(library, capsys, error, code):
    library.error = error
    assert cli.main(["derive", LAYER]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.strip()
    assert "Traceback" not in err


def test_a_message_tells_what_where_and_what_to_do(library, capsys):
    library.error = errors.ShapeError(
        "index k runs over n in W[m, n] but over p in x[p]",
        span=errors.Span(1, 5, 1, 6),
        source=errors.Source("y = k", "dense.sg"),
        hint="declare x: input[n], or sum over another index",
    )
    assert cli.main(["derive", LAYER]) == 2
    assert capsys.readouterr().err == (
        "ShapeError: dense.sg:1:5: index k runs over n in W[m, n] but over p in x[p]\n"
        "    y = k\n"
        "        ^\n"
        "declare x: input[n], or sum over another index\n"
    )


@pytest.mark.parametrize(
    "arguments",
    [["--debug", "derive", LAYER], ["derive", "--debug", LAYER], ["derive", LAYER, "--debug"]],
)
def test_debug_shows_the_traceback_wherever_it_stands(library, capsys, arguments):
    library.error = errors.ShapeError("m")
    assert cli.main(arguments) == 2
    assert "Traceback" in capsys.readouterr().err


def test_debug_after_two_dashes_is_text(library):
    assert cli.main(["derive", "--", "--debug"]) == 0
    assert library.calls[0][1].text == "--debug"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["derive"], "LAYER"),
        (["derive", LAYER, "--stile", "index"], "--stile"),
        (["derive", LAYER, "--style", "tensor"], "tensor"),
        (["derive", LAYER, "--set", "tanh"], "NAME=VALUE"),
        (["derive", LAYER, "--set", "σ=tanh", "--set", "σ=relu"], "twice"),
        (["derive", LAYER, "--dim", "n=-1"], "whole number"),
        (["derive", LAYER, "--dim", "n=²"], "whole number"),
        (["compile", LAYER], "--output"),
        (["show", LAYER, "--stage", "guess"], "guess"),
        (["derivate", LAYER], "derivate"),
    ],
)
def test_wrong_options_are_the_users_input(library, capsys, arguments, said):
    assert cli.main(arguments) == 2
    err = capsys.readouterr().err
    assert said in err
    assert "Traceback" not in err


def test_a_file_with_another_ending_is_not_taken_for_text(library, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dense.txt").write_text(LAYER, encoding="utf-8")
    assert cli.main(["derive", "dense.txt"]) == 2
    assert ".sg" in capsys.readouterr().err


def test_a_warning_is_one_line(library, monkeypatch, capsys):
    def warning_layer(text):
        import warnings

        warnings.warn("slow", stacklevel=1)
        return SimpleNamespace(assumptions=())

    monkeypatch.setattr(symgrad, "layer", warning_layer)
    assert cli.main(["derive", LAYER]) == 0
    assert capsys.readouterr().err == "warning: slow\n"


@pytest.mark.parametrize("command", ["demo", "derive", "compile", "check", "show"])
def test_the_help_of_every_command_has_an_example(capsys, command):
    assert cli.main([command, "--help"]) == 0
    assert re.search(rf"Example: symgrad\s+{command}", capsys.readouterr().out)


def test_no_arguments_print_the_help(capsys):
    assert cli.main([]) == 0
    assert "Usage" in capsys.readouterr().out


def test_version_is_printed(capsys):
    assert cli.main(["--version"]) == 0
    assert re.fullmatch(r"symgrad \d+\.\d+\.\d+\S*\n", capsys.readouterr().out)


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "utf-8"])
def test_the_help_prints_in_every_encoding(encoding):
    ended = run("derive", "--help", PYTHONIOENCODING=encoding)
    assert ended.returncode == 0
    assert b"Example" in ended.stdout
    assert ended.stderr == b""


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_output_that_cannot_hold_greek_is_written_out(encoding):
    script = (
        "import sys; from symgrad.transliterate import tolerate; "
        f"tolerate(sys.stdout); print({TEXT!r})"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONIOENCODING": encoding},
        capture_output=True,
        check=True,
    )
    assert ended.stdout.decode("ascii") == "dy_i/dW_jk = delta_ij sigma'(z_i) x_k\n"


@pytest.mark.slow
def test_a_closed_pipe_ends_quietly():
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run(
        [sys.executable, "-m", "symgrad.cli", "derive", "--help"],
        stdout=writer,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writer)
    assert ended.returncode == 141
    assert ended.stderr == b""


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("Λ λ ς ϕ", "Lambda lambda sigma phi"),
        ("Wᵀ x² a₁ x̂", "W^T x^2 a_1 x_hat"),
        ("x · y ⊙ z − 1", "x * y * z - 1"),
        ("0 ≤ i", "0 <= i"),
        ("é", "e"),
        ("中", "\\u4e2d"),
    ],
)
def test_mathematics_is_typed_as_one_would(text, typed):
    assert transliterate(text) == typed


def test_only_what_an_encoding_lacks_is_replaced():
    assert transliterate("x² σ", "latin-1") == "x² sigma"
    assert transliterate("x² σ", "utf-8") == "x² σ"


def test_the_demo_shows_a_whole_kernel_about_the_parameter():
    from symgrad.demo import kernel

    source = (
        "@njit\ndef _forward(x):\n    return x\n\n\n"
        "@njit(\n    cache=True)\ndef _jac_W(x):\n    return 2\n"
    )
    assert kernel(source, "W") == "@njit(\n    cache=True)\ndef _jac_W(x):\n    return 2"
    assert kernel("def jac_W(x):\n    return 1\n", "W").startswith("def jac_W")
    assert kernel(source, "b") == "@njit\ndef _forward(x):\n    return x"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_progress_shows_on_a_terminal_and_nowhere_else():
    import pty

    script = (
        "import time; from symgrad.cli import _working\nwith _working('deriving'): time.sleep(.3)"
    )
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm"}
    subprocess.run([sys.executable, "-c", script], stderr=theirs, env=environment, check=True)
    assert b"deriving" in os.read(ours, 4096)
    piped = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert piped.stderr == piped.stdout == b""
