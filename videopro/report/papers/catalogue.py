"""Every table of the other papers by name, and the names of each paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from videopro.report.papers import dvd, lvagent, vca, videoagent
from videopro.report.papers.building import build_table
from videopro.report.papers.spec import PaperTable
from videopro.report.runs import ReportRun
from videopro.report.section import Section

Builder = Callable[[Sequence[ReportRun]], Section]


def _built(tables: Sequence[PaperTable]) -> dict[str, Builder]:
    return {table.name: partial(build_table, table) for table in tables}


FAMILIES: Mapping[str, Mapping[str, Builder]] = {
    "videoagent": {**_built(videoagent.TABLES), "videoagent-fig3": videoagent.frame_efficiency},
    "dvd": {**_built(dvd.TABLES), "dvd-fig3": dvd.behaviours},
    "vca": {**_built(vca.TABLES), "vca-fig5": vca.segment_distances},
    "lvagent": {"lvagent-times": lvagent.timings, "lvagent-agents": lvagent.numbers_of_agents},
}
"""The tables of each method's paper."""
BUILDERS: Mapping[str, Builder] = {
    name: builder for family in FAMILIES.values() for name, builder in family.items()
}
