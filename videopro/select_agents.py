"""`python -m videopro.select_agents` is `videopro select-agents`."""

import sys

from videopro.commands.select_agents import main

if __name__ == "__main__":
    sys.exit(main())
