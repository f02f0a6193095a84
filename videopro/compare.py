"""`python -m videopro.compare` is `videopro compare`."""

import sys

from videopro.commands.compare import main

if __name__ == "__main__":
    sys.exit(main())
