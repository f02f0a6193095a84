"""`python -m videopro.ask` is `videopro ask`."""

import sys

from videopro.commands.ask.command import main

if __name__ == "__main__":
    sys.exit(main())
