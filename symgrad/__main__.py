"""`python -m symgrad` is the command line.

arguments -> exit code
"""

import sys

from symgrad.cli import main

if __name__ == "__main__":
    sys.exit(main())
