"""The paper's own tables (VideoPro), to show next to ours."""

from __future__ import annotations

from dataclasses import replace

from videopro.report.papers.files import read_published
from videopro.report.section import Section

PUBLISHED = read_published("videopro")
"""The paper's table for each section that has one."""


def with_published(section: Section) -> Section:
    """The section with the paper's table after its own tables, if the paper has one."""
    if section.name not in PUBLISHED:
        return section
    paper_table = PUBLISHED[section.name]
    table = replace(paper_table, title=f"{paper_table.title}: {section.source} of the paper")
    return replace(section, tables=(*section.tables, table))
