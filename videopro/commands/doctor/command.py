"""videopro doctor: what a run would use on this machine, and what is missing or broken.

    videopro doctor
    videopro doctor --json

It connects to nothing, loads no model and shows no key. Exit status: 0, or 2 if something is broken that
every run needs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from rich.console import Console
from rich.table import Table
from rich.text import Text

from videopro.cli import CommandLine, exit_status, setting
from videopro.commands.doctor.connections import connections
from videopro.commands.doctor.findings import Finding
from videopro.commands.doctor.machine import machine
from videopro.commands.doctor.packages import packages
from videopro.commands.doctor.storage import folders, models


@dataclass(frozen=True)
class DoctorConfig:
    """The settings of `videopro doctor`."""

    json: bool = field(default=False, metadata=setting("print the findings as JSON"))


COMMAND = CommandLine("doctor", DoctorConfig)
_COLOURS = {"ok": "green", "missing": "dim", "wrong": "yellow", "broken": "bold red"}


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status: 0, or 2 if something is broken that every run needs."""
    with exit_status(stopped="stopped") as status:
        config = COMMAND.parse(argv)
        findings = examine()
        broken = [each for each in findings if each.state == "broken"]
        if config.json:
            about = {"ok": not broken, "findings": [asdict(each) for each in findings]}
            print(json.dumps(about, indent=1, ensure_ascii=False))
        else:
            show(findings)
            for each in broken:
                print(f"broken: {each.name}: {each.text}", file=sys.stderr)
        status.code = 2 if broken else 0
    return status.code


def examine() -> list[Finding]:
    """All findings, by section."""
    return [
        *machine(),
        *folders(),
        *connections(),
        *models(),
        *packages(),
    ]


def show(findings: Sequence[Finding]) -> None:
    """Print the findings as tables, one a section."""
    console = Console()
    for section in dict.fromkeys(each.section for each in findings):
        table = Table(title=section, title_justify="left", show_header=False, box=None, padding=(0, 2, 0, 0))
        for _ in range(3):
            table.add_column(overflow="fold")
        for each in findings:
            if each.section == section:
                # As they are: a name may have what rich reads as markup.
                table.add_row(Text(each.state, _COLOURS[each.state]), Text(each.name), Text(each.text))
        console.print(table)
        console.print()


if __name__ == "__main__":
    sys.exit(main())
