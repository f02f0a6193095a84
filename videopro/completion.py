"""`python -m videopro.completion` is `videopro completion`."""

import sys

from videopro.commands.completion import main

if __name__ == "__main__":
    sys.exit(main())
