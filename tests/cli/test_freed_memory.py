"""Memory that was freed between pieces that are kept goes back to the system."""

from __future__ import annotations

import subprocess
import sys

import pytest

# 200 MiB of pieces too small for mappings of their own; every hundredth is kept.
CODE = """
import re
from pathlib import Path
from videopro.cli.process import trim_heap
def resident():
    return int(re.search(r"VmRSS:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024
pieces = [bytearray(b"x") * 100_000 for _ in range(2000)]
kept = pieces[::100]
del pieces
before = resident()
trim_heap()
print(before, resident(), sum(map(len, kept)))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_freed_gaps_are_returned_to_the_system() -> None:
    run = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    before, after, kept = map(int, run.stdout.split())
    assert kept == 20 * 100_000
    assert before - after > 150, (before, after)
