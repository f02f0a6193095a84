"""`python -m videopro.index` is `videopro index`."""

import sys

from videopro.commands.index.command import main

if __name__ == "__main__":
    sys.exit(main())
