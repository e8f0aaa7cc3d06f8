"""Medians of many calls; several things are timed in turns, in one run.

calls -> seconds
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

from symgrad.bench import once, timed

Call = Callable[[], object]

BLOCK = 0.02
"""Seconds that one thing is called in a row before the next has its turn."""


def side_by_side(*runs: Call, seconds: float = 0.5) -> list[float]:
    """Return the median time of each in seconds, called in turns in blocks.

    Each is called for about `seconds` in all, at least 9 times, in 3 or more blocks of at least 3
    calls. The first third of a block is not counted: threads of the one before may still be
    spinning. `seconds=0` calls each in one block, to see that it runs.
    """
    times: list[list[float]] = [[] for _ in runs]
    blocks = []
    for run in runs:
        run()
        block = min(300, int(BLOCK / max(once(run), 1e-9))) if seconds else 3
        blocks.append(max(3, block))
    rounds = max(3, int(seconds / BLOCK)) if seconds else 1
    spent = [0.0] * len(runs)
    for turn in range(rounds):
        for place, (run, block) in enumerate(zip(runs, blocks, strict=True)):
            if turn >= 3 and spent[place] > seconds:
                continue
            taken = [once(run) for _ in range(block)]
            spent[place] += sum(taken)
            times[place] += taken[block // 3 :]
    return [median(counted) for counted in times]


__all__ = ["Call", "side_by_side", "timed"]
