"""The tables of the other systems' papers by name, from runs of their methods: `--tables vca-3`.

A paper has a file that lists its tables as data: rows with the published values, and the settings of the runs
that belong in them.
"""

from videopro.report.papers.catalogue import BUILDERS, FAMILIES

__all__ = ["BUILDERS", "FAMILIES"]
