"""Laws of the command line: exit codes, where things are printed, and that nothing tracebacks."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import time

import pytest

import symgrad
from symgrad import cli, errors
from symgrad.check import check
from symgrad.proof.interpret import domains_hold
from symgrad.proof.sample import sample
from symgrad.transliterate import transliterate

LAYER = "y = σ(W x + b)"
BOUND = "y = tanh(W x + b)"
FULL = '''"""One dense layer."""
x: input[n]
W: param[m, n]
b: param[m]
z = W @ x + b
y = tanh(z)
'''
OLD = '"""An older module."""\nSYMGRAD_VERSION = "0"\n'
TEXT = "∂y_i/∂W_jk = δ_ij σ'(z_i) x_k"
COMMANDS = ("demo", "derive", "compile", "check", "show", "plan", "bench")
ASSUMED = (
    "assumed: x is the input, of shape [n]\n"
    "assumed: W is a parameter, a matrix of shape [m, n]\n"
    "assumed: b is a parameter, a vector of shape [m]\n"
    "assumed: σ is a function applied element-wise\n"
)


@pytest.fixture(autouse=True)
def _own_folders(tmp_path, monkeypatch):
    """Run in a folder of its own, with a cache of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SYMGRAD_CACHE", str(tmp_path / ".cache"))


@pytest.fixture
def broken(monkeypatch):
    """Return a function that makes every derivation end in a given error."""

    def make(error):
        def derive(*_args, **_options):
            raise error

        monkeypatch.setattr(symgrad, "derive", derive)

    return make


def run(*arguments, **environment):
    """Run the real command in a fresh process."""
    return subprocess.run(
        [sys.executable, "-m", "symgrad", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        check=False,
    )


# ------------------------------------------------------------------ demo, derive


def test_the_demo_shows_formula_kernel_proof_and_shapes(capsys):
    assert cli.main(["demo"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "δ_ij" in out and "x_k" in out
    assert re.search(r"^@\w+", out, re.MULTILINE) and "def " in out
    assert re.search(r"^dy/dW .* ok$", out, re.MULTILINE)
    assert "(5, 3, 3, 6)" in out


def test_derive_prints_the_formula_and_only_it(capsys):
    assert cli.main(["derive", LAYER]) == 0
    out, err = capsys.readouterr()
    assert out == symgrad.derive(LAYER).text() + "\n"
    assert "σ'" in out
    assert err.startswith(ASSUMED)


@pytest.mark.parametrize(
    ("form", "mark"),
    [
        ("text", "∂y"),
        ("latex", r"\frac{\partial y"),
        ("tex", r"\documentclass"),
        ("markdown", "$$"),
        ("html", "<html"),
    ],
)
def test_derive_writes_every_format(capsys, form, mark):
    assert cli.main(["derive", LAYER, "--format", form]) == 0
    assert mark in capsys.readouterr().out


@pytest.mark.parametrize("form", ["text", "latex", "tex", "markdown", "html"])
def test_every_format_has_matrix_style(capsys, form):
    found = {}
    for style in ("index", "matrix"):
        assert cli.main(["derive", LAYER, "--format", form, "--style", style]) == 0
        found[style] = capsys.readouterr().out
    turned = {"text": "ᵀ", "html": "⊤"}.get(form, r"^\top")
    assert turned in found["matrix"]
    assert (found["index"] != found["matrix"]) == (form == "latex")


@pytest.mark.parametrize("form", ["text", "html", "tex"])
def test_matrix_style_says_in_every_format_why_a_result_has_none(capsys, form):
    layer = "x: input[n]\nw: param[n]\ny = prod(w * x)"
    assert cli.main(["derive", layer, "--format", form, "--style", "matrix"]) == 0
    assert "(index style: in rest" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("ending", "mark"),
    [("txt", "∂y"), ("tex", r"\documentclass"), ("md", "$$"), ("html", "<html")],
)
def test_the_ending_of_the_output_file_chooses_the_format(tmp_path, capsys, ending, mark):
    path = tmp_path / f"out.{ending}"
    assert cli.main(["derive", LAYER, "-o", str(path)]) == 0
    written = path.read_text(encoding="utf-8")
    assert mark in written and written.endswith("\n")
    out, err = capsys.readouterr()
    assert out == "" and err.endswith(f"wrote {path}\n")


def test_options_reach_the_derivation(capsys):
    arguments = ["--wrt", "W,b", "--wrt", "!b", "--set", "σ=tanh", "--dim", "m=1,n=6"]
    assert cli.main(["derive", LAYER, *arguments]) == 0
    options = {"functions": {"σ": "tanh"}, "dims": {"m": 1, "n": 6}}
    expected = symgrad.derive(LAYER, ["W", "b", "!b"], **options)
    assert capsys.readouterr().out == expected.text() + "\n"


def test_one_output_reads_as_the_thread_has_it(capsys):
    assert cli.main(["derive", LAYER, "--dim", "m=1", "--wrt", "W"]) == 0
    assert re.search(r"∂y.*= .*σ'\(.*\) x|∂y.*= x.* σ'\(", capsys.readouterr().out)


def test_a_file_and_its_text_give_the_same(tmp_path, capsys):
    path = tmp_path / "dense.sg"
    path.write_text("\ufeff" + FULL, encoding="utf-8")
    assert cli.main(["derive", str(path)]) == 0
    from_file = capsys.readouterr()
    assert cli.main(["derive", FULL]) == 0
    assert capsys.readouterr().out == from_file.out
    assert from_file.err == ""


# ------------------------------------------------------------------ compile


def test_compile_writes_a_module_and_says_how_it_was_checked(tmp_path, capsys):
    path = tmp_path / "dense_jac.py"
    assert cli.main(["compile", FULL, "-o", str(path)]) == 0
    out, err = capsys.readouterr()
    assert re.search(r"^dy/dW .* ok$", out, re.MULTILINE)
    assert err == f"wrote {path}, {path.with_suffix('.report.json')}\n"
    compiled = symgrad.compile(FULL)
    assert path.read_text(encoding="utf-8") == compiled.source


def test_compile_takes_no_check_dim_set_and_wrt(tmp_path, capsys):
    path = tmp_path / "a.py"
    options = ["--no-check", "--dim", "n=6", "--set", "σ=tanh", "--wrt", "W"]
    assert cli.main(["compile", LAYER, "-o", str(path), *options]) == 0
    out, err = capsys.readouterr()
    assert out == "" and err.endswith(f"wrote {path}\n")
    assert not path.with_suffix(".report.json").exists()
    text = path.read_text(encoding="utf-8")
    assert re.search(r"^WRT = \(?.*W", text, re.MULTILINE)
    assert "def jac_W(" in text and "def jac_b(" not in text
    assert cli.main(["check", str(path)]) == 0
    assert " n=" not in capsys.readouterr().out, "n is a number in this module"


@pytest.mark.parametrize(
    ("layer", "code", "said"),
    [
        ("y = q +", 2, "invalid syntax"),
        (LAYER, 2, "bind it"),
        ("x: input\nw: param\ny = w*log(-abs(x) - 1)", 1, "assert"),
    ],
)
def test_a_failed_compilation_leaves_the_old_file_and_no_other(tmp_path, capsys, layer, code, said):
    path = tmp_path / "out" / "a.py"
    path.parent.mkdir()
    path.write_text(OLD)
    assert cli.main(["compile", layer, "-o", str(path)]) == code
    assert said in capsys.readouterr().err
    assert path.read_text() == OLD
    assert [p.name for p in path.parent.iterdir()] == ["a.py"]


@pytest.mark.parametrize("command", [["compile", BOUND, "--no-check"], ["derive", LAYER]])
@pytest.mark.parametrize("ending", ["py", "tex", "md", "html", "txt"])
def test_only_what_symgrad_wrote_is_overwritten_unless_forced(tmp_path, capsys, command, ending):
    path = tmp_path / f"out.{ending}"
    path.write_text("mine\n")
    assert cli.main([*command, "-o", str(path)]) == 2
    said = capsys.readouterr().err
    assert str(path) in said and "--force" in said and "\nwrote" not in said
    assert path.read_text() == "mine\n"
    assert cli.main([*command, "-o", str(path), "--force"]) == 0
    first = path.read_bytes()
    assert b"mine" not in first
    assert cli.main([*command, "-o", str(path)]) == 0, "what symgrad wrote it may write again"
    assert path.read_bytes() == first
    path.write_text("\n")
    assert cli.main([*command, "-o", str(path)]) == 0, "an empty file holds nothing to lose"


def test_a_foreign_report_is_kept_and_an_old_one_does_not_stay(tmp_path, capsys):
    path, report = tmp_path / "a.py", tmp_path / "a.report.json"
    report.write_text('{"mine": 1}\n')
    assert cli.main(["compile", BOUND, "-o", str(path)]) == 2
    assert str(report) in capsys.readouterr().err
    assert not path.exists() and report.read_text() == '{"mine": 1}\n'
    assert cli.main(["compile", BOUND, "-o", str(path), "--force"]) == 0
    assert '"agreements"' in report.read_text()
    assert cli.main(["compile", BOUND, "-o", str(path)]) == 0
    assert cli.main(["compile", BOUND, "-o", str(path), "--no-check"]) == 0
    assert not report.exists(), "it was about another module"


@pytest.mark.skipif(os.name == "nt", reason="there is no /dev/stdout")
def test_a_derivation_can_be_written_to_a_device():
    done = run("derive", BOUND, "-o", "/dev/stdout")
    assert done.returncode == 0
    assert "∂y".encode() in done.stdout


def test_the_help_says_which_files_are_written_and_kept(capsys):
    for command, words in (("derive", "--force"), ("compile", "FILE.report.json")):
        assert cli.main([command, "--help"]) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert words in shown
        assert "did not write" in shown and "kept unless --force is given" in shown


@pytest.mark.parametrize("text", ["-W x", "-1", "-sin(x)", "--W x"])
@pytest.mark.parametrize("before", [[], ["--wrt", "W"]])
def test_a_text_that_begins_with_a_minus_is_told_where_it_goes(capsys, text, before):
    assert cli.main(["derive", *before, text]) == 2
    assert f"symgrad derive -- {shlex.quote(text)}" in capsys.readouterr().err
    assert cli.main(["derive", "--stile", "x"]) == 2
    assert "minus" not in capsys.readouterr().err


@pytest.mark.parametrize("sizes", [["--dim", "m=0"], ["--dim", "n=0,m=0"]])
def test_a_check_of_nothing_is_no_check(capsys, sizes):
    assert cli.main(["check", BOUND, *sizes]) == 2
    out, err = capsys.readouterr()
    assert out == "" and "nothing was checked" in err and "m=0" in err
    assert cli.main(["check", BOUND, "--dim", "n=0"]) == 0, "the bias is there"
    rows = capsys.readouterr().out.splitlines()
    assert all("nothing to compare" in row for row in rows if row.startswith("dy/dW"))
    assert all("ok" in row for row in rows if row.startswith("dy/db"))


def test_a_place_that_cannot_be_written_is_named(tmp_path, capsys):
    missing = tmp_path / "no" / "a.py"
    assert cli.main(["compile", FULL, "-o", str(missing)]) == 2
    assert str(missing) in capsys.readouterr().err
    assert cli.main(["compile", FULL, "-o", str(tmp_path)]) == 2
    assert str(tmp_path) in capsys.readouterr().err
    assert cli.main(["derive", FULL, "-o", str(missing)]) == 2
    assert str(missing) in capsys.readouterr().err


# ------------------------------------------------------------------ check


def test_check_agrees_with_a_layer_and_with_a_module(tmp_path, capsys):
    assert cli.main(["check", FULL, "--batch", "7", "--dim", "n=5", "--seed", "3"]) == 0
    out = capsys.readouterr().out
    assert "seed 3" in out and "n=5" in out
    entries = [int(line.split()[4]) for line in out.splitlines() if line.startswith("dy/db")]
    sizes = [int(m) for m in re.findall(r"m=(\d+)", out.splitlines()[0])]
    assert entries[0] == sum(7 * m * m for m in sizes)
    path = tmp_path / "dense_jac.py"
    assert cli.main(["compile", FULL, "-o", str(path), "--no-check"]) == 0
    assert cli.main(["check", str(path), "--batch", "2", "--dim", "m=4"]) == 0
    assert "m=4" in capsys.readouterr().out


def test_a_wrong_derivative_in_a_module_is_named_and_exits_with_1(tmp_path, capsys):
    path = tmp_path / "dense_jac.py"
    assert cli.main(["compile", FULL, "-o", str(path), "--no-check"]) == 0
    with path.open("a", encoding="utf-8") as file:
        file.write(
            "\n\n_right = jacobian\n\n\ndef jacobian(*arrays, **options):\n"
            "    found = _right(*arrays, **options)\n"
            "    return {**found, 'W': 1.001 * found['W']}\n"
        )
    capsys.readouterr()
    assert cli.main(["check", str(path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    wrong = [line.split()[0] for line in lines if "WRONG" in line]
    assert set(wrong) == {"dy/dW"}
    assert any(line.startswith("dy/db") and " ok" in line for line in lines)


def test_kinks_are_reported_as_kinks(capsys):
    text = "x: input[n]\nw: param[n]\ny = abs(w - stop_gradient(w)) * x"
    assert cli.main(["check", text, "--batch", "2", "--dim", "n=3"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()[1:]
    assert head.split()[-1] == "kinks"
    kinks = {row.split()[0]: int(row.split()[5]) for row in rows if "differences" in row}
    assert kinks == {"dy/dx": 0, "dy/dw": 2 * 2 * 3}


def test_a_layer_that_is_finite_nowhere_asks_for_an_assert(capsys):
    assert cli.main(["check", "y = log(-abs(x) - 1)"]) == 1
    assert "assert a > 0" in capsys.readouterr().err


@pytest.mark.parametrize("domain", ["w > 3", "10 < w < 11", "w <= -4", "(w > 2) & (x < -7)"])
def test_test_points_lie_in_the_asserted_domain(capsys, domain):
    text = f"x: input[n]\nw: param[n]\nassert {domain}\ny = w * x"
    assert cli.main(["check", text]) == 0
    assert "WRONG" not in capsys.readouterr().out
    program = check(symgrad.layer(text))
    for seed in range(5):
        assert all(domains_hold(program, sample(program, seed)))


def test_a_module_that_is_not_ours_is_never_run(tmp_path, capsys):
    path = tmp_path / "other.py"
    path.write_text("raise SystemExit('run')\n")
    assert cli.main(["check", str(path)]) == 2
    assert "not a module that symgrad generated" in capsys.readouterr().err
    assert cli.main(["check", "nowhere.py"]) == 2
    assert "nowhere.py" in capsys.readouterr().err


# ------------------------------------------------------------------ show


@pytest.mark.parametrize(
    ("stage", "said"),
    [
        ("parse", "W: param[m, n]"),
        ("check", "sum[k: n](W[i, k]*x[β, k])"),
        ("derive", "dy/dW[i: m, j: m, k: n] = "),
        ("simplify", "∂y[i]/∂W[j,k]"),
        ("plan", "product  z[β, i] = sum[k](W[i, k]*x[β, k])"),
        ("source", "def jac_W("),
    ],
)
def test_show_prints_every_stage_for_people(capsys, stage, said):
    assert cli.main(["show", FULL, "--stage", stage]) == 0
    out, err = capsys.readouterr()
    assert said in out
    assert err == ""
    assert not re.search(r"\w+\((?:\w+=|\(\))|Index\(|Dim\(|#B", out) or stage == "source"


def test_the_plan_numbers_its_steps_and_names_what_they_fill(capsys):
    text = "x: input[c, t]\nk: param[o, c, w]\ny[q, s] = sum[p, j](k[q, p, j] * x[p, s + j])"
    assert cli.main(["show", f"{text}\nz = softmax(y)", "--stage", "plan", "--wrt", "all"]) == 0
    out = capsys.readouterr().out
    assert [line for line in out.splitlines() if line.startswith("#")] == [
        "# the outputs",
        "# the factors of all Jacobians",
    ]
    assert "array y[B, o, t - w + 1]" in out
    assert re.search(r"^1\. (product|loops)", out, re.MULTILINE)
    assert "for b in samples:" in out
    assert "softmax[" in out


# ------------------------------------------------------------------ errors


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
def test_every_error_has_its_exit_code_and_one_message(broken, capsys, error, code):
    broken(error)
    assert cli.main(["derive", FULL]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.strip()
    assert "Traceback" not in err


def test_a_message_tells_what_where_and_what_to_do(tmp_path, capsys):
    path = tmp_path / "dense.sg"
    path.write_text("x: input[p]\nW: param[m, n]\n\n\nz[i] = sum[k](W[i, k] * x[k])\n")
    assert cli.main(["derive", "dense.sg"]) == 2
    assert capsys.readouterr().err == (
        "ShapeError: dense.sg:5:25: index k runs over n in W[i, k] but over p in x[k]\n"
        "    z[i] = sum[k](W[i, k] * x[k])\n"
        "                            ^^^^\n"
        "declare x: input[n], or sum over another index\n"
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["--debug", "derive", "y = q +"],
        ["derive", "--debug", "y = q +"],
        ["derive", "y = q +", "--debug"],
    ],
)
def test_debug_shows_the_traceback_wherever_it_stands(capsys, arguments):
    assert cli.main(arguments) == 2
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert err.count("LayerSyntaxError: <layer>:1:") >= 1
    assert cli.main([a for a in arguments if a != "--debug"]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_debug_after_two_dashes_is_text(capsys):
    assert cli.main(["derive", "--", "--debug"]) == 2
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["derive"], "LAYER"),
        (["derive", LAYER, "--stile", "index"], "--stile"),
        (["derive", LAYER, "--style", "tensor"], "tensor"),
        (["derive", LAYER, "--set", "tanh"], "NAME=VALUE"),
        (["derive", LAYER, "--set", "σ=tanh", "--set", "σ=relu"], "twice"),
        (["derive", LAYER, "--set", "σ=tnah"], "did you mean tanh?"),
        (["derive", LAYER, "--set", "τ=tanh"], "τ"),
        (["derive", LAYER, "--dim", "n=-1"], "whole number"),
        (["derive", LAYER, "--dim", "n=²"], "whole number"),
        (["derive", LAYER, "--dim", "q=3"], "names q"),
        (["derive", LAYER, "--wrt", "Q"], "'Q'"),
        (["derive", "nowhere.sg"], "cannot read nowhere.sg"),
        (["derive", ""], "empty"),
        (["compile", LAYER], "--output"),
        (["check", LAYER, "--batch", "-1"], "--batch"),
        (["check", LAYER, "--batch", "0"], "--batch"),
        (["check", BOUND, "--seed", "-1"], "seed"),
        (["show", LAYER, "--stage", "guess"], "guess"),
        (["derivate", LAYER], "derivate"),
    ],
)
def test_wrong_options_are_the_users_input(capsys, arguments, said):
    assert cli.main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert "Traceback" not in err


def test_a_file_with_another_ending_is_not_taken_for_text(tmp_path, capsys):
    (tmp_path / "dense.txt").write_text(LAYER, encoding="utf-8")
    assert cli.main(["derive", "dense.txt"]) == 2
    assert ".sg" in capsys.readouterr().err


def test_a_warning_is_one_line(monkeypatch, capsys):
    read = symgrad.layer

    def warning_layer(text):
        import warnings

        warnings.warn("slow", stacklevel=1)
        return read(text)

    monkeypatch.setattr(symgrad, "layer", warning_layer)
    assert cli.main(["derive", FULL]) == 0
    assert capsys.readouterr().err == "warning: slow\n"


# ------------------------------------------------------------------ plan


def test_plan_prints_polynomials_and_values_form_by_form(capsys):
    sizes = ["--batch", "256", "--dim", "n=64,m=32"]
    assert cli.main(["plan", FULL, *sizes, "--wrt", "W"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out == f"{symgrad.plan(FULL, 'W', batch=256, dims={'n': 64, 'm': 32})}\n"
    assert out.startswith("layer: B = 256, n = 64, m = 32, float64\n")
    lines = out.splitlines()
    dense = lines.index("jac_W")
    assert lines[dense + 3] == "  results     8*B*m*m*n  =  128.0 MiB"
    assert "jac_b" not in lines, "what is not selected costs nothing"


def test_plan_takes_sizes_that_no_shape_gives_and_prints_symbols_without_sizes(capsys):
    text = "x: input[n]\na: param[n]\ny = x * a * sum(eye(k), axis=None)"
    assert cli.main(["plan", text, "--dim", "k=3"]) == 0
    out = capsys.readouterr().out
    assert "  results     8*B*n\n" in out and " = " not in out


def test_plan_says_which_dim_a_layer_has_not(capsys):
    assert cli.main(["plan", FULL, "--batch", "2", "--dim", "q=3"]) == 2
    assert "q" in capsys.readouterr().err
    assert cli.main(["plan", FULL, "--dtype", "int64"]) == 2
    assert "float32" in capsys.readouterr().err


@pytest.mark.skipif(os.name == "nt", reason="no pseudo-terminals there")
def test_plan_is_a_table_on_a_terminal():
    import pty

    master, slave = pty.openpty()
    command = [sys.executable, "-m", "symgrad", "plan", FULL, "--batch", "2"]
    with subprocess.Popen(
        command, stdout=slave, stderr=subprocess.DEVNULL, env={**os.environ, "COLUMNS": "120"}
    ) as child:
        os.close(slave)
        out = b""
        with contextlib.suppress(OSError):  # Linux ends a terminal with an error
            while part := os.read(master, 4096):
                out += part
    os.close(master)
    assert child.returncode == 0
    text = out.decode()
    assert "│" in text and "2*B*m*n + B*m" in text and "jac_W_compact" in text


# ------------------------------------------------------------------ help


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_every_command_has_an_example_that_works(tmp_path, capsys, command):
    assert cli.main([command, "--help"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    example = re.search(rf"Example: (symgrad {command}.*)$", out)
    assert example
    assert cli.main(shlex.split(example[1])[1:]) == 0
    assert capsys.readouterr().out


def test_no_arguments_print_the_help(capsys):
    assert cli.main([]) == 0
    assert "Usage" in capsys.readouterr().out


def test_version_is_printed(capsys):
    assert cli.main(["--version"]) == 0
    assert re.fullmatch(r"symgrad \d+\.\d+\.\d+\S*\n", capsys.readouterr().out)


# ------------------------------------------------------------------ the real process


@pytest.mark.slow
def test_the_module_is_the_command():
    ended = run("derive", BOUND, PYTHONIOENCODING="utf-8")
    assert ended.returncode == 0
    assert ended.stdout.decode() == symgrad.derive(BOUND).text() + os.linesep
    assert run("derive", "y = q +").returncode == 2
    assert run("check", "y = log(-abs(x) - 1)").returncode == 1


@pytest.mark.slow
def test_a_pipe_sees_results_only(tmp_path):
    ended = run("compile", FULL, "-o", "a.py", "--no-check")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"wrote a.py\n")


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_everything_prints_in_every_encoding(encoding):
    for arguments in (("derive", "--help"), ("derive", LAYER), ("show", FULL, "--stage", "plan")):
        ended = run(*arguments, PYTHONIOENCODING=encoding)
        assert ended.returncode == 0
        assert ended.stdout.decode(encoding)
        assert b"Traceback" not in ended.stderr
    wrong = run("derive", "y = αβγδ(W x)", PYTHONIOENCODING=encoding)
    assert wrong.returncode == 2
    assert wrong.stderr.decode(encoding).startswith("LayerSyntaxError: <layer>:1:5: ")


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


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
def test_an_interrupt_ends_with_130_and_one_word():
    script = (
        "import sys, time, symgrad; from symgrad import cli\n"
        "def derive(*_args, **_options):\n"
        "    print('now', flush=True)\n"
        "    time.sleep(60)\n"
        "symgrad.derive = derive\n"
        f"sys.exit(cli.main(['derive', {FULL!r}]))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout.readline() == b"now\n"
    time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err == b"interrupted\n"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_progress_shows_on_a_terminal_and_nowhere_else():
    import pty

    script = (
        "import time; from symgrad.commands import _working\n"
        "with _working('deriving'): time.sleep(.3)"
    )
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm"}
    subprocess.run([sys.executable, "-c", script], stderr=theirs, env=environment, check=True)
    assert b"deriving" in os.read(ours, 4096)
    piped = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert piped.stderr == piped.stdout == b""


# ------------------------------------------------------------------ letters, the demo's kernel


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


def test_compile_computes_again_what_it_is_told(capsys, tmp_path):
    target = tmp_path / "dense_jac.py"
    layer = "x: input[n]\nW: param[m, n]\nh = tanh(W @ x)\ny = h ** 2"
    command = ["compile", layer, "--recompute", "h", "--no-check", "-o", str(target)]
    assert cli.main(command) == 0
    assert '"recompute": ("z", "h"),' in target.read_text(encoding="utf-8")
    assert cli.main([*command[:3], "hh", *command[4:]]) == 2
    assert "did you mean h?" in capsys.readouterr().err


def test_compile_can_make_all_kernels_ahead_and_says_for_which_dtypes(tmp_path, capsys):
    text = "x: input[n]\nw: param[n]\ny = w * x + 0.375"
    arguments = ["compile", text, "-o", "scaled.py", "--no-check", "--warm"]
    assert cli.main([*arguments, "--dtype", "float32,float64"]) == 0
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == "wrote scaled.py\ncompiled its kernels for float32, float64\n"
    kept = [file.name for file in (tmp_path / "__pycache__").iterdir() if file.suffix == ".nbc"]
    assert len(kept) == 2 * len({name.partition("-")[0] for name in kept}) > 0
    assert cli.main(["compile", "--help"]) == 0
    assert "--warm" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "said"),
    [(["--dtype", "float32"], "--warm"), (["--warm", "--dtype", "float16"], "float16")],
)
def test_dtypes_that_nothing_is_compiled_for_are_refused(options, said, capsys, tmp_path):
    assert cli.main(["compile", BOUND, "-o", "no.py", *options]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "no.py").exists()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_kernels_are_counted_on_a_terminal_and_nowhere_else():
    import pty

    script = "from symgrad.commands import _counted\nfor _ in _counted([1, 2], 'compiling'): pass"
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm"}
    subprocess.run([sys.executable, "-c", script], stderr=theirs, env=environment, check=True)
    assert b"compiling" in os.read(ours, 4096)
    piped = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert piped.stderr == piped.stdout == b""
