"""A derivation laid out as Markdown, as an HTML page, as a LaTeX document.

title, sections of steps -> str
Only layout stands here; every formula was written before.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Protocol


class Line(Protocol):
    """One equation, in text and LaTeX."""

    @property
    def text(self) -> str: ...
    @property
    def latex(self) -> str: ...


Sections = Sequence[tuple[str, Sequence[Line]]]

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem }
.symgrad pre { background: #f6f6f4; overflow-x: auto; padding: .5rem 1rem }
.symgrad details { color: #666; font-size: .85rem }
""".strip()


def markdown_page(title: str, sections: Sections, note: str) -> str:
    """Return Markdown with each equation between `$$`."""
    parts = [f"# {title}"]
    for heading, lines in sections:
        parts.append(f"## {heading}")
        parts += [f"$$\n{line.latex}\n$$" for line in lines]
    return "\n\n".join([*parts, f"*{note}*"]) + "\n"


def html_page(title: str, sections: Sections, note: str, whole: bool = True) -> str:
    """Return HTML that reads without scripts: the text, and the LaTeX to copy below it."""
    parts = [f'<article class="symgrad">\n<h1>{html.escape(title)}</h1>']
    for heading, lines in sections:
        text = "\n".join(html.escape(line.text) for line in lines)
        latex = "\n".join(html.escape(line.latex) for line in lines)
        parts.append(
            f"<h2>{html.escape(heading)}</h2>\n<pre>{text}</pre>\n"
            f"<details><summary>LaTeX</summary><pre>{latex}</pre></details>"
        )
    parts.append(f"<p><em>{html.escape(note)}</em></p>\n</article>")
    body = "\n".join(parts)
    if not whole:
        return body
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{html.escape(title)}</title>\n<style>\n{_STYLE}\n</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def tex_page(title: str, sections: Sections, note: str) -> str:
    """Return a standalone LaTeX document."""
    parts = [
        r"\documentclass{article}",
        r"\usepackage{amsmath, amssymb}",
        r"\allowdisplaybreaks",
        r"\begin{document}",
        rf"\section*{{{tex_escape(title)}}}",
    ]
    for heading, lines in sections:
        parts.append(rf"\subsection*{{{tex_escape(heading)}}}")
        rows = " \\\\\n".join(line.latex.replace(" = ", " &= ", 1) for line in lines)
        parts.append(f"\\begin{{align*}}\n{rows}\n\\end{{align*}}")
    signs = note.replace("∂", r"$\partial$").replace("G^z", "$G^z$")
    return "\n".join([*parts, rf"\emph{{{signs}}}", r"\end{document}"]) + "\n"


def tex_escape(text: str) -> str:
    """Return prose with the characters that TeX reads as commands escaped."""
    table = {c: f"\\{c}" for c in "#$%&_{}"} | {
        "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    }
    return "".join(table.get(c, c) for c in text)
