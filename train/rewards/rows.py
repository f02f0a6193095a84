"""The fields of `grpo.jsonl` that rewards need, and the validation of a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from videopro.errors import DatasetError, QuestionError
from videopro.modules.calls import REMOVABLE
from videopro.question import Question, right_letters
from videopro.traces import PromptKind
from videopro.traces.scoring import Mode

TEXTS = ("id", "video", "question", "answer", "kind")
COLUMNS = (*TEXTS, "choices", "subtitles", "subtitle_track", "oracle_mode", "without")

ROW = "row"
"""The column in which `videopro.train.rl.trainer` passes validated rows to the reward functions."""
EVALUATION = "evaluation"
"""The column that says whether replies belong to an evaluation."""
TURNS = "turns"
"""The column with the replies of each turn of a rollout."""
POLICY_VERSION = "policy_version"
"""The column with the number of updates of the policy that wrote the replies."""


@dataclass(frozen=True)
class RewardRow:
    """A question about a video, and what the rewards of a reply depend on."""

    id: str
    kind: PromptKind
    video: Path
    subtitles: Path | None
    question: Question
    answer: str
    """The right letter."""
    oracle_mode: Mode | None
    """native or program (A.3); None if the base was not asked."""
    subtitle_track: str | None = field(default=None, kw_only=True)
    """The subtitle track to read, as in `videopro.benchmarks.Item`."""
    without: tuple[str, ...] = field(default=(), kw_only=True)
    """Groups of modules that the reply's program cannot call."""

    @property
    def right(self) -> frozenset[str]:
        """The letters that are right."""
        return right_letters(self.answer, self.question.choices)


def read_row(fields: Mapping[str, Any], where: str, *, folder: Path = Path()) -> RewardRow:
    """Validate a record of `grpo.jsonl`; other fields are ignored. Paths are absolute or relative to
    `folder`. Raises DatasetError, which begins with `where` and names the field and the fix."""
    for name in TEXTS:
        if not isinstance(fields.get(name), str) or not fields[name]:
            raise DatasetError(f"{where}: field {name!r} is {fields.get(name)!r}; it must be a string")
    for name in ("subtitles", "subtitle_track"):
        if fields.get(name) is not None and not isinstance(fields[name], str):
            raise DatasetError(f"{where}: field {name!r} is {fields[name]!r}; it must be a string or null")
    question = read_question(fields, where)
    kind, oracle_mode = fields["kind"], fields.get("oracle_mode")
    if kind not in get_args(PromptKind):
        raise DatasetError(f"{where}: kind is {kind!r}; it must be one of {', '.join(get_args(PromptKind))}")
    if oracle_mode is not None and oracle_mode not in get_args(Mode):
        raise DatasetError(f"{where}: oracle_mode is {oracle_mode!r}; it must be native, program or null")
    if fields["answer"] not in question.letters:
        raise DatasetError(
            f"{where}: answer is {fields['answer']!r}; it must be one of {', '.join(question.letters)}"
        )
    without = fields.get("without")
    # A row without the column and one with null do without nothing.
    without = [] if without is None else without
    if not isinstance(without, list) or not set(without) <= set(REMOVABLE):
        raise DatasetError(f"{where}: without is {without!r}; it must be a list of {', '.join(REMOVABLE)}")
    return RewardRow(
        id=fields["id"],
        kind=kind,
        video=folder / fields["video"],
        subtitles=folder / fields["subtitles"] if fields.get("subtitles") else None,
        subtitle_track=fields.get("subtitle_track"),
        question=question,
        answer=fields["answer"],
        oracle_mode=oracle_mode,
        without=tuple(without),
    )


def read_question(fields: Mapping[str, Any], where: str) -> Question:
    """The question of a record, from its columns `question` and `choices`. Raises DatasetError, as `read_row`
    does."""
    text, choices = fields.get("question"), fields.get("choices")
    if not isinstance(text, str) or not text:
        raise DatasetError(f"{where}: field 'question' is {text!r}; it must be a string")
    if not isinstance(choices, list) or not all(isinstance(choice, str) for choice in choices):
        raise DatasetError(f"{where}: field 'choices' is {choices!r}; it must be a list of strings")
    try:
        return Question(text, tuple(choices))
    except QuestionError as error:
        raise DatasetError(f"{where}: {error}") from error


def rows_of_batch(columns: Mapping[str, Any], count: int) -> Sequence[RewardRow]:
    """The rows of a batch, which TRL passes as columns, each a list of `count` values.

    `VideoGRPOTrainer` passes validated rows (ROW). With plain TRL they are built from the columns of
    `grpo.jsonl`, and DatasetError is raised for the first invalid row.
    """
    # Rows that our own trainer passes have been checked when their file was read.
    if ROW in columns:
        return columns[ROW]
    missing = [name for name in (*TEXTS, "choices") if name not in columns]
    if missing:
        raise DatasetError(
            f"the dataset has no column {', '.join(missing)}; pass the rows of a grpo.jsonl with all columns "
            "(remove_unused_columns: false)"
        )
    row_columns = {name: columns[name] for name in COLUMNS if name in columns}
    return [
        read_row(
            {name: values[index] for name, values in row_columns.items()}, f"row {columns['id'][index]!r}"
        )
        for index in range(count)
    ]


def texts_of(completion: str | Sequence[Mapping[str, Any]]) -> list[str]:
    """The reply of each turn as text, without the prompts between them: TRL passes a string for a text prompt
    and messages for a conversation."""
    if isinstance(completion, str):
        return [completion]
    replies = [message["content"] for message in completion if message["role"] == "assistant"]
    return [_text(content) for content in replies] or [""]


def _text(content: str | Sequence[Mapping[str, Any]]) -> str:
    if isinstance(content, str):
        return content
    return "".join(part["text"] for part in content if part["type"] == "text")
