"""Tables and figures from finished runs: `videopro report RUN...` (see docs/report.md).

Everything is rescored from traces; nothing is run. Each table has a file that turns runs into a `Section`.
"""
