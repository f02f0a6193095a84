"""What was measured, as a file and as tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perf.battery.shapes import Shapes
from perf.recording import write_record

Part = Mapping[str, Mapping[str, Any]]


def write_results(
    path: Path,
    shapes: Shapes,
    conditions: Mapping[str, Any],
    parts: Mapping[str, Part],
    titles: Mapping[str, str],
) -> None:
    """Write the results of one device and shapes. Whatever else is in the file stays as it is, if it is of
    the same device, versions and shapes."""
    content: dict[str, Any] = {"shapes": shapes.name, "facts": dict(conditions), "parts": {}}
    if path.exists() and is_of(path, shapes, conditions):
        content = json.loads(path.read_text(encoding="utf-8"))
    for letter, cases in parts.items():
        content["parts"][letter] = {"title": titles[letter], "cases": cases}
    content["parts"] = dict(sorted(content["parts"].items()))
    write_record(path, content)


def is_of(path: Path, shapes: Shapes, conditions: Mapping[str, Any]) -> bool:
    """Whether a file of results is of this device, versions and shapes, or does not exist yet."""
    if not path.exists():
        return True
    before = json.loads(path.read_text(encoding="utf-8"))
    return bool(before.get("shapes") == shapes.name and before.get("facts") == dict(conditions))


def table(title: str, cases: Part) -> str:
    """A part's table in Markdown: a row for each case, a column for each figure; below it what was not
    measured, and why. The last columns, where CPU time was recorded, are what a case took as a whole."""
    rows = {name: case["figures"] for name, case in cases.items() if "figures" in case}
    if any("cpu_s" in cases[name] for name in rows):
        rows = {
            name: {**row, "whole_case_s": cases[name].get("seconds"), "CPU_s": cases[name].get("cpu_s")}
            for name, row in rows.items()
        }
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    lines = [f"**{title}**"]
    if rows:
        cells = [["", *(column.replace("_", " ") for column in columns)]]
        cells += [[name, *(_cell(row.get(column)) for column in columns)] for name, row in rows.items()]
        lines += ["", "| " + " | ".join(cells[0]) + " |"]
        lines += ["|" + "---|" * len(cells[0])]
        lines += ["| " + " | ".join(line) + " |" for line in cells[1:]]
    for name, case in cases.items():
        for kind in ("skipped", "failed"):
            if kind in case:
                lines += ["", f"{name}: {kind}: {case[kind]}"]
    return "\n".join(lines)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_cell(inner)}" for name, inner in value.items())
    return f"{value:,}" if isinstance(value, int) else str(value)


def tables(path: Path) -> str:
    """Every table of a file of results, under the device's name and the versions."""
    content = json.loads(path.read_text(encoding="utf-8"))
    conditions = content["facts"]
    versions = ", ".join(f"{name} {conditions[name]}" for name in ("python", "torch", "transformers", "trl"))
    loads = [case["load"] for part in content["parts"].values() for case in part["cases"].values()]
    head = f"On {conditions['device']}, random weights ({content['shapes']}); {versions}. "
    if loads:
        head += f"Load average before each case: {min(loads)} to {max(loads)}."
    parts = [table(f"({letter}) {part['title']}", part["cases"]) for letter, part in content["parts"].items()]
    if "lmms_eval" in content:
        parts.append(_lmms_eval(content["lmms_eval"]))
    if "lmms_eval_apart" in content:
        parts.append(_one_a_video(content["lmms_eval_apart"]))
    return "\n\n".join([head, *parts])


def _lmms_eval(section: Mapping[str, Any]) -> str:
    """lmms-eval's table (perf/lmms_eval.py), to be read beside (f)."""
    names = ("questions", "videos", "questions_per_s", "s_a_question", "cpu_s_a_question", "start_and_load_s")
    figures = {name: section[name] for name in (*names, "prompt_tokens")}
    title = f"lmms-eval {section['version']} on the same model, videos and questions"
    return table(title, {"one question at a time": {"figures": figures}})


def _one_a_video(section: Mapping[str, Any]) -> str:
    """Both with one question a video (perf/lmms_eval.py --apart)."""
    names = ("questions", "videos", "s_a_question")
    ours, theirs = ({name: side[name] for name in names} for side in (section["native"], section))
    return table(
        f"native and lmms-eval {section['version']}, one question a video",
        {
            "native": {"figures": ours},
            "lmms-eval": {"figures": {**theirs, "to_native": section["to_native"]}},
        },
    )
