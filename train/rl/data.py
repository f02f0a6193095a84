"""Prompts to write programs for, with what their rewards need: `grpo.jsonl` of data_synthesis.

A row is one prompt about one question: "plan" (choose a mode, write a program), "bug_fix" (a program and the
log of its failure), "native_refinement" and "program_refinement" (a program whose answer is unsure). Knows
files; must not know models, how a video is read, or what is rewarded.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from datasets import Dataset

from videopro.errors import DatasetError, QuestionError
from videopro.question import Question
from videopro.storage import read_json_lines

KINDS = ("plan", "bug_fix", "native_refinement", "program_refinement")
MODES = ("native", "program")


@dataclass(frozen=True)
class GRPORow:
    """One prompt; the fields of a line of the file, with paths that hold wherever one stands."""

    id: str
    question_id: str
    video: Path
    subtitles: Path | None
    question: str
    choices: tuple[str, ...]
    answer: str
    """The right letter."""
    kind: str
    prompt: str
    """The text that follows the video."""
    program: str | None = None
    """What is to be refined or mended."""
    log: str | None = None
    """How a program failed."""
    native_answer: str | None = None
    native_confidence: float | None = None
    oracle_mode: str | None = None
    """native or program (A.3); None where the base was not asked."""
    family: str | None = None
    length: str | None = None
    prompt_video: bool = True
    """Whether the prompt begins with the video; programs run over it either way."""


def read_grpo_rows(path: Path, kinds: Collection[str] = KINDS) -> list[GRPORow]:
    """The rows of these kinds. Video and subtitle paths are relative to the file's folder, or absolute.

    Raises DatasetError, naming file, line and mend, for the first row that is not of the form above, also
    among those of other kinds, and where no row is left.
    """
    rows: list[GRPORow] = []
    places: dict[str, int] = {}
    for number, where, record in read_json_lines(path, "a grpo.jsonl"):
        row = _row(record, path.parent, where)
        if row.id in places:
            raise DatasetError(f"{where}: has the id {row.id!r} of line {places[row.id]}; ids must differ")
        places[row.id] = number
        rows.append(row)
    chosen = [row for row in rows if row.kind in kinds]
    if not chosen:
        found = f"its {len(rows)} rows are of other kinds" if rows else "it holds no rows"
        raise DatasetError(f"{path}: no prompts of kind {', '.join(kinds)}: {found}")
    return chosen


def _row(record: Mapping[str, Any], folder: Path, where: str) -> GRPORow:
    if "messages" in record and "prompt" not in record:
        raise DatasetError(f"{where}: is a row for fine-tuning (train/sft.py); give a grpo.jsonl")
    for name in ("id", "video", "question", "answer", "kind", "prompt"):
        if not isinstance(record.get(name), str) or not record[name]:
            raise DatasetError(f"{where}: field {name!r} is {record.get(name)!r}; it must be a text")
    for name in ("question_id", "subtitles", "program", "log", "native_answer", "family", "length"):
        if record.get(name) is not None and not isinstance(record[name], str):
            raise DatasetError(f"{where}: field {name!r} is {record[name]!r}; it must be a text or null")
    if record["kind"] not in KINDS:
        raise DatasetError(f"{where}: kind is {record['kind']!r}; it must be one of {', '.join(KINDS)}")
    if not isinstance(record.get("prompt_video", True), bool):
        raise DatasetError(f"{where}: prompt_video is {record['prompt_video']!r}; it must be true or false")
    mode = record.get("oracle_mode")
    if mode is not None and mode not in MODES:
        raise DatasetError(f"{where}: oracle_mode is {mode!r}; it must be native, program or null")
    confidence = record.get("native_confidence")
    if confidence is not None and not (isinstance(confidence, int | float) and 0 <= confidence <= 1):
        raise DatasetError(f"{where}: native_confidence is {confidence!r}; it must lie in 0..1 or be null")
    choices = _choices(record, where)
    return GRPORow(
        id=record["id"],
        question_id=record.get("question_id") or record["id"],
        video=(folder / record["video"]).absolute(),
        subtitles=(folder / record["subtitles"]).absolute() if record.get("subtitles") else None,
        question=record["question"],
        choices=choices,
        answer=record["answer"],
        kind=record["kind"],
        prompt=record["prompt"],
        program=record.get("program"),
        log=record.get("log"),
        native_answer=record.get("native_answer"),
        native_confidence=None if confidence is None else float(confidence),
        oracle_mode=mode,
        family=record.get("family"),
        length=record.get("length"),
        prompt_video=record.get("prompt_video", True),
    )


def _choices(record: Mapping[str, Any], where: str) -> tuple[str, ...]:
    choices = record.get("choices")
    if not isinstance(choices, list) or not all(isinstance(one, str) for one in choices):
        raise DatasetError(f"{where}: field 'choices' is {choices!r}; it must be a list of texts")
    try:
        Question(record["question"], tuple(choices)).choice(record["answer"])
    except QuestionError as error:
        raise DatasetError(f"{where}: {error}") from error
    return tuple(choices)


def as_dataset(rows: Sequence[GRPORow]) -> Dataset:
    """The rows as the trainer and the rewards take them: a chat `prompt`, and every other field of
    `GRPORow` as a column, paths as texts."""
    return Dataset.from_list([_columns(row) for row in rows])


def _columns(row: GRPORow) -> dict[str, Any]:
    return {
        **asdict(row),
        "prompt": [{"role": "user", "content": row.prompt}],
        "video": str(row.video),
        "subtitles": str(row.subtitles) if row.subtitles is not None else None,
        "choices": list(row.choices),
    }
