"""All measurements by one command: as memory comes by default, then with huge pages.

options -> two processes -> one report
Huge pages are a matter of how a process was started, so each half runs in one of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks import output
from benchmarks.peers import Verdict

HALVES: Mapping[str, tuple[str, ...]] = {"default": (), "huge pages": ("--huge",)}


def everything(options: Sequence[str]) -> dict[str, output.Report]:
    """Return both reports; each process prints its own. `options` are those of `peers`.

    Raises SystemExit, with the code of a process that failed: peers may disagree.
    """
    reports = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, more in HALVES.items():
            file = Path(folder) / "found.json"
            command = [sys.executable, "-m", "benchmarks", "peers", *options, *more]
            done = subprocess.run([*command, "--json", str(file)], check=False)
            if done.returncode:
                raise SystemExit(done.returncode)
            reports[name] = output.loaded(json.loads(file.read_text(encoding="utf-8")))
    return reports


def settled(reports: Mapping[str, output.Report]) -> list[Verdict]:
    """Return the targets, each as measured where it asks to be: some ask for huge pages."""
    default, huge = (reports[name].verdicts for name in HALVES)
    return [b if b.asked.endswith("huge pages") else a for a, b in zip(default, huge, strict=True)]


__all__ = ["everything", "settled"]
