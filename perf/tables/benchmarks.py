"""Tables of what is read: replies, and the benchmarks' files."""

from __future__ import annotations

import json
from collections.abc import Mapping

from perf import ROOT
from perf.tables.shared import Record, Table, Tables

_READERS = {
    "robust": "**`robust`**",
    "videomme_afd52cf": "official: Video-MME",
    "videomme": "official: Video-MME, before afd52cf",
    "longvideobench": "official: LongVideoBench",
    "lvbench": "official: LVBench",
    "mlvu_4bcc3c0": "official: MLVU",
    "mlvu": "official: MLVU, test questions and before 4bcc3c0",
    "cgbench_6677fe3": "official: CG-Bench",
    "egoschema_1d3f34ab": "official: EgoSchema",
    "egoschema_77a7d8e3": "official: EgoSchema, protocol exact",
    "nextqa": "official: NExT-QA",
    "videopro": "VideoPro's release",
}


def _readers(record: Record) -> Table:
    """Our readers, and those that were run in a scratch folder."""
    halves = ("development", "record")
    elsewhere = json.loads((ROOT / "perf/replies_elsewhere.json").read_text(encoding="utf-8"))
    ours = {
        label: {half: record[half]["readers"][name] for half in halves} for name, label in _READERS.items()
    }
    rows = [
        [name, *(str(halved[half][error]) for half in halves for error in ("missed", "wrong"))]
        for name, halved in {**ours, **elsewhere}.items()
    ]
    counts = [f"{half} ({record[half]['replies']})" for half in halves]
    return ["reader", *(text for count in counts for text in (f"{count}: missed", "wrong"))], rows


def _loaders(record: Record) -> Table:
    def named(counts: Mapping[str, int]) -> str:
        return "; ".join(issue if number == 1 else f"{issue} ({number})" for issue, number in counts.items())

    rows = []
    for sample in record:
        refused = dict.fromkeys(reason.partition(": ")[2] for reason in sample["refused"].values())
        cells = (
            *(f"{sample[key]:,}" for key in ("records", "questions", "videos")),
            *(named(sample[key]) for key in ("left_out", "annotation_errors")),
            "; ".join(refused),
        )
        rows.append([sample["name"], *(cell or "-" for cell in cells)])
    heads = ["sample", "records", "questions", "videos", "left out", "annotation errors", "refused"]
    return heads, rows


TABLES: Tables = {
    ("perf/loaders.json", "samples of annotation files"): _loaders,
    ("perf/replies.json", "errors of readers"): _readers,
}
