"""The jinja2 environment: templates see strings and tuples of strings, and nothing undefined.

str -> Template
"""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from symgrad.locate import locate


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(str(locate())),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )


@cache
def template(name: str) -> Template:
    """Return a template of the templates folder."""
    return _environment().get_template(name)
