"""Tables of how often answers are right on pocket."""

from __future__ import annotations

import json

from perf import ROOT
from perf.stored import configs, written
from perf.tables.shared import Record, Table, Tables, titled


def _share(figures: Record, digits: int = 0) -> str:
    """An accuracy in per cent with its interval."""
    low, high = figures["ci95"]
    right = f"{100 * figures['accuracy']:.{digits}f}"
    return f"{right} ({100 * low:.{digits}f} to {100 * high:.{digits}f})"


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
            label,
            *(f"{100 * record['untrained'][way]['test'][name]:.1f}" for way in ("mean", "frame")),
            *(f"{100 * result[way]['mean']:.1f}" for way in ("mean", "temporal", "asp")),
            gap(result["asp - mean"]),
            gap(result["asp - temporal"]),
        ]
        for name, label in names.items()
        for result in [record["recall"]["test"][name]]
    ]
    heads = ["test", "untrained: mean", "untrained: best frame", "mean", "temporal", "asp"]
    return [*heads, "asp - mean", "asp - temporal"], rows


_SHIPPED = "videopro by pocket-sft"
_STORED = {
    "native": "native",
    "native, subtitles at its frames": "native-frames",
    "native, all subtitles": "native-subtitles",
    "program": "program",
    "videopro": "videopro",
    "videopro, reader off": "videopro-unread",
    _SHIPPED: "shipped-videopro",
}
"""The names of the fresh world's rows in its archive."""


def _test_and_fresh(record: list[Record]) -> Table:
    """Methods on test, and in a world that was drawn once, after all settings were fixed, with how their
    programs were written. On test, the shipped planner is the one of its three seeds that ships."""
    results = ROOT / "docs" / "results"
    fresh = json.loads((results / "pocket-fresh" / "last.json").read_text(encoding="utf-8"))
    shipped = json.loads((results / "pocket-sft" / "videopro-1.json").read_text(encoding="utf-8"))
    test = {row["name"]: (row["accuracy"], row["accuracy_ci95"]) for row in record}
    test[_SHIPPED] = (shipped["accuracy"], shipped["accuracy_ci95"])
    if written(configs("pocket-sft")["videopro-1"]) != written(configs("pocket-fresh")["shipped-videopro"]):
        raise KeyError("the shipped planner's runs on test and on the fresh world differ in their decoding")
    rows = []
    for row in fresh:
        cells = [row["name"], written(configs("pocket-fresh")[_STORED[row["name"]]]) or "none"]
        for accuracy, (low, high) in (test[row["name"]], (row["accuracy"], row["accuracy_ci95"])):
            cells += [f"{100 * accuracy:.1f}", f"{100 * low:.1f} to {100 * high:.1f}"]
        rows.append(cells)
    heads = ["", "programs", "right on test, %", "95 %, questions"]
    return [*heads, "right on a fresh world, %", "95 %, questions"], rows


_IN_SHORT = {
    "native": ("`native`", "nobody"),
    "program": ("`program`", "the teacher"),
    "videopro": ("`videopro`", "the teacher"),
    _SHIPPED: ("`videopro`, trained", "a fine-tuned model"),
}
"""README's rows: the method, and who writes its programs."""


def _test_and_fresh_in_short(record: list[Record]) -> Table:
    """README's rows of the table above, each accuracy with its interval."""
    rows = {cells[0]: cells for cells in _test_and_fresh(record)[1]}
    heads = ["method", "who writes the programs", "right on test, % (95 % interval)"]
    lines = []
    for name, title in _IN_SHORT.items():
        test, test_interval, fresh, fresh_interval = rows[name][2:]
        lines.append([*title, f"{test} ({test_interval})", f"{fresh} ({fresh_interval})"])
    return [*heads, "right on a fresh world, %"], lines


_TOKENS = "tokens in + out, amortised"


def _equal_budgets(report: str) -> Table:
    """Accuracy at each budget, and the tokens at the larger one, of the report's table of costs."""
    lines = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in titled(report, "Accuracy against cost, pocket test")
    ]
    heads, runs = lines[0], lines[2:]
    of = {name: heads.index(name) for name in ("run", "frames a call", "accuracy, %", _TOKENS)}
    by_system: dict[str, dict[str, list[str]]] = {}
    for run in runs:
        by_system.setdefault(run[of["run"]].split(",")[0], {})[run[of["frames a call"]]] = run
    rows = []
    for name, budgets in by_system.items():
        cells = [
            budgets[budget][of["accuracy, %"]] if budget in budgets else "not run" for budget in ("8", "16")
        ]
        rows.append([name, *cells, budgets["16"][of[_TOKENS]]])
    return ["", "8 frames a call", "16 frames a call", "tokens a question, amortised (16)"], rows


TABLES: Tables = {
    ("videopro/pocket/model/figures.json", "kinds of questions"): _kinds,
    ("videopro/pocket/model/figures.json", "calibration"): _calibration,
    ("docs/results/pocket-asp/record.json", "test"): _asp,
    ("docs/results/pocket-test/last.json", "test and a fresh world"): _test_and_fresh,
    ("docs/results/pocket-test/last.json", "right answers, in short"): _test_and_fresh_in_short,
    ("docs/results/pocket-compare/report.md", "equal budgets"): _equal_budgets,
}
