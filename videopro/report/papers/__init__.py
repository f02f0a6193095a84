"""The tables of other systems' papers by name, from runs of their methods: `--tables vca-3`.

A paper has a YAML file with its tables: rows with the published values, and the settings of the runs that
belong in them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from videopro.report.papers import agents
from videopro.report.papers.tables import build_table
from videopro.report.runs import ReportRun
from videopro.report.table import Section

Builder = Callable[[Sequence[ReportRun]], Section]

_OTHERS: Mapping[str, Mapping[str, Builder]] = {
    "videoagent": {"videoagent-fig3": agents.frame_efficiency},
    "dvd": {"dvd-fig3": agents.behaviours},
    "vca": {"vca-fig5": agents.segment_distances},
    "lvagent": {"lvagent-times": agents.timings, "lvagent-agents": agents.numbers_of_agents},
}
FAMILIES: Mapping[str, Mapping[str, Builder]] = {
    name: {
        **{table.name: partial(build_table, table) for table in agents.PAPERS.get(name, (None, ()))[1]},
        **others,
    }
    for name, others in _OTHERS.items()
}
"""The tables of each method's paper."""
BUILDERS: Mapping[str, Builder] = {
    name: builder for family in FAMILIES.values() for name, builder in family.items()
}
