"""Write a report's files: report.md, report.html, tables/*.{md,tex,csv}, figures/*.{svg,png,pdf}.

report.html is a single self-contained file with its figures embedded.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined

from videopro.errors import RunError
from videopro.report.table import (
    Estimate,
    Number,
    Section,
    Table,
    as_text,
    cell_text,
    comma_separated,
    compact,
    sides,
)
from videopro.storage import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FORMATS = ("svg", "png", "pdf")


@dataclass(frozen=True)
class RenderedSection:
    """A section with its figure's files."""

    section: Section
    pictures: dict[str, bytes]
    """The figure's files by format; empty without a figure."""

    @property
    def source(self) -> str:
        """The figure as a data URL for the page."""
        return "data:image/svg+xml;base64," + base64.b64encode(self.pictures["svg"]).decode("ascii")


def write_report(folder: Path, title: str, sections: Sequence[Section], lacking: Sequence[str]) -> Path:
    """Write all files and return the path of report.html. Raises RunError if the folder is not writable."""
    drawn = [RenderedSection(section, _pictures(section)) for section in sections]
    try:
        for name in ("tables", "figures"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        for rendered in drawn:
            _write_section(folder, rendered)
        write_atomically(folder / "report.md", _markdown(title, drawn, lacking))
        page = folder / "report.html"
        write_atomically(page, _page(title, drawn, lacking))
    except OSError as error:
        raise RunError(f"{folder}: cannot be written ({error.strerror}); set another --output") from error
    return page


def _write_section(folder: Path, rendered: RenderedSection) -> None:
    for table in rendered.section.tables:
        stem = file_stem(rendered.section, table)
        tables = folder / "tables"
        if not table.folded:
            write_atomically(tables / f"{stem}.md", as_text(table).grid(is_padded=True) + "\n")
            write_atomically(tables / f"{stem}.tex", as_text(table, dash="--").latex(f"tab:{stem}"))
        write_atomically(tables / f"{stem}.csv", comma_separated(table))
    for ending, content in rendered.pictures.items():
        (folder / "figures" / f"{rendered.section.name}.{ending}").write_bytes(content)


def file_stem(section: Section, table: Table) -> str:
    """The name of a table's files, without extension."""
    return f"{section.name}_{table.suffix}" if table.suffix else section.name


def _pictures(section: Section) -> dict[str, bytes]:
    if section.figure is None:
        return {}
    import matplotlib as mpl

    from videopro.report.figures import STYLE

    # Reports of the same runs are identical files: no date, and element ids from a fixed salt.
    with mpl.rc_context(STYLE):
        figure = section.figure.draw()
        return {ending: _picture(figure, ending) for ending in _FORMATS}


def _picture(figure: Figure, ending: str) -> bytes:
    content = io.BytesIO()
    dated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(ending, {})
    figure.savefig(
        content, format=ending, dpi=200, bbox_inches="tight", metadata=dated, transparent=ending == "svg"
    )
    return content.getvalue()


def _heading(section: Section) -> str:
    return f"{section.title} ({section.source})" if section.source else section.title


def _markdown(title: str, drawn: Sequence[RenderedSection], lacking: Sequence[str]) -> str:
    parts = [f"# {title}"]
    for rendered in drawn:
        parts.append(f"## {_heading(rendered.section)}")
        parts += [f"> {note}" for note in rendered.section.notes]
        if rendered.section.figure is not None:
            parts.append(f"![{rendered.section.figure.caption}](figures/{rendered.section.name}.png)")
        for table in rendered.section.tables:
            if table.folded:
                stem = file_stem(rendered.section, table)
                parts.append(
                    f"{table.title}: {len(table.rows)} rows in [tables/{stem}.csv](tables/{stem}.csv)"
                )
            else:
                heading = compact(table).title
                parts += [f"**{heading}**"] if heading != rendered.section.title else []
                parts.append(as_text(table).grid(is_padded=True))
                parts += [" ".join(table.notes)] if table.notes else []
    if lacking:
        parts += ["## What these runs do not allow", "\n".join(f"- {reason}" for reason in lacking)]
    return "\n\n".join(parts) + "\n"


def _page(title: str, drawn: Sequence[RenderedSection], lacking: Sequence[str]) -> str:
    pages = Environment(
        loader=PackageLoader("videopro.report", "."), autoescape=True, undefined=StrictUndefined,
        # Lines of the template's own statements leave no empty lines.
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    pages.tests["estimate"] = lambda cell: isinstance(cell, Estimate)
    pages.tests["figure"] = lambda cell: isinstance(cell, Estimate | Number | int)
    pages.filters["shown"] = cell_text
    pages.filters["compact"] = compact
    pages.filters["sides"] = sides
    pages.filters["zip"] = zip
    return pages.get_template("page.html.j2").render(
        title=title, drawn=drawn, lacking=lacking, heading=_heading, stem=file_stem
    )
