"""The tables of README and docs that are made of a file of results in JSON: one function a table.

A page names its table by `<!-- from FILE: TITLE -->`; `launch/recorded_tables.py` writes the table below it,
and a test compares each cell. FILE is relative to the repository.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from perf import ROOT

Record = Any
"""What a file of results holds."""


def lines_of(file: str, title: str) -> list[str]:
    """The lines of a table, head first.

    `file`: a file of results, or the script that computes the table of such, relative to the repository; or a
    Markdown file of tables with bold titles, relative to docs/results. Raises KeyError for an unknown table.
    """
    if file == "perf/official_scores.py":
        # Computed from its recorded files.
        from perf.official_scores import table

        return table().splitlines()
    if file.endswith(".md") and (file, title) not in TABLES:
        return _recorded((ROOT / "docs" / "results" / file).read_text(encoding="utf-8"), title)
    if file == "perf/shapes_2b.json":
        # Imported here, because it loads torch.
        from perf.battery.results import tables

        return _recorded(tables(ROOT / file), title)
    text = (ROOT / file).read_text(encoding="utf-8")
    heads, rows = TABLES[file, title](json.loads(text) if file.endswith(".json") else text)
    return [_line(heads), "|" + "---|" * len(heads), *map(_line, rows)]


def _recorded(text: str, title: str) -> list[str]:
    parts = text.split(f"**{title}**\n\n")
    if len(parts) != 2:
        raise KeyError(f"{title!r} is the title of {len(parts) - 1} tables")
    found = re.match(r"(?:\|.*(?:\n|$))+", parts[1])
    if found is None:
        raise KeyError(f"{title!r}: no table stands below this title")
    return found[0].splitlines()


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


Table = tuple[Sequence[str], Sequence[Sequence[str]]]
"""Heads and rows."""


def _share(figures: Record, digits: int = 0) -> str:
    """An accuracy in per cent with its interval."""
    low, high = figures["ci95"]
    right = f"{100 * figures['accuracy']:.{digits}f}"
    return f"{right} ({100 * low:.{digits}f} to {100 * high:.{digits}f})"


def _decoding(record: Record) -> Table:
    files = record["results"]
    names = {
        "videopro": "videopro", "decord": "decord", "opencv": "OpenCV, seeking",
        "pyav": "PyAV, seek per frame", "torchcodec": "TorchCodec", "floor": "floor",
    }  # fmt: skip
    rows = [
        [shown, *(f"{found[name]['best_s']:.2f}" for found in files.values())]
        for name, shown in names.items()
    ]
    ratios = (f"{found['videopro']['of_fastest_rival']:.2f}" for found in files.values())
    rows.append(["videopro / fastest of decord, OpenCV, PyAV", *ratios])
    return ["seconds", *(f"{length.replace(' min', '-minute')} file" for length in files)], rows


def _index_processes(record: Record) -> Table:
    rows = [
        [
            name,
            *(f"{row[f'{count}_s']:.1f} ({row[f'{count}_cpu_s']:.1f})" for count in ("one", "two")),
            f"{row['two_of_one']:.2f}",
        ]
        for name, row in record["results"].items()
    ]
    return ["", "one command, s (CPU)", "two commands, s (CPU)", "two / one"], rows


def _question(record: Record) -> Table:
    rows = [
        [name, *(f"{row[f'{part}_ms']:.0f} ({row[f'{part}_cpu_ms']:.1f})" for part in ("own", "ocr"))]
        for name, row in record["results"].items()
    ]
    return ["", "our own work on a question, ms (CPU)", "reading the text of a frame, ms (CPU)"], rows


def _indexing(record: Record) -> Table:
    names = {
        "videopro": "videopro",
        "cut by copying (the release)": "cutting by copying, then decoding each",
        "cut exactly, encoding anew": "cutting exactly (re-encoding), then decoding each",
    }
    rows = [
        [shown, f"{found['best_s']:.1f}", f"{found['times_faster_than_release']:.2f}"]
        for name, shown in names.items()
        for found in [record["results"][name]]
    ]
    return [
        "",
        f"seconds (best of {record['rounds']})",
        "times as fast as the release's way",
    ], rows


def _sandbox(record: Record) -> Table:
    names = {
        "videopro": "videopro",
        "smolagents": "smolagents' interpreter, in the host process",
        "python -c": "a `python -c` child for each program, unconfined",
        "fork and pipe": "floor: fork and a pipe",
        "two processes": "floor: two bare processes that send 64 bytes to and fro",
    }
    columns = {"program_ms": 1, "program_cpu_ms": 1, "call_us": 0, "call_cpu_us": 0, "programs_per_s": 0}
    programs = record["ordinary_programs"]
    rows = [
        [
            shown,
            *(f"{found[key]:.{digits}f}" if key in found else "" for key, digits in columns.items()),
            f"{found['equal']} of {programs}" if "equal" in found else "",
        ]
        for name, shown in names.items()
        for found in [record["results"][name]]
    ]
    heads = ["", "ms a program", "CPU ms", "µs a module call", "CPU µs", "programs a second"]
    return [*heads, "CPython's result"], rows


def _memory(record: Record) -> Table:
    rows = [
        [
            name,
            f"{found['questions']:,}",
            *(f"{found[key]:,.0f}" for key in ("start_mib", "peak_mib", "end_mib")),
            ", ".join(f"{value:,.0f}" for value in found["rss_mib_by_tenth"][-3:]),
        ]
        for name, found in record["results"].items()
    ]
    heads = ["cache", "questions", "MiB at the start", "at most", "at the end", "after the last three tenths"]
    return heads, rows


def _flow(record: Record) -> Table:
    shown = {
        "native-1": "native, one question a video",
        "native-10": "native, ten a video",
        "videopro": "videopro, two a video",
    }
    rows = []
    for name, found in record["results"].items():
        leg, _, _ = name.partition(", ")
        rows.append(
            [
                shown[leg],
                str(found["in_flight"]),
                str(found["questions"]),
                f"{found['questions_per_s']:.2f}",
                f"{found['busy_pct']:.1f} %",
                f"{found['mean_requests']:.1f}",
                f"{found['engine_s_a_question']:.3f}",
                f"{found['client_cpu_s_a_question']:.3f}",
                f"{found['load']:.1f}",
            ]
        )
    heads = ["", "videos in flight", "questions", "questions/s", "engine busy", "requests in it, mean"]
    return [*heads, "engine s a question", "client CPU s a question", "load average"], rows


def _grpo_step(record: Record) -> Table:
    ways = record["ways"]
    first = ways["plain"]["rollouts_per_s"]
    rows = []
    for name, found in ways.items():
        cells = [
            name.replace("plain", "plain TRL", 1),
            f"{found['rollouts_per_s']:.2f}",
            f"{found['rollouts_per_s'] / first:.1f}",
            f"{found['rollouts_per_s'] / ways['plain + remembered rewards']['rollouts_per_s']:.1f}",
            *(f"{found[f'{key}_s']:.2f}" for key in ("step", "cpu", "sampling", "rewards", "update")),
            f"{found['prompt_tokens']:.0f} + {found['reply_tokens']:.0f}",
        ]
        rows.append(cells)
    heads = [
        "", "rollouts a second", "times plain TRL", "times plain TRL + remembered rewards", "step", "CPU",
        "of it sampling", "rewards waited for", "update", "tokens, prompt + reply",
    ]  # fmt: skip
    return heads, rows


def _kinds(record: Record) -> Table:
    ways = {name: record["test"]["ways"][name] for name in ("whole", "evidence", "found", "text")}
    kinds = sorted(ways["whole"]["kind"])
    rows = [
        [kind, *(_share(way["kind"][kind]) if kind in way["kind"] else "" for way in ways.values())]
        for kind in kinds
    ]
    rows.append(["all", *(_share(way["all"]) for way in ways.values())])
    heads = ["kind", "whole video, 16 frames", "evidence interval, 16 frames"]
    return [*heads, "found lines or cut-out sign", "question alone"], rows


def _calibration(record: Record) -> Table:
    rows = [
        [f"{bin['low']:.1f} to {bin['high']:.1f}", str(bin["accuracy"]["n"]), _share(bin["accuracy"])]
        for bin in record["test"]["confidence"]
        if bin["accuracy"]["n"]
    ]
    return ["confidence", "answers", "right, %"], rows


def _asp(record: Record) -> Table:
    names = {
        "1 of six": "best of the video's six chunks", "1 of all": "recall@1 of all chunks",
        "5 of all": "recall@5", "10 of all": "recall@10",
    }  # fmt: skip

    def gap(figures: Record) -> str:
        low, high = (100 * end for end in figures["ci95"])
        return f"{100 * figures['mean']:.1f} [{low:.1f}, {high:.1f}]"

    rows = [
        [
            shown,
            *(f"{100 * record['untrained'][way]['test'][name]:.1f}" for way in ("mean", "frame")),
            *(f"{100 * found[way]['mean']:.1f}" for way in ("mean", "temporal", "asp")),
            gap(found["asp - mean"]),
            gap(found["asp - temporal"]),
        ]
        for name, shown in names.items()
        for found in [record["recall"]["test"][name]]
    ]
    heads = ["test", "untrained: mean", "untrained: best frame", "mean", "temporal", "asp"]
    return [*heads, "asp - mean", "asp - temporal"], rows


_READERS = {
    "robust": "**`robust`**",
    "videomme_afd52cf": "official: Video-MME",
    "videomme": "official: Video-MME, before afd52cf",
    "longvideobench": "official: LongVideoBench",
    "lvbench": "official: LVBench",
    "mlvu_4bcc3c0": "official: MLVU",
    "mlvu": "official: MLVU, test questions and before 4bcc3c0",
    "cgbench_6677fe3": "official: CG-Bench",
    "cgbench": "official: CG-Bench, as older runs here",
    "egoschema_1d3f34ab": "official: EgoSchema",
    "egoschema_77a7d8e3": "official: EgoSchema, protocol exact",
    "egoschema": "official: EgoSchema, as older runs here",
    "nextqa": "official: NExT-QA",
    "videopro": "VideoPro's release",
}


def _readers(record: Record) -> Table:
    """Our readers, and those that were run in a scratch folder."""
    halves = ("development", "record")
    elsewhere = json.loads((ROOT / "perf/replies_elsewhere.json").read_text(encoding="utf-8"))
    found = {
        shown: {half: record[half]["readers"][name] for half in halves} for name, shown in _READERS.items()
    }
    rows = [
        [name, *(str(halved[half][error]) for half in halves for error in ("missed", "wrong"))]
        for name, halved in {**found, **elsewhere}.items()
    ]
    counts = [f"{half} ({record[half]['replies']})" for half in halves]
    return ["reader", *(text for count in counts for text in (f"{count}: missed", "wrong"))], rows


def _test_and_fresh(record: Record) -> Table:
    """Methods on test, and on a world that was drawn once, after all settings were fixed."""
    fresh = json.loads((ROOT / "docs/results/pocket-fresh/last.json").read_text(encoding="utf-8"))
    found = [{row["name"]: row for row in rows} for rows in (record, fresh)]
    rows = []
    for name in found[1]:
        cells = [name]
        for of in found:
            if name in of:
                low, high = of[name]["accuracy_ci95"]
                cells += [f"{100 * of[name]['accuracy']:.1f}", f"{100 * low:.1f} to {100 * high:.1f}"]
            else:
                cells += ["-", "-"]
        rows.append(cells)
    return ["", "right on test, %", "95 %, questions", "right on a fresh world, %", "95 %, questions"], rows


def _equal_budgets(report: str) -> Table:
    """Accuracy at each budget, and the tokens at the larger one, of the report's table of costs."""
    lines = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in _recorded(report, "Accuracy against cost, pocket test")
    ]
    heads, runs = lines[0], lines[2:]
    of = {name: heads.index(name) for name in ("run", "frames a call", "accuracy, %", "tokens, amortised")}
    found: dict[str, dict[str, list[str]]] = {}
    for run in runs:
        found.setdefault(run[of["run"]].split(",")[0], {})[run[of["frames a call"]]] = run
    rows = []
    for name, budgets in found.items():
        cells = [
            budgets[budget][of["accuracy, %"]] if budget in budgets else "not run" for budget in ("8", "16")
        ]
        rows.append([name, *cells, budgets["16"][of["tokens, amortised"]]])
    return ["", "8 frames a call", "16 frames a call", "tokens a question, amortised (16)"], rows


def _scale(record: Record) -> Table:
    """Hours for all videos, the efficiency beside one node, and what limits it."""
    rows = []
    results = record["results"]
    for nodes in next(iter(results.values())):
        cells = (results[name][nodes] for name in results)
        rows.append(
            [
                nodes,
                *(f"{row['hours']:.2f} h, {100 * row['efficiency']:.0f} %, {row['limit']}" for row in cells),
            ]
        )
    return [f"nodes of {record['settings']['gpus']} GPUs", *results], rows


def _scale_cpus(record: Record) -> Table:
    """Busy share of the GPUs of one node, by the CPUs beside each."""
    results = record["by_cpus"]
    names = [name for name in results if name != "index"]
    rows = [
        [cpus, *(f"{100 * results[name][cpus]['gpu']:.0f} %" for name in names)] for cpus in results[names[0]]
    ]
    return ["CPUs a GPU", *(f"{name}: GPUs busy" for name in names)], rows


def _scale_driver(record: Record) -> Table:
    driver = record["measured"]["driver"]
    append = driver["append_ms"]
    return ["", "ms"], [
        ["hand out a unit, CPU", f"{driver['give_cpu_ms']:.1f}"],
        [f"receive, write and count a trace of {driver['trace_bytes'] / 1000:.1f} kB, CPU",
         f"{driver['trace_cpu_ms']:.1f}"],
        ["append a trace alone, with fsync, wall", f"{append['one']:.1f}"],
        ["append 16 at once, wall, each", f"{append['of 16']:.1f}"],
    ]  # fmt: skip


TABLES: Mapping[tuple[str, str], Callable[[Record], Table]] = {
    ("perf/decode.json", "decoding"): _decoding,
    ("perf/index.json", "indexing"): _indexing,
    ("perf/index_processes.json", "two index commands"): _index_processes,
    ("perf/question.json", "a question beside the model"): _question,
    ("perf/executor.json", "sandbox"): _sandbox,
    ("perf/memory.json", "memory of a worker"): _memory,
    ("perf/flow.json", "how busy an engine is kept"): _flow,
    ("perf/scale.json", "hours, efficiency and limit"): _scale,
    ("perf/scale.json", "CPUs beside a GPU"): _scale_cpus,
    ("perf/scale.json", "the driver"): _scale_driver,
    ("perf/grpo.json", "a step of GRPO"): _grpo_step,
    ("videopro/pocket/model/figures.json", "kinds of questions"): _kinds,
    ("videopro/pocket/model/figures.json", "calibration"): _calibration,
    ("perf/replies.json", "errors of readers"): _readers,
    ("docs/results/pocket-test/last.json", "test and a fresh world"): _test_and_fresh,
    ("docs/results/pocket-compare/report.md", "equal budgets"): _equal_budgets,
    ("docs/results/pocket-asp/record.json", "test"): _asp,
}
"""By file and title."""

MARK = re.compile(r"<!-- from (?P<file>\S+): (?P<title>[^>]+) -->\n(?P<table>(?:\|.*\n)+)")
"""A table of a page, below the comment that names what it is made of."""


def pages() -> list[Path]:
    """README and every page of docs."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
