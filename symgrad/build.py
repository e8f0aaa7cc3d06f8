"""Turn the text of a generated module into a file, and the file into a module.

str, name -> build -> Path -> load -> module
A file is either complete or absent: it is written under a temporary name and then renamed, into a
folder named after everything it depends on, so that processes may race and caches never go stale.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import importlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import stat
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator
from functools import cache
from importlib.abc import SourceLoader
from pathlib import Path
from types import ModuleType

from symgrad import errors
from symgrad.version import __version__


def build(source: str, name: str, *, path: str | os.PathLike[str] | None = None) -> Path:
    """Write the module `source` and return its file.

    With `path` the file stands there; without, in the cache, under a folder whose name covers the
    text and the versions of symgrad and numba, as `<name>.py`. A file of the cache that holds the
    text already is left alone, so numba finds its compiled kernels beside it. Raises OSError if
    `path` cannot be written; a cache that cannot be written is replaced by a private temporary
    folder, with one warning.
    """
    if path is not None:
        return write(Path(path), source)
    entry = Path(cache_key(source)) / f"{file_stem(name)}.py"
    try:
        return _write_unless_there(cache_folder() / entry, source)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        return _write_unless_there(_private_folder_for(cache_folder(), reason) / entry, source)


def load(path: str | os.PathLike[str], *, plain: bool = False) -> ModuleType:
    """Import a generated file under a name of its own; the same content gives the same module.

    With `plain`, or while numba's compiler is switched off, it runs as plain Python; it is another
    module than the compiled one. The module raises symgrad's own errors. Raises ArgumentError for
    a file that symgrad did not generate: only generated files are ever executed.
    """
    file = Path(os.path.realpath(path))
    text = file.read_bytes()
    if not _MARK.search(text):
        raise errors.ArgumentError(
            f"{file.name} is not a module that symgrad generated (it has no SYMGRAD_VERSION)",
            hint="write one with `symgrad compile LAYER -o FILE.py`",
        )
    numba = sys.modules.get("numba")
    plain = plain or bool(numba and numba.config.DISABLE_JIT)
    digest = hashlib.sha256(os.fsencode(file) + b"\0" + text).hexdigest()[:16]
    module_name = f"symgrad_generated_{digest}{'_plain' if plain else ''}"
    with _LOADING:
        loaded = _LOADED.get(module_name)
        if loaded is None:
            loaded = _LOADED[module_name] = _import(module_name, file, text, plain)
        return loaded


def text_of(module: ModuleType) -> str:
    """Return the text that a loaded module was made of, whatever its file holds by now."""
    loader = module.__loader__
    assert isinstance(loader, _TextLoader)
    return loader.get_data(str(module.__file__)).decode("utf-8")


def again(source: str, path: Path) -> tuple[ModuleType, Path]:
    """Return the module of a text and its file: `path` if it holds that text, else in the cache.

    So what was pickled with the text of its module comes alive in any process.
    """
    try:
        file = path if path.read_bytes() == source.encode() else build(source, path.stem)
    except OSError:
        file = build(source, path.stem)
    return load(file), file


def write(path: Path, text: str) -> Path:
    """Write `text` to `path` as UTF-8, whole or not at all, and return the path.

    A link is followed and the permissions of an older file are kept; a device or a pipe cannot be
    renamed over and is written to directly. Raises OSError.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        path.write_text(text, encoding="utf-8")
        return path
    target = Path(os.path.realpath(path))
    try:
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=".symgrad-", suffix=".tmp")
    except OSError as error:
        error.filename = str(path)  # the user never asked for the temporary name
        raise
    try:
        with open(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        os.chmod(temporary, _mode_for(target))
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    return path


def is_replaceable(path: Path) -> bool:
    """Whether writing to a path loses nothing of a user's.

    So it is where there is no file, an empty one, no ordinary one, or one that symgrad wrote.
    """
    if not path.is_file():
        return True
    old = path.read_bytes()
    return not old.strip() or bool(_OURS.search(old))


def cache_folder() -> Path:
    """Return where generated modules are kept: `$SYMGRAD_CACHE`, else the platform's place."""
    chosen = os.environ.get("SYMGRAD_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    if sys.platform == "darwin":
        base = Path("~/Library/Caches")
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or "~/AppData/Local")
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    return Path(os.path.expanduser(base)) / "symgrad"


def cache_key(source: str) -> str:
    """Return 16 hexadecimal digits that change with the text, symgrad's or numba's version."""
    parts = (source, __version__, _numba_version())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def file_stem(name: str) -> str:
    """Return `name` as a file name: ASCII letters, digits and underscores, never empty."""
    return re.sub(r"[^0-9A-Za-z_]+", "_", name)[:60] or "layer"


@cache
def _numba_version() -> str:
    try:
        return importlib.metadata.version("numba")
    except importlib.metadata.PackageNotFoundError:
        return "none"


def _write_unless_there(path: Path, source: str) -> Path:
    """Write a cache entry unless it is there, complete; a damaged one is written again."""
    with contextlib.suppress(OSError):
        if path.read_bytes() == source.encode():
            return path
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return write(path, source)


@cache
def _private_folder_for(folder: Path, reason: str) -> Path:
    """Return a temporary folder of this process, after one warning; the same when asked again."""
    private = Path(tempfile.mkdtemp(prefix="symgrad-"))
    owner = os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # a forked child must not delete its parent's folder
            shutil.rmtree(private, ignore_errors=True)

    atexit.register(remove)
    warnings.warn(
        f"the cache folder {folder} cannot be written ({reason}); compiled layers are kept in a "
        "temporary folder until this process ends. Set SYMGRAD_CACHE to a folder of your own.",
        stacklevel=3,
    )
    return private


def _mode_for(target: Path) -> int:
    """Return the permissions of an older file at `target`, else what the umask leaves."""
    with contextlib.suppress(OSError):
        return stat.S_IMODE(target.stat().st_mode)
    mask = os.umask(0o077)
    os.umask(mask)
    return 0o666 & ~mask


SIGNATURE = "Generated by symgrad; any change will be lost."
"""What stands in all that symgrad writes for users, so that it knows what it may overwrite."""
_MARK = re.compile(rb"^SYMGRAD_VERSION\b", re.MULTILINE)
_REPORT = rb'^\s*"agreements": \['
_OURS = re.compile(b"|".join((_MARK.pattern, _REPORT, SIGNATURE.encode())), re.MULTILINE)
_LOADED: dict[str, ModuleType] = {}
_LOADING = threading.RLock()


class _TextLoader(SourceLoader):
    """Import exactly the bytes that were hashed.

    No byte code is read or written: it is matched by a time stamp of one second and the size, so
    a file written twice in a second could run as its older self.
    """

    def __init__(self, file: Path, text: bytes) -> None:
        self._file = str(file)
        self._text = text

    def get_filename(self, fullname: str) -> str:  # noqa: ARG002 (the importer's signature)
        """Return the file, under which numba keeps compiled kernels and debuggers find lines."""
        return self._file

    def get_data(self, path: str | bytes) -> bytes:
        """Return the source; anything else (byte code) is not there."""
        if path != self._file:
            raise FileNotFoundError(path)
        return self._text


def _import(module_name: str, file: Path, text: bytes, plain: bool) -> ModuleType:
    """Set up the module; it stays in sys.modules under its own name only if that went well."""
    loader = _TextLoader(file, text)
    spec = importlib.util.spec_from_loader(module_name, loader, origin=str(file))
    assert spec is not None  # a loader was given
    spec.has_location = True
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        with _without_jit() if plain else contextlib.nullcontext():
            loader.exec_module(module)
    except BaseException:
        sys.modules.pop(module_name, None)
        raise
    for name in ("ShapeError", "ArgumentError", "TooLargeError"):
        if name in vars(module):
            setattr(module, name, getattr(errors, name))
    return module


@contextlib.contextmanager
def _without_jit() -> Iterator[None]:
    """Switch numba's compiler off: for later imports of numba and for the one there may be."""
    numba = _numba_if_there()
    configured = numba.config.DISABLE_JIT if numba else 0
    before = os.environ.get("NUMBA_DISABLE_JIT")
    try:
        os.environ["NUMBA_DISABLE_JIT"] = "1"
        if numba:
            numba.config.DISABLE_JIT = 1
        yield
    finally:
        if numba:
            numba.config.DISABLE_JIT = configured
        if before is None:
            os.environ.pop("NUMBA_DISABLE_JIT", None)
        else:
            os.environ["NUMBA_DISABLE_JIT"] = before


def _numba_if_there() -> ModuleType | None:
    """Return numba, imported before the switch is set: it would read it once and for good."""
    try:
        return importlib.import_module("numba")
    except ImportError:
        return None
