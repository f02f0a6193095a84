"""What rewards need to know of a row of `grpo.jsonl`, read out of what a trainer passes on.

Knows the form of rows; nothing of programs or models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from videopro.errors import DatasetError, QuestionError
from videopro.planners import PromptKind
from videopro.question import Question, right_letters
from videopro.train.rewards.scoring import Mode

NEEDED = ("id", "video", "question", "choices", "answer", "kind")
OPTIONAL = ("subtitles", "oracle_mode")


@dataclass(frozen=True)
class RewardRow:
    """A question about a video, and what a reply to its prompt is judged by."""

    id: str
    kind: PromptKind
    video: Path
    subtitles: Path | None
    question: Question
    answer: str
    """The right letter."""
    oracle: Mode | None

    @property
    def right(self) -> frozenset[str]:
        """The letters that are right."""
        return right_letters(self.answer, self.question.choices)


def read_row(fields: Mapping[str, Any]) -> RewardRow:
    """A row by the names of `grpo.jsonl`; others are left alone. Paths are absolute or relative to the
    working directory. Raises DatasetError, naming the row and the mend."""
    missing = [name for name in NEEDED if fields.get(name) is None]
    where = f"row {fields.get('id')!r}"
    if missing:
        raise DatasetError(
            f"{where}: rewards need {', '.join(missing)}; take rows of a grpo.jsonl and keep their columns "
            "(remove_unused_columns: false)"
        )
    kind, oracle = fields["kind"], fields.get("oracle_mode")
    if kind not in get_args(PromptKind):
        raise DatasetError(f"{where}: kind is {kind!r}; it must be one of {', '.join(get_args(PromptKind))}")
    if oracle is not None and oracle not in get_args(Mode):
        raise DatasetError(f"{where}: oracle_mode is {oracle!r}; it must be native, program or null")
    try:
        question = Question(fields["question"], fields["choices"])
    except QuestionError as error:
        raise DatasetError(f"{where}: {error}") from error
    if fields["answer"] not in question.letters:
        raise DatasetError(
            f"{where}: answer is {fields['answer']!r}; it must be one of {', '.join(question.letters)}"
        )
    subtitles = fields.get("subtitles")
    return RewardRow(
        id=str(fields["id"]),
        kind=kind,
        video=Path(fields["video"]),
        subtitles=Path(subtitles) if subtitles else None,
        question=question,
        answer=fields["answer"],
        oracle=oracle,
    )


def read_batch(columns: Mapping[str, Any], count: int) -> list[RewardRow]:
    """The rows of a batch, given as TRL gives them: a list of `count` values by column."""
    given = {name: columns[name] for name in (*NEEDED, *OPTIONAL) if name in columns}
    return [read_row({name: values[i] for name, values in given.items()}) for i in range(count)]


def texts_of(completion: str | Sequence[Mapping[str, Any]]) -> list[str]:
    """The reply of each turn as text, without what was asked between: TRL gives a text for a text prompt, and
    messages for a conversation."""
    if isinstance(completion, str):
        return [completion]
    return [_text(one["content"]) for one in completion if one["role"] == "assistant"] or [""]


def _text(content: str | Sequence[Mapping[str, Any]]) -> str:
    if isinstance(content, str):
        return content
    return "".join(part["text"] for part in content if part["type"] == "text")
