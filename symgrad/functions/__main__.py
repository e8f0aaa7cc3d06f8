"""Print the page of functions: `python -m symgrad.functions > docs/functions.md`."""

from __future__ import annotations

import sys

from symgrad.functions.page import page

sys.stdout.write(page())
