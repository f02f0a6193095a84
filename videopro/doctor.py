"""`python -m videopro.doctor` is `videopro doctor`."""

import sys

from videopro.commands.doctor import main

if __name__ == "__main__":
    sys.exit(main())
