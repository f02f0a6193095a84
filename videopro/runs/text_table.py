"""A table of text, for a terminal of any width and for Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

_GAP = 2
"""Between two columns."""
_NARROWEST = 10
"""The least width of a column of text beside numbers that are not broken."""
_MARKDOWN_WIDTH = 100
"""Of a caption in Markdown, so that the recorded tables of docs/results can be read as text."""


@dataclass(frozen=True)
class TextTable:
    """A title, headings, rows and a caption below; the first column is names, the others are numbers.

    In a terminal numbers are never broken: their columns are as wide as they need, and names wrap beside
    them, at spaces and hyphens if possible. If even that is too wide, every cell wraps.
    """

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: tuple[str, ...] = ()
    """Paragraphs."""
    lefts: frozenset[str] = frozenset()
    """Headings of further columns that are aligned left, such as intervals."""
    rules: frozenset[int] = frozenset()
    """Numbers of the rows that have a gap below."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        columns = list(zip(*self.rows, strict=True)) if self.rows else [()] * len(self.heads)
        widths = [_width(head, cells) for head, cells in zip(self.heads[1:], columns[1:], strict=True)]
        left = options.max_width - sum(widths) - _GAP * len(widths)
        fits = left >= min(_NARROWEST, _width(self.heads[0], columns[0]))
        heads, rows = self.heads, self.rows
        if fits:
            heads = (heads[0], *map(_wrapped, heads[1:], widths))
            rows = tuple((_wrapped(row[0], left), *row[1:]) for row in rows)
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
        for number, (name, head) in enumerate(zip(self.heads, heads, strict=True)):
            is_left = number == 0 or name in self.lefts
            table.add_column(
                Text(head), justify="left" if is_left else "right", no_wrap=fits, overflow="fold"
            )
        for number, row in enumerate(rows):
            table.add_row(*map(Text, row), end_section=number in self.rules)
        yield Text(self.title, style="bold")
        yield table
        for paragraph in self.caption:
            yield Text(paragraph, style="dim")
        yield Text()

    @property
    def markdown(self) -> str:
        """The table as Markdown, with its title above and its caption below."""
        lines = [self.heads, *self.rows]
        cells = [" | ".join(cell.replace("|", "\\|") for cell in row) for row in lines]
        cells.insert(
            1,
            " | ".join(
                "---" if number == 0 or head in self.lefts else "---:"
                for number, head in enumerate(self.heads)
            ),
        )
        rows = "\n".join(f"| {line} |" for line in cells)
        caption = "\n\n".join(textwrap.fill(part, _MARKDOWN_WIDTH) for part in self.caption)
        return f"**{self.title}**\n\n{rows}\n" + (f"\n{caption}\n" if caption else "")


def _width(head: str, cells: Sequence[str]) -> int:
    """The width of a column that breaks its heading at spaces and hyphens, and no cell."""
    return max((len(part) for part in (*head.replace("-", "- ").split(), *cells)), default=0)


def _wrapped(text: str, width: int) -> str:
    return "\n".join(textwrap.wrap(text, max(1, width)))
