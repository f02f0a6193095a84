"""Fills in the oracle mode m* (A.3) of rows that lack it, such as the release's rows, by one native answer
per question. Nothing else in a row changes."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from videopro.backbones import Backbone, library_versions
from videopro.benchmarks import ROBUST, Benchmark, Item, Protocol
from videopro.cli import read_yaml
from videopro.commands.prompts.planner import NATIVE, AskedRuns, read_planner
from videopro.commands.prompts.settings import PromptsConfig
from videopro.data_synthesis.card import (
    inline_counts,
    listed_counts,
    made_with,
    public,
    tally,
    write_card,
)
from videopro.data_synthesis.datasets import GRPO
from videopro.errors import ConfigError, RunError, cannot_write, failure_lines
from videopro.runs import RunFolder
from videopro.storage import write_atomically
from videopro.traces import Trace
from videopro.traces.scoring import Mode, oracle_mode
from videopro.train.rl import GRPORow, read_grpo_row
from videopro.train.runtime import read_rows_of_file

_PATHS = ("video", "videos", "subtitles")
"""Columns with paths, which are relative to the folder of the rows' file."""


def fill_oracle_modes(config: PromptsConfig, *, load: Callable[..., Backbone]) -> dict[str, Any] | None:
    """Run the model, write the rows with their oracle modes and a card, and return the card (None on ranks
    above 0). Raises VideoProError."""
    assert config.rows is not None
    source, target = config.rows, config.output / GRPO
    if target.exists() and target.samefile(source):
        raise ConfigError(f"--output {config.output}: would overwrite {source}; set another folder")
    rows: dict[int, GRPORow] = {}

    def read(record: Mapping[str, Any], where: str, number: int) -> GRPORow:
        rows[number] = read_grpo_row(record, source.parent.absolute(), where, number)
        return rows[number]

    left_out = dict(read_rows_of_file(source, "a grpo.jsonl", read).left_out)
    lacking = {number: row for number, row in rows.items() if row.oracle_mode is None}
    # Rows of several kinds are often about one question, which is asked once.
    first_lines: dict[tuple[Any, ...], int] = {}
    for number, row in lacking.items():
        first_lines.setdefault(_question(row), number)
    distinct = {number: rows[number] for number in first_lines.values()}
    answers = _answers(config, distinct, load) if distinct else {}
    if int(os.environ.get("RANK", "0")) > 0:
        return None
    modes: dict[int, Mode] = {}
    for number, row in lacking.items():
        trace = answers[f"line {first_lines[_question(row)]}"]
        if trace.error is not None:
            left_out[number] = f"{trace.error.type}: {trace.error.message}"
            continue
        execution = trace.rounds[0].execution
        assert execution is not None
        modes[number] = oracle_mode(execution, row.right, config.tau)
    # Paths in rows are relative to their file, which is copied elsewhere.
    moved = source.parent.resolve() != config.output.resolve()
    text = source.read_bytes()
    lines = text.split(b"\n")
    filled = [
        _filled(line, modes.get(number), source.parent.absolute() if moved else None)
        if number in rows
        else line
        for number, line in enumerate(lines, start=1)
    ]
    content = b"\n".join(filled)
    about = {
        "source": source.name,
        "settings": {"seed": config.seed, "tau": config.tau},
        "versions": library_versions(),
    }
    if distinct:
        run = read_yaml(RunFolder(config.output / NATIVE).config)
        about |= {NATIVE: run["identity"]["model"], "run key": run["run_key"]}
    card = {
        "about": public(about),
        "rows": sum(bool(line.strip()) for line in lines),
        "oracle mode filled in": tally(modes.values()),
        "had an oracle mode": len(rows) - len(lacking),
        "questions asked": len(first_lines),
        "without an oracle mode": {str(number): left_out[number] for number in sorted(left_out)},
        "sha256": {GRPO: hashlib.sha256(content).hexdigest()},
    }
    try:
        # If every row has its mode, nobody was asked, and the folder is not there yet.
        config.output.mkdir(parents=True, exist_ok=True)
        write_atomically(target, content)
    except OSError as error:
        raise RunError(cannot_write(error.filename or target, error)) from error
    write_card(config.output, card, _card_text(card))
    print(_summary(target, modes, left_out, len(rows) - len(lacking)))
    return card


def _question(row: GRPORow) -> tuple[Any, ...]:
    """What the native answer depends on."""
    return str(row.video), row.question


def _answers(
    config: PromptsConfig, rows: Mapping[int, GRPORow], load: Callable[..., Backbone]
) -> dict[str, Trace]:
    """The native answers to these rows, by the names that their lines give them."""
    items = [
        Item(f"line {number}", row.video, str(row.video), row.question, row.answer)
        for number, row in rows.items()
    ]
    benchmark = Benchmark("rows", "", items, Protocol(parser=ROBUST))
    traces = AskedRuns(config, read_planner(config), benchmark, items, load).ask(NATIVE)
    return {trace.question_id: trace for trace in traces}


def _card_text(card: Mapping[str, Any]) -> str:
    """The card in Markdown."""
    missing = {f"line {number}": reason for number, reason in card["without an oracle mode"].items()}
    parts = [
        f"# Data card: {card['about']['source']}",
        f"{card['rows']} prompts for GRPO (`grpo.jsonl`), made elsewhere. `videopro prompts --rows` filled "
        "in missing oracle modes (A.3) by answering each question directly, and changed nothing else.",
        f"Filled in: {inline_counts(card['oracle mode filled in'])}. Had one: {card['had an oracle mode']}. "
        f"Questions asked: {card['questions asked']}.",
        "## Without an oracle mode",
        listed_counts(missing),
        *made_with(card),
    ]
    return "\n\n".join(parts) + "\n"


def _filled(line: bytes, mode: Mode | None, folder: Path | None) -> bytes:
    """The line of a row with its oracle mode; with `folder`, also with whole paths in place of those that are
    relative to it, since the line moves to another folder."""
    row = json.loads(line)
    if folder is not None:
        row |= {name: _absolute(row[name], folder) for name in _PATHS if name in row}
    if mode is not None:
        row["oracle_mode"] = mode
    return json.dumps(row, ensure_ascii=False).encode("utf-8")


def _absolute(value: Any, folder: Path) -> Any:
    if isinstance(value, list):
        return [_absolute(part, folder) for part in value]
    return str(folder / value) if isinstance(value, str) and value else value


def _summary(path: Path, modes: Mapping[int, Mode], left_out: Mapping[int, str], had: int) -> str:
    counts = ", ".join(f"{mode} {count}" for mode, count in tally(modes.values()).items()) or "none"
    filled = f"{path}: oracle modes filled in: {counts}" + (f"; {had} rows already had one" if had else "")
    if not left_out:
        return filled
    lines = failure_lines((f"line {number}", "", left_out[number]) for number in sorted(left_out))
    return "\n".join((f"{filled}; {len(left_out)} rows still lack one:", *lines))
