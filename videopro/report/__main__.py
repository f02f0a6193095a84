"""`python -m videopro.report` is `videopro report`."""

import runpy
import sys

sys.argv[1:1] = ["report"]
runpy.run_module("videopro", run_name="__main__")
