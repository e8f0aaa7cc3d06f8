"""The command line: run one command and turn errors into exit codes.

argv -> main -> exit code
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from itertools import pairwise

from symgrad.commands import FAILED, app, say
from symgrad.errors import InternalError, SymgradError, ValidationError
from symgrad.transliterate import tolerate

DONE, WRONG_INPUT, OUR_FAULT, INTERRUPTED, PIPE_CLOSED = 0, 2, 70, 130, 141

def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; no traceback is printed without --debug."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = _take_debug(arguments)
    for stream in (sys.stdout, sys.stderr):
        tolerate(stream)
    try:
        with _warnings_as_messages():
            return _run(arguments or ["--help"])
    except BrokenPipeError:
        _let_stdout_go()
        return PIPE_CLOSED
    except KeyboardInterrupt:
        say("interrupted")
        return INTERRUPTED
    except Exception as error:
        if debug:
            traceback.print_exc()
        return _explain(error, arguments)


def _run(arguments: list[str]) -> int:
    """Hand the arguments to typer and return the exit code it asks for."""
    try:
        if "--help" in arguments:
            code = _print_help(arguments)
        else:
            code = app(arguments, prog_name="symgrad", standalone_mode=False)
        sys.stdout.flush()
    except SystemExit as ended:  # how typer reports a closed pipe
        raise BrokenPipeError from ended
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    return code if isinstance(code, int) else DONE


def _print_help(arguments: list[str]) -> object:
    """Print a help page ourselves: typer writes UTF-8 where a terminal holds ASCII only."""
    with contextlib.redirect_stdout(io.StringIO()) as page:
        code = app(arguments, prog_name="symgrad", standalone_mode=False)
    print(page.getvalue(), end="")
    return code


def _explain(error: Exception, arguments: Sequence[str]) -> int:
    """Say on stderr what went wrong, once, and return the exit code that goes with it."""
    if isinstance(error, InternalError):
        say(f"{type(error).__name__}: {error}")
        return OUR_FAULT
    if isinstance(error, SymgradError):
        say(f"{type(error).__name__}: {error}")
        return FAILED if isinstance(error, ValidationError) else WRONG_INPUT
    if usage := getattr(error, "format_message", None):  # typer's own: options, arguments
        say(f"{usage()}\n{_dash_hint(arguments)}see: symgrad --help")
        return WRONG_INPUT
    if isinstance(error, OSError):
        say(f"cannot use {error.filename or 'a file'}: {error.strerror or error}")
        return WRONG_INPUT
    if isinstance(error, UnicodeDecodeError):
        say(f"the layer is not UTF-8 text: {error.reason} at byte {error.start}")
        return WRONG_INPUT
    say(
        f"InternalError: {type(error).__name__}: {error}\n"
        "this is a fault of symgrad; please report it with the layer and what --debug prints"
    )
    return OUR_FAULT


def _dash_hint(arguments: Sequence[str]) -> str:
    """Return a line about `--` if an argument with a minus is rather a text than an option."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    for before, argument in pairwise(options):
        is_value = before == "-o" or before.startswith("--")
        if not is_value and re.match(r"-(?!o)[^-]|--(?![a-z-]+(=|$))", argument):
            quoted = shlex.quote(argument)
            command = f"symgrad {options[0]} -- {quoted}"
            return f"a layer that begins with a minus goes after two more: {command}\n"
    return ""


@contextlib.contextmanager
def _warnings_as_messages() -> Iterator[None]:
    """Print warnings as one line each, without the place in our code that raised them."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: say(f"warning: {message}")
        yield


def _take_debug(arguments: list[str]) -> bool:
    """Remove --debug, which may stand anywhere before `--`, and say whether it was there."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    if "--debug" not in arguments[:end]:
        return False
    arguments[:end] = [argument for argument in arguments[:end] if argument != "--debug"]
    return True


def _let_stdout_go() -> None:
    """Point stdout nowhere, so that Python does not complain when it flushes at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
