"""Compares decoders: 64 exact uniform frames from a 10-minute and a 60-minute H.264 file.

    python -m perf.decode [--work FOLDER] [--rounds 3] [--output FILE]

Makes the files (x264's defaults: B-frames, a key frame at least every 250 frames; 640x360, 24 frames per
second, moving textured content, no cuts), runs each contender on its documented fast path in its own process,
prints a table and writes perf/decode.json. Every picture carries its number, so that the returned frames can
be checked against the requested ones. The time is from opening the file to 64 RGB arrays in memory, without
imports.

The floor is the time to decode, on all processors, only the packets that the 64 frames need: packets already
in memory, no seeking, conversion or copying.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from perf import ROOT
from perf.child import ChildFailed, call_in_child
from perf.command import run_command
from perf.decoders import CONTENDERS, RIVALS, make_sixty_minutes, make_ten_minutes, versions
from perf.recorded import print_tables
from perf.recording import write_record
from videopro.cli import setting


@dataclass(frozen=True)
class DecodeSettings:
    """Compare decoders: 64 exact uniform frames from a 10-minute and a 60-minute file."""

    work: Path | None = field(
        default=None, metadata=setting("folder that keeps the files for the next run; unset: a temporary one")
    )
    rounds: int = field(default=3, metadata=setting("rounds; in each, every contender runs once"))
    output: Path = field(default=ROOT / "perf" / "decode.json", metadata=setting("file for the results"))


def measure(files: dict[int, Path], rounds: int) -> dict[str, object]:
    """Measure in rounds, so that a busy moment of the machine does not hit one contender alone."""
    runs: dict[tuple[str, int], list[dict[str, object]]] = {}
    missing: set[str] = set()
    for _ in range(rounds):
        for minutes, path in files.items():
            for name in (*CONTENDERS, "floor"):
                if name in missing:
                    continue
                try:
                    result = call_in_child(
                        "perf.decoders:run_one", name, str(path.absolute()), minutes, timeout=300
                    )
                except ChildFailed as error:
                    print(f"{name}: not measured ({error})", file=sys.stderr)
                    missing.add(name)
                else:
                    runs.setdefault((name, minutes), []).append(result)
    table: dict[str, object] = {}
    for minutes in files:
        rows: dict[str, dict[str, object]] = {}
        for name in (*CONTENDERS, "floor"):
            results = runs.get((name, minutes))
            if results:
                seconds = [float(str(r["seconds"])) for r in results]
                rows[name] = {
                    "best_s": round(min(seconds), 3),
                    "median_s": round(statistics.median(seconds), 3),
                    "median_cpu_s": round(statistics.median(float(str(r["cpu_s"])) for r in results), 3),
                    **({} if name == "floor" else {k: results[-1][k] for k in ("exact", "peak_mib")}),
                }
        fastest = min(float(str(rows[name]["best_s"])) for name in RIVALS if name in rows)
        for row in rows.values():
            row["of_fastest_rival"] = round(float(str(row["best_s"])) / fastest, 3)
        table[f"{minutes} min"] = rows
    return table


def compare(settings: DecodeSettings) -> None:
    """Make the files, measure, print the table and write it."""
    with tempfile.TemporaryDirectory() as scratch:
        work = settings.work or Path(scratch)
        work.mkdir(parents=True, exist_ok=True)
        files = {10: work / "ten.mp4", 60: work / "sixty.mp4"}
        for minutes, path in files.items():
            if not path.exists():
                print(f"making the file of {minutes} minutes (both take about a minute)", flush=True)
                # Renamed when it is whole.
                part = path.with_suffix(".part.mp4")
                if minutes == 10:
                    make_ten_minutes(part)
                else:
                    make_sixty_minutes(files[10], part)
                part.rename(path)
        table = measure(files, settings.rounds)
    ways = {name: way for name, (way, _) in CONTENDERS.items()}
    result = {"results": table, "ways": ways, "versions": versions(), "rounds": settings.rounds}
    write_record(settings.output, result, indent=2)
    print_tables("perf/decode.json", result)


if __name__ == "__main__":
    run_command(DecodeSettings, compare)
