"""Reads rows for GRPO: prompts to write programs for, with what their rewards need.

A row is one prompt about one question: "plan" (choose a mode, write a program), "bug_fix" (a program and the
log of its failure), "native_refinement" and "program_refinement" (a program with a low-confidence answer).
`grpo.jsonl` of data_synthesis has a column for all of that. The release's `train_grpo.jsonl` has chats
(`videopro.train.runtime.rows`); what its rows leave unsaid is read from their prompts
(`videopro.train.rl.untagged_rows`). Rows are checked here, once, and passed on as `GRPORow`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from datasets import Dataset

from videopro.errors import DatasetError
from videopro.question import Question
from videopro.traces import ReferenceForm
from videopro.train.rewards import RewardRow, read_question, read_row
from videopro.train.rl.untagged_rows import GOLD, gold_letter, kind_of_prompt, question_of_prompt
from videopro.train.runtime import RowsOfFile, read_chat, read_reference, read_rows_of_file
from videopro.train.settings import KINDS


@dataclass(frozen=True)
class GRPORow(RewardRow):
    """One prompt, and what a reply to it is judged by. Paths are absolute."""

    prompt: str
    """The text that follows the video."""
    prompt_video: bool = True
    """Whether the video is in the prompt; programs run over it either way."""
    system: str | None = None
    """The system turn; None: the chat template's own, if it has one."""
    before: str = ""
    """The text before the video."""
    reference: ReferenceForm = "none"
    """What the prompt says of the modules."""
    modules: tuple[str, ...] = ()
    """The names of those that it says something of."""
    where: str = field(default="", compare=False)
    """Its file and line, for messages."""

    @property
    def text(self) -> str:
        """The user's turn without the video."""
        return self.before + self.prompt


def read_grpo_rows(path: Path, kinds: Collection[str] = KINDS) -> RowsOfFile[GRPORow]:
    """Read the rows of these kinds; rows that cannot be used are left out. Video and subtitle paths are
    relative to the file's folder, or absolute. Raises DatasetError for a file that cannot be read or has no
    row that can be used."""
    lines: dict[str, int] = {}

    def read(record: Mapping[str, Any], where: str, number: int) -> GRPORow:
        row = read_grpo_row(record, path.parent.absolute(), where, number)
        if row.id in lines:
            raise DatasetError(f"{where}: has the id {row.id!r} of line {lines[row.id]}; ids must differ")
        lines[row.id] = number
        return replace(row, where=where)

    file = read_rows_of_file(path, "a grpo.jsonl", read)
    chosen = [row for row in file.rows if row.kind in kinds]
    if not chosen:
        raise DatasetError(
            f"{path}: no prompts of kind {', '.join(kinds)}: its {len(file.rows)} rows are of other kinds"
        )
    return replace(file, rows=chosen)


def read_grpo_row(record: Mapping[str, Any], folder: Path, where: str, number: int) -> GRPORow:
    """A row of a file in `folder`, of which it is line `number`. Raises DatasetError, which begins with
    `where`."""
    prompt_video = record.get("prompt_video", True)
    if not isinstance(prompt_video, bool):
        raise DatasetError(f"{where}: prompt_video is {prompt_video!r}; it must be true or false")
    # Our own rows have a column for the prompt too; their `messages` are for ms-swift.
    if "prompt" not in record:
        return replace(_chat_row(record, folder, where, number), prompt_video=prompt_video)
    prompt = record["prompt"]
    if not isinstance(prompt, str) or not prompt:
        raise DatasetError(f"{where}: field 'prompt' is {prompt!r}; it must be a non-empty string")
    _check_kind(record.get("kind"), where)
    row = read_row(record, where, folder=folder)
    return GRPORow(
        **vars(row), prompt=prompt, prompt_video=prompt_video, **vars(read_reference(record, where))
    )


def _chat_row(record: Mapping[str, Any], folder: Path, where: str, number: int) -> GRPORow:
    chat = read_chat(record, where)
    if chat.video is None:
        raise DatasetError(f"{where}: has no video for its programs; name it in 'videos'")
    if chat.reply is not None and not any(record.get(name) for name in GOLD):
        raise DatasetError(
            f"{where}: is a row for fine-tuning (videopro sft): it has a reply and no gold answer; give a "
            "grpo.jsonl"
        )
    text = f"{chat.before}\n{chat.prompt}"
    question, choices = record.get("question"), record.get("choices")
    if question is None or choices is None:
        question, choices = question_of_prompt(text, where)
    kind = record["kind"] if record.get("kind") is not None else kind_of_prompt(text)
    _check_kind(kind, where)
    fields = {
        # The release's rows have no id; the number of a line stays the same.
        "id": str(record["id"]) if record.get("id") is not None else f"line {number}",
        "kind": kind,
        "video": chat.video,
        "subtitles": record.get("subtitles"),
        "subtitle_track": record.get("subtitle_track"),
        "question": question,
        "choices": choices,
        "oracle_mode": record.get("oracle_mode"),
        "without": record.get("without"),
    }
    letter = gold_letter(record, read_question(fields, where), where)
    row = read_row({**fields, "answer": letter}, where, folder=folder)
    return GRPORow(
        **vars(row),
        prompt=chat.prompt,
        system=chat.system,
        before=chat.before,
        **vars(read_reference(record, where)),
    )


def _check_kind(kind: Any, where: str) -> None:
    if kind not in KINDS:
        raise DatasetError(f"{where}: kind is {kind!r}; it must be one of {', '.join(KINDS)}")


def as_dataset(rows: Sequence[GRPORow]) -> Dataset:
    """The rows as a dataset for TRL: a chat `prompt`, and every other field of `GRPORow` as a column."""
    return Dataset.from_list([_columns(row) for row in rows])


def chat(prompt: str, system: str | None = None) -> list[dict[str, str]]:
    """A prompt in TRL's conversational format, with a system turn if there is one."""
    first = [] if system is None else [{"role": "system", "content": system}]
    return [*first, {"role": "user", "content": prompt}]


def _columns(row: GRPORow) -> dict[str, Any]:
    return {
        **vars(row),
        "prompt": chat(row.prompt, row.system),
        "video": str(row.video),
        "subtitles": str(row.subtitles) if row.subtitles is not None else None,
        "question": row.question.text,
        "choices": list(row.question.choices),
        "modules": list(row.modules),
        "without": list(row.without),
    }


def row_from_columns(columns: Mapping[str, Any]) -> GRPORow:
    """The inverse of `as_dataset` for one row. The row is not checked again."""
    return GRPORow(
        id=columns["id"],
        kind=columns["kind"],
        video=Path(columns["video"]),
        subtitles=Path(columns["subtitles"]) if columns["subtitles"] is not None else None,
        subtitle_track=columns["subtitle_track"],
        question=Question(columns["question"], tuple(columns["choices"])),
        answer=columns["answer"],
        oracle_mode=columns["oracle_mode"],
        prompt=columns["prompt"][-1]["content"],
        prompt_video=columns["prompt_video"],
        system=columns["system"],
        before=columns["before"],
        reference=columns["reference"],
        modules=tuple(columns["modules"]),
        where=columns["where"],
        without=tuple(columns["without"]),
    )
