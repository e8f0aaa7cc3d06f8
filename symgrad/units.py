"""Numbers in units that are read at a glance.

int -> str
"""

from __future__ import annotations

BYTES = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
NUMBERS = ("k", "M", "G", "T", "P", "E")


def in_numbers(value: int) -> str:
    """Return a count in thousands, millions, ...: `2.1 M`."""
    return _scaled(value, 1000, NUMBERS) or str(value)


def in_bytes(value: float) -> str:
    """Return a number of bytes in multiples of 1024: `64.0 KiB`."""
    return _scaled(value, 1024, BYTES) or f"{value:.0f} bytes"


def _scaled(value: float, base: int, units: tuple[str, ...]) -> str:
    """Return a value in the largest unit of which it has one; "" if it has none of any."""
    power = 0
    while power < len(units) and value >= base ** (power + 1):
        power += 1
    return f"{value / base**power:,.1f} {units[power - 1]}" if power else ""
