"""Tables of text: for a terminal of any width, as Markdown and as LaTeX."""

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
"""The minimum width of a text column next to unbroken numbers."""
_MARKDOWN_WIDTH = 100
"""Of a caption in Markdown, so that the recorded tables of docs/results can be read as text."""
_LATEX = str.maketrans(
    {
        **{character: f"\\{character}" for character in "&%$#_{}"},
        "^": "\\^{}",
        "~": "\\textasciitilde{}",
        "\\": "\\textbackslash{}",
        "<": "\\ensuremath{<}",
        ">": "\\ensuremath{>}",
    }
)


@dataclass(frozen=True)
class TextTable:
    """A title, headings, rows and a caption below; the first column is names, the others are numbers.

    In a terminal, numbers are never broken: their columns are as wide as needed, and names wrap next to them,
    at spaces and hyphens if possible. If that is still too wide, every cell wraps.
    """

    title: str
    heads: tuple[str, ...]
    """If all are empty, none are shown in a terminal."""
    rows: tuple[tuple[str, ...], ...]
    caption: tuple[str, ...] = ()
    """Paragraphs."""
    lefts: frozenset[str] = frozenset()
    """Headings of other left-aligned columns, such as intervals."""
    rules: frozenset[int] = frozenset()
    """Numbers of the rows with a gap below."""

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
        table.show_header = any(heads)
        for head, is_left in zip(heads, self._are_left, strict=True):
            side = "left" if is_left else "right"
            table.add_column(Text(head), justify=side, no_wrap=fits, overflow="fold")  # type: ignore[arg-type]
        for number, row in enumerate(rows):
            table.add_row(*map(Text, row), end_section=number in self.rules)
        if self.title:
            yield Text(self.title, style="bold")
        yield table
        for paragraph in self.caption:
            yield Text(paragraph, style="dim")
        yield Text()

    @property
    def _are_left(self) -> list[bool]:
        return [number == 0 or head in self.lefts for number, head in enumerate(self.heads)]

    @property
    def markdown(self) -> str:
        """The table as Markdown, with its title above and its caption below."""
        caption = "\n\n".join(textwrap.fill(part, _MARKDOWN_WIDTH) for part in self.caption)
        return f"**{self.title}**\n\n{self.grid()}\n" + (f"\n{caption}\n" if caption else "")

    def grid(self, *, is_padded: bool = False) -> str:
        """Only headings and rows as Markdown; `is_padded`: pad columns to be readable as text."""
        lines = [[cell.replace("|", "\\|") for cell in row] for row in (self.heads, *self.rows)]
        rules = ["---" if is_left else "---:" for is_left in self._are_left]
        if is_padded:
            # A heading has two characters more than it needs: so it is in the recorded reports.
            widths = [max(len(head) + 2, *map(len, cells)) for head, *cells in zip(*lines, strict=True)]
            lines = [
                [
                    cell.ljust(width) if is_left else cell.rjust(width)
                    for cell, width, is_left in zip(line, widths, self._are_left, strict=True)
                ]
                for line in lines
            ]
            dashes = ["-" * (width + 1) for width in widths]
            rules = [
                f":{rule}" if is_left else f"{rule}:"
                for rule, is_left in zip(dashes, self._are_left, strict=True)
            ]
        head, *rows = (f"| {' | '.join(line)} |" for line in lines)
        rule = f"|{'|'.join(rules)}|" if is_padded else f"| {' | '.join(rules)} |"
        return "\n".join((head, rule, *rows))

    def latex(self, label: str) -> str:
        """A table environment with booktabs rules, all text escaped. `label`: for references."""
        head, *rows = (
            " & ".join(cell.translate(_LATEX) for cell in row) + " \\\\" for row in (self.heads, *self.rows)
        )
        sides = "".join("l" if is_left else "r" for is_left in self._are_left)
        body = "\n".join((f"\\begin{{tabular}}{{{sides}}}", "\\toprule", head, "\\midrule", *rows))
        caption = " ".join((f"{self.title}.", *self.caption)).translate(_LATEX)
        return (
            "% needs \\usepackage{booktabs}\n\\begin{table}[t]\n\\centering\n\\small\n"
            f"{body}\n\\bottomrule\n\\end{{tabular}}\n\\caption{{{caption}}}\n\\label{{{label}}}\n\\end{{table}}\n"
        )


def _width(head: str, cells: Sequence[str]) -> int:
    """The width of a column that breaks its heading at spaces and hyphens, and no cell."""
    return max((len(part) for part in (*head.replace("-", "- ").split(), *cells)), default=0)


def _wrapped(text: str, width: int) -> str:
    return "\n".join(textwrap.wrap(text, max(1, width)))
