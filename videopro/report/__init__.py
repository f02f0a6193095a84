"""Tables and figures from finished runs: `python -m videopro.report RUN...` (see docs/report.md).

Everything is scored again from traces; nothing is run. One file a table: each turns runs into a `Section`.
"""
