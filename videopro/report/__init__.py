"""Tables and figures from finished runs: `videopro report RUN...` (see docs/benchmark.md#reports).

Everything is rescored from traces; no question is answered again. Each table has a file that turns runs into
a `Section`.
"""

from videopro.report.export import EXPORTS, write_export
from videopro.report.making import Report, make_report
from videopro.report.reading import read_runs
from videopro.report.runs import ReportRun

__all__ = ["EXPORTS", "Report", "ReportRun", "make_report", "read_runs", "write_export"]
