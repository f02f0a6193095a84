"""The table of how well transcripts say what was said."""

from __future__ import annotations

from perf.tables.shared import Record, Table, Tables


def _transcripts(record: Record) -> Table:
    rows = []
    for name, found in record.items():
        if not name.startswith("whisper"):
            continue
        off = found["start_off_s"]
        cells = [str(found["wrong"]), f"{100 * found['word_error_rate']:.1f} %", str(found["lines"])]
        rows.append([name, *cells, f"{off['mean']:g} s; {off['max']:g} s"])
    words = next(found["words"] for name, found in record.items() if name.startswith("whisper"))
    heads = ["", f"words wrong of {words}", "word error rate", "lines"]
    return [*heads, "lines begin from a sentence's beginning, mean; most"], rows


TABLES: Tables = {("perf/transcripts.json", "words that were heard"): _transcripts}
