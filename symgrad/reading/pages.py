"""A derivation laid out as Markdown, as an HTML page, as a LaTeX document.

title, sections of steps, captions -> str
Only layout stands here; every formula was written before.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Protocol


class Line(Protocol):
    """One equation, in text, LaTeX and MathML."""

    @property
    def text(self) -> str: ...
    @property
    def latex(self) -> str: ...
    @property
    def mathml(self) -> str: ...


class Note(Line, Protocol):
    """A symbol and what it means."""

    @property
    def words(self) -> str: ...


Sections = Sequence[tuple[str, Sequence[Line]]]

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem }
.symgrad math[display="block"] { margin: .5rem 0; overflow-x: auto; text-align: left }
.symgrad pre { background: #f6f6f4; overflow-x: auto; padding: .5rem 1rem }
.symgrad details, .symgrad dl { color: #555; font-size: .85rem }
.symgrad dt { float: left; margin-right: .6rem }
""".strip()


def markdown_page(title: str, sections: Sections, notes: Sequence[Note]) -> str:
    """Return Markdown with each equation between `$$`."""
    parts = [f"# {title}"]
    for heading, lines in sections:
        parts.append(f"## {heading}")
        parts += [f"$$\n{line.latex}\n$$" for line in lines]
    if notes:
        parts += ["## Notation", "\n".join(f"- ${n.latex}$: {n.words}" for n in notes)]
    return "\n\n".join(parts) + "\n"


def html_page(
    title: str, sections: Sections, notes: Sequence[Note], whole: bool = True
) -> str:
    """Return HTML whose formulas are MathML: no scripts, no network; the LaTeX to copy below."""
    parts = [f'<article class="symgrad">\n<h1>{html.escape(title)}</h1>']
    for heading, lines in sections:
        latex = "\n".join(html.escape(line.latex) for line in lines)
        parts.append(f"<h2>{html.escape(heading)}</h2>")
        parts += [_math(line, "block") for line in lines]
        parts.append(f"<details><summary>LaTeX</summary><pre>{latex}</pre></details>")
    if notes:
        words = [f"<dt>{_math(n, 'inline')}</dt><dd>{html.escape(n.words)}</dd>" for n in notes]
        parts += ["<h2>Notation</h2>", "<dl>", *words, "</dl>"]
    body = "\n".join([*parts, "</article>"])
    if not whole:
        return body
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>\n'
        f"<title>{html.escape(title)}</title>\n<style>\n{_STYLE}\n</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def _math(line: Line, display: str) -> str:
    """Return one `<math>` element, read aloud as its text."""
    label = html.escape(line.text)
    return (
        f'<math xmlns="http://www.w3.org/1998/Math/MathML" display="{display}" '
        f'aria-label="{label}">{line.mathml}</math>'
    )


def tex_page(title: str, sections: Sections, notes: Sequence[Note]) -> str:
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
    if notes:
        items = [rf"\item ${n.latex}$: {tex_escape(n.words)}" for n in notes]
        parts += [r"\subsection*{Notation}", r"\begin{itemize}", *items, r"\end{itemize}"]
    return "\n".join([*parts, r"\end{document}"]) + "\n"


def tex_escape(text: str) -> str:
    """Return prose with the characters that TeX reads as commands escaped."""
    table = {c: f"\\{c}" for c in "#$%&_{}"} | {
        "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    }
    return "".join(table.get(c, c) for c in text)
