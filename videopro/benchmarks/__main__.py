"""`python -m videopro.benchmarks` is `videopro benchmarks`."""

import runpy
import sys

sys.argv[1:1] = ["benchmarks"]
runpy.run_module("videopro", run_name="__main__")
