"""`python -m videopro.models` is `videopro models`."""

import sys

from videopro.commands.models import main

if __name__ == "__main__":
    sys.exit(main())
