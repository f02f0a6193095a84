"""The way from a film to an answer whose evidence plays."""

from __future__ import annotations

from perf.tables.shared import Record, Table, Tables


def _ways(record: Record) -> Table:
    rows = [
        [
            name,
            str(len(way["commands"])),
            str(way["files_written"]),
            str(way["clicks"]),
            f"{way['answer_s']:.0f}",
            f"{way['evidence_s']:.0f}",
        ]
        for name, way in record["ways"].items()
    ]
    return ["", "commands", "files to write", "clicks", "answer, s", "evidence plays, s"], rows


TABLES: Tables = {("perf/first_answer.json", "ways"): _ways}
