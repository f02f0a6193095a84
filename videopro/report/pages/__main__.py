"""`python -m videopro.report.pages` is `videopro view`."""

import runpy
import sys

sys.argv[1:1] = ["view"]
runpy.run_module("videopro", run_name="__main__")
