"""`python -m videopro.infer` is `videopro infer`."""

import sys

from videopro.commands.infer import main

if __name__ == "__main__":
    sys.exit(main())
