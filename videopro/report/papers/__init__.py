"""The tables of the other systems' papers by name, from runs of their methods: `--tables vca-3`.

A paper has a YAML file with its tables: rows with the published values, and the settings of the runs that
belong in them.
"""

from videopro.report.papers.catalogue import BUILDERS as BUILDERS
from videopro.report.papers.catalogue import FAMILIES as FAMILIES
