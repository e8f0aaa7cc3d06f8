"""Where the examples draw: with matplotlib, if it is installed (`pip install "symgrad[plot]"`)."""

import sys


def saved(name, draw):
    """Let `draw` fill a figure; save it where the script's argument says, else as `name` here."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("   matplotlib is not installed: the plot is left out")
        return
    path = sys.argv[1] if len(sys.argv) > 1 else name
    figure = Figure(figsize=(9, 4), layout="constrained")
    draw(figure)
    figure.savefig(path)
    print(f"   plot: {path}")
