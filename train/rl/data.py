"""Reads `grpo.jsonl` of data_synthesis: prompts to write programs for, with what their rewards need.

A row is one prompt about one question: "plan" (choose a mode, write a program), "bug_fix" (a program and the
log of its failure), "native_refinement" and "program_refinement" (a program with a low-confidence answer).
Rows are checked here, once, and passed on as `GRPORow`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from datasets import Dataset

from videopro.errors import DatasetError
from videopro.question import Question
from videopro.reasoning import Refinement
from videopro.storage import read_json_lines
from videopro.train.rewards import RewardRow, read_row

KINDS = ("plan", *get_args(Refinement))


@dataclass(frozen=True)
class GRPORow(RewardRow):
    """One prompt, and what a reply to it is judged by. Paths are absolute."""

    prompt: str
    """The text that follows the video."""
    prompt_video: bool = True
    """Whether the prompt begins with the video; programs run over it either way."""


def read_grpo_rows(path: Path, kinds: Collection[str] = KINDS) -> list[GRPORow]:
    """Read the rows of these kinds. Video and subtitle paths are relative to the file's folder, or absolute.

    Raises DatasetError, naming the file, the line and the fix, for the first invalid row (of any kind), and
    if no row is left.
    """
    rows: list[GRPORow] = []
    lines: dict[str, int] = {}
    for number, where, record in read_json_lines(path, "a grpo.jsonl"):
        row = _row(record, path.parent, where)
        if row.id in lines:
            raise DatasetError(f"{where}: has the id {row.id!r} of line {lines[row.id]}; ids must differ")
        lines[row.id] = number
        rows.append(row)
    chosen = [row for row in rows if row.kind in kinds]
    if not chosen:
        found = f"its {len(rows)} rows are of other kinds" if rows else "it holds no rows"
        raise DatasetError(f"{path}: no prompts of kind {', '.join(kinds)}: {found}")
    return chosen


def _row(record: Mapping[str, Any], folder: Path, where: str) -> GRPORow:
    if "messages" in record and "prompt" not in record:
        raise DatasetError(f"{where}: is a row for fine-tuning (videopro sft); give a grpo.jsonl")
    prompt, prompt_video = record.get("prompt"), record.get("prompt_video", True)
    if not isinstance(prompt, str) or not prompt:
        raise DatasetError(f"{where}: field 'prompt' is {prompt!r}; it must be a non-empty string")
    if not isinstance(prompt_video, bool):
        raise DatasetError(f"{where}: prompt_video is {prompt_video!r}; it must be true or false")
    if record.get("kind") not in KINDS:
        raise DatasetError(f"{where}: kind is {record.get('kind')!r}; it must be one of {', '.join(KINDS)}")
    row = read_row(record, where, folder=folder.absolute())
    return GRPORow(**vars(row), prompt=prompt, prompt_video=prompt_video)


def as_dataset(rows: Sequence[GRPORow]) -> Dataset:
    """The rows as a dataset for TRL: a chat `prompt`, and every other field of `GRPORow` as a column."""
    return Dataset.from_list([_columns(row) for row in rows])


def chat(prompt: str) -> list[dict[str, str]]:
    """A prompt in TRL's conversational format."""
    return [{"role": "user", "content": prompt}]


def _columns(row: GRPORow) -> dict[str, Any]:
    return {
        **vars(row),
        "prompt": chat(row.prompt),
        "video": str(row.video),
        "subtitles": str(row.subtitles) if row.subtitles is not None else None,
        "question": row.question.text,
        "choices": list(row.question.choices),
    }


def row_from_columns(columns: Mapping[str, Any]) -> GRPORow:
    """The inverse of `as_dataset` for one row. The row is not checked again."""
    return GRPORow(
        id=columns["id"],
        kind=columns["kind"],
        video=Path(columns["video"]),
        subtitles=Path(columns["subtitles"]) if columns["subtitles"] is not None else None,
        question=Question(columns["question"], tuple(columns["choices"])),
        answer=columns["answer"],
        oracle_mode=columns["oracle_mode"],
        prompt=columns["prompt"][0]["content"],
        prompt_video=columns["prompt_video"],
    )
