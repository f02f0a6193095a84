"""perf/crossings.py counts the files in which a function runs, and no others."""

from __future__ import annotations

import threading

from perf import crossings
from videopro.program import parse_program
from videopro.settings import did_you_mean


def test_a_file_counts_if_a_function_of_it_runs_on_any_thread() -> None:
    did_you_mean("a", ["b"])
    with crossings.files_run() as files:
        thread = threading.Thread(target=parse_program, args=("<code>\nx = 1\n</code>",))
        thread.start()
        thread.join()
    assert (
        {"videopro/program/parsing.py", "videopro/program/names.py"}
        >= files
        >= {"videopro/program/parsing.py"}
    )
    with crossings.files_run() as files:
        did_you_mean("a", ["b"])
    assert files == {"videopro/settings.py"}
