"""Reads rows for GRPO: prompts to write programs for, with what their rewards need.

A row is one prompt about one question: "plan" (choose a mode, write a program), "bug_fix" (a program and the
log of its failure), "native_refinement" and "program_refinement" (a program with a low-confidence answer).
`grpo.jsonl` of data_synthesis has a column for all of that. The release's `train_grpo.jsonl` has chats
(`videopro.train.runtime.rows`); what its rows leave unsaid is read from their prompts, those of the paper's
Figs. 9 and 11 to 13, and their gold answers. A row's own columns (`kind`, `question`, `choices`) take
precedence over that. Rows are checked here, once, and passed on as `GRPORow`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset

from videopro.errors import DatasetError
from videopro.executor import ENTRY, parse_program
from videopro.question import LETTERS, Question, extract_letter
from videopro.traces import ReferenceForm
from videopro.train.rewards import RewardRow, read_question, read_row
from videopro.train.runtime import RowsOfFile, as_column, read_chat, read_reference, read_rows_of_file
from videopro.train.settings import KINDS

GOLD = ("answer", "solution", "gold", "ground_truth")
"""Columns that may have the gold answer; ms-swift passes `solution` to reward functions."""

# Patterns of the prompts in Figs. 9 and 11 to 13: the release's rows have no columns for what these show.
_QUESTION = re.compile(
    r"^[ \t]*Question:[ \t]*(?P<text>.*?)\s*^[^\n:]*(?:choices|options)[^\n:]*:[ \t]*\n", re.I | re.M | re.S
)
_CHOICE = re.compile(r"^[ \t]*(?P<letter>[A-Z])[.)][ \t]*(?P<text>\S[^\n]*?)[ \t]*$")
_LOG = re.compile(r"\berror log\b", re.I)
_REFINE = re.compile(r"\brefine this (?:visual )?program\b", re.I)
_PROGRAM = re.compile(rf"def {ENTRY}\b.*?(?=\brefine this\b|</code>|\Z)", re.I | re.S)


def question_of_prompt(prompt: str, where: str) -> tuple[str, list[str]]:
    """The text and the choices of the last question that a prompt shows. Raises DatasetError if it shows
    none, or if where its choices end is unclear."""
    questions = list(_QUESTION.finditer(prompt))
    if not questions:
        raise DatasetError(
            f"{where}: no columns 'question' and 'choices', and no 'Question: ...' with 'Choices:' in its "
            "prompt; add the columns"
        )
    # Earlier questions may be examples.
    for question in reversed(questions):
        choices = _lettered(prompt[question.end() :].split("\n"))
        if len(choices) >= 2:
            return question["text"], choices
    raise DatasetError(
        f"{where}: cannot split the choices in its prompt (one line each, A. B. C. ...); add the columns "
        "'question' and 'choices'"
    )


def _lettered(lines: Sequence[str]) -> list[str]:
    """The texts after A., B., ... at the start of these lines; empty if a later line of the same paragraph
    has a letter too, since one of them has a line break then."""
    choices: list[str] = []
    for line in lines:
        choice = _CHOICE.match(line)
        if choice is None or choice["letter"] != LETTERS[len(choices) : len(choices) + 1]:
            break
        choices.append(choice["text"])
    remainder = "\n".join(lines[len(choices) :]).split("\n\n")[0]
    return [] if any(_CHOICE.match(line) for line in remainder.split("\n")) else choices


def kind_of_prompt(prompt: str) -> str:
    """What a prompt asks for: "bug_fix" if it shows a log of errors, "native_refinement" or
    "program_refinement" if it shows a program to refine (by the modules that the program calls), else
    "plan"."""
    if _LOG.search(prompt):
        return "bug_fix"
    if not _REFINE.search(prompt):
        return "plan"
    # A prompt that refines shows a program; the modules that it calls tell the two kinds apart.
    source = _PROGRAM.search(prompt)
    program = parse_program(f"<code>\n{source[0].strip() if source is not None else ''}\n</code>")
    return "native_refinement" if program.mode == "native" else "program_refinement"


def gold_letter(record: Mapping[str, Any], question: Question, where: str) -> str:
    """The letter of a row's gold answer, which may be a letter, a choice's text, or a reply that names one.
    Raises DatasetError if the row has none."""
    gold = {name: record[name] for name in GOLD if record.get(name) not in (None, "")}
    if not gold:
        raise DatasetError(
            f"{where}: no gold answer ({', '.join(GOLD)}), so no reply can be rewarded; add one"
        )
    letters = {name: _letter(value, question) for name, value in gold.items()}
    # Columns that contradict each other leave no answer to reward.
    if None in letters.values() or len(set(letters.values())) > 1:
        raise DatasetError(
            f"{where}: its gold answer {', '.join(f'{name}={value!r}' for name, value in gold.items())} is "
            f"not one of {', '.join(question.letters)}"
        )
    (letter,) = set(letters.values())
    assert letter is not None
    return letter


def _letter(value: Any, question: Question) -> str | None:
    if not isinstance(value, str):
        return None
    text = value.strip()
    # A choice's own text first: a choice may look like a letter.
    matching = [
        letter for letter, choice in zip(question.letters, question.choices, strict=True) if choice == text
    ]
    if len(matching) == 1:
        return matching[0]
    return extract_letter(text, question)


@dataclass(frozen=True)
class GRPORow(RewardRow):
    """One prompt, and what its replies are judged by. Paths are absolute."""

    prompt: str
    """The text that follows the video."""
    prompt_video: bool = True
    """Whether the video is in the prompt; programs run over it either way."""
    system: str | None = None
    """The system turn; None: the chat template's own, if it has one."""
    before: str = ""
    """The text before the video."""
    reference: ReferenceForm = "none"
    """How the prompt describes the modules."""
    modules: tuple[str, ...] = ()
    """The names of the modules that the prompt describes."""
    where: str = field(default="", compare=False)
    """Its file and line, for messages."""

    @property
    def text(self) -> str:
        """The user's turn without the video."""
        return self.before + self.prompt


def read_grpo_rows(
    path: Path, kinds: Collection[str] = KINDS, *, prompt_video: bool = True
) -> RowsOfFile[GRPORow]:
    """Read the rows of these kinds; rows that cannot be used are left out. `prompt_video`: False leaves the
    video out of all prompts. Video and subtitle paths are
    relative to the file's folder, or absolute. Raises DatasetError for a file that cannot be read or has no
    row that can be used."""
    lines: dict[str, int] = {}

    def read(record: Mapping[str, Any], where: str, number: int) -> GRPORow:
        row = read_grpo_row(record, path.parent.absolute(), where, number)
        if row.id in lines:
            raise DatasetError(f"{where}: id {row.id!r} repeats line {lines[row.id]}; ids must be unique")
        lines[row.id] = number
        return replace(row, where=where, prompt_video=row.prompt_video and prompt_video)

    file = read_rows_of_file(path, "a grpo.jsonl", read)
    chosen = [row for row in file.rows if row.kind in kinds]
    if not chosen:
        raise DatasetError(
            f"{path}: no prompts of kind {', '.join(kinds)}: its {len(file.rows)} rows are of other kinds; "
            "set kinds to some of theirs"
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
        raise DatasetError(f"{where}: no video for its programs; add it to 'videos'")
    if chat.reply is not None and not any(record.get(name) for name in GOLD):
        raise DatasetError(
            f"{where}: this is a row for fine-tuning (videopro sft), with a reply and no gold answer; pass a "
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
    """The rows as a dataset for TRL: a chat `prompt`, and the row itself (`row_of`)."""
    return Dataset.from_list([{"prompt": chat(row.text, row.system), **as_column(row)} for row in rows])


def chat(prompt: str, system: str | None = None) -> list[dict[str, str]]:
    """A prompt in TRL's conversational format, with a system turn if there is one."""
    first = [] if system is None else [{"role": "system", "content": system}]
    return [*first, {"role": "user", "content": prompt}]


def mix_seed(*key: int) -> int:
    """Combine several numbers into one seed of 63 bits."""
    return int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0] >> 1)
