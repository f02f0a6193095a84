"""`python -m videopro.seeds` is `videopro seeds`."""

import sys

from videopro.commands.seeds import main

if __name__ == "__main__":
    sys.exit(main())
