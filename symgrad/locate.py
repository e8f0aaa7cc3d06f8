"""Find the folder of templates, whether symgrad is installed or run from a checkout.

-> locate -> Path
A folder counts only if the sentinel template is in it.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from symgrad.errors import InternalError

SENTINEL = "module.py.jinja"


def locate() -> Path:
    """Return the folder that holds the templates.

    A wheel carries it inside the package; an editable install or a checkout has it beside the
    package. Raises InternalError if neither holds the sentinel template.
    """
    installed = Path(str(resources.files("symgrad") / "templates"))
    candidates = (installed, Path(__file__).resolve().parent.parent / "templates")
    for folder in candidates:
        if (folder / SENTINEL).is_file():
            return folder
    looked = " or ".join(str(folder) for folder in candidates)
    raise InternalError(
        f"the templates of symgrad are missing: no {SENTINEL} in {looked}",
        hint="install symgrad again, and please report it if that does not help",
    )
