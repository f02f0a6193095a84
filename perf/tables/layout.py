"""Tables of how the code is divided: loose modules, import cycles, and the files that a question crosses."""

from __future__ import annotations

from perf.tables.shared import Record, Table, Tables


def _structure(record: Record) -> Table:
    """The first and the last checkout of the file."""
    checkouts = [record[0], record[-1]]
    folders = ("videopro", "modules", "train", "data_synthesis")
    rows = [
        [
            "loose modules in `videopro`, `modules`, `train`",
            *(", ".join(str(found["loose"][folder]) for folder in folders[:3]) for found in checkouts),
        ],
        [
            "import cycles among files; among the folders of a package",
            *(f"{len(found['file_cycles'])}; {len(found['folder_cycles'])}" for found in checkouts),
        ],
        [
            "lines of Python in `videopro`, `modules`, `train`, `data_synthesis`",
            *(f"{sum(found['lines'][folder] for folder in folders):,}" for found in checkouts),
        ],
    ]
    return [
        "",
        *(f"{when} ({found['commit']})" for when, found in zip(("before", "now"), checkouts, strict=True)),
    ], rows


def _crossings(record: Record) -> Table:
    shown = {
        "question to trace, native": "a question to its trace, native",
        "question to trace, videopro": "the same by a program",
        "GRPO row to reward": "a row of `grpo.jsonl`, with a reply, to its rewards",
    }
    rows = [[shown[found["way"]], str(found["files"]), str(found["stops"])] for found in record]
    return ["from", "files", "stops"], rows


TABLES: Tables = {
    ("perf/structure.json", "loose modules, cycles and lines"): _structure,
    ("perf/crossings.json", "files and stops"): _crossings,
}
