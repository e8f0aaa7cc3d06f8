"""What a measurement depends on: the machine, the versions, and the variables of the process.

-> facts; a process started again with other variables
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

REMOVED = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
"""They make OpenBLAS choose kernels that no user of this machine would get."""

TOLD = "SYMGRAD_BENCHMARKS_REMOVED"
"""Tells the process that is started again what was removed."""

HUGE = "glibc.malloc.hugetlb=1"

PACKAGES = ("symgrad", "numpy", "numba", "llvmlite", "torch", "jax", "jaxlib", "casadi")
PACKAGES = (*PACKAGES, "backpack-for-pytorch", "scipy", "tbb")


def environment(given: Mapping[str, str], *, huge: bool) -> dict[str, str] | None:
    """Return the variables that the measured process must have; None if it has them already."""
    removed = [name for name in REMOVED if name in given]
    tunables = given.get("GLIBC_TUNABLES", "")
    if not removed and (not huge or HUGE in tunables):
        return None
    kept = {name: value for name, value in given.items() if name not in REMOVED}
    if removed:
        kept[TOLD] = ",".join(removed)
    if huge and HUGE not in tunables:
        kept["GLIBC_TUNABLES"] = f"{tunables}:{HUGE}" if tunables else HUGE
    return kept


def start_again(arguments: Sequence[str], *, huge: bool) -> None:
    """Replace this process by one with the variables it must have, if it has not."""
    variables = environment(os.environ, huge=huge)
    if variables is not None:
        sys.stdout.flush()
        command = [sys.executable, "-m", "benchmarks", *arguments]
        os.execve(sys.executable, command, variables)


def facts() -> dict[str, object]:
    """Return what the numbers depend on."""
    return {
        "processor": processor(),
        "cores": cores(),
        "python": platform.python_version(),
        "system": platform.platform(),
        "versions": {name: found for name in PACKAGES if (found := installed(name))},
        "huge pages": huge_pages(),
        "removed variables": [n for n in os.environ.get(TOLD, "").split(",") if n],
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    }


def huge_pages() -> bool:
    """Return whether large arrays of this process lie in huge pages."""
    return HUGE in os.environ.get("GLIBC_TUNABLES", "")


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def processor() -> str:
    """Return the processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def installed(package: str) -> str | None:
    """Return the version of a package, None if it is not there."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
