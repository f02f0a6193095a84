"""The prompts of rounds, and the file next to a run's traces with the heads that prompts share.

Prompts of a run differ in a few lines: before the question they have the same API reference and examples, or
the same subtitles. So a trace holds what is its own, and the rest is written once, under a hash of it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from videopro.question import Question, prompts
from videopro.storage import JsonLinesLog, encodable, parse_json, write_atomically

PromptKind = Literal["plan", "plan_program", "bug_fix", "native_refinement", "program_refinement"]
"""What a prompt asks for: a program in a mode that the planner chooses, a program of several steps, or a
refinement of a program that failed or whose answer is unsure (in native mode, or after several steps)."""

PLAN_KINDS: tuple[PromptKind, ...] = ("plan", "plan_program")
REFINEMENT_KINDS: tuple[PromptKind, ...] = ("bug_fix", "native_refinement", "program_refinement")

ReferenceForm = Literal["none", "signatures", "compact", "full"]
"""How a prompt describes the available modules: not at all, by signatures, by a line each (what it does and
returns), or by their full documentation."""
REFERENCE_FORMS: tuple[ReferenceForm, ...] = get_args(ReferenceForm)


# Characters before the question from which on they are worth their own line.
_LONG = 200


@dataclass(frozen=True)
class Prompt:
    """The text sent to a model, without the frames."""

    text: str
    """From the question on; the whole prompt if little precedes it."""
    head: str = ""
    """What comes before `text`, as in the prompts of other questions. A run's traces hold its `key`."""
    key: str = ""
    """The key of the head in the run's prompts.jsonl; empty without a head, and before it is written."""
    system: str = ""
    """The system turn; empty: the chat template's."""
    prefill: str = ""
    """The start of the reply, which the model continued."""


def recorded_prompt(text: str, question: Question, *, system: str = "", prefill: str = "") -> Prompt:
    """The record of a prompt that asks this question."""
    at = text.find(prompts.question_block(question))
    if at < 0:
        at = text.find(question.text)
    if at < _LONG:
        return Prompt(text, system=system, prefill=prefill)
    return Prompt(text[at:], text[:at], system=system, prefill=prefill)


def head_key(head: str) -> str:
    """The key of a head: 16 hex digits."""
    return hashlib.sha256(encodable(head).encode()).hexdigest()[:16]


def prompts_path(traces: Path) -> Path:
    """The file with the heads of the prompts in a file of traces."""
    return traces.with_name("prompts.jsonl")


class PromptHeads:
    """The heads of a run's prompts, each written once, by any number of processes. There is no file before
    the first one is written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stored: set[str] = set()
        """The keys that are in the file, as far as this object has read."""

    def store(self, heads: Iterable[str]) -> None:
        """Write the heads that the file does not have; they are on the disk when this returns, so that no
        trace names one that a power cut takes. Raises RunError for a file that cannot be written."""
        new = {head_key(head): head for head in heads}
        if new.keys() <= self._stored:
            return
        with JsonLinesLog(self._path) as file, file.locked():
            self._stored |= _read(file).keys()
            file.append(*({"key": key, "text": new[key]} for key in new if key not in self._stored))
        self._stored |= new.keys()


def read_heads(traces: Path) -> dict[str, str]:
    """The heads of the prompts in a file of traces, by key; none if nothing was written. A line that cannot
    be read is left out: its prompts are then incomplete, and everything else about them is there. Raises
    RunError for a file that cannot be opened."""
    path = prompts_path(traces)
    if not path.exists():
        return {}
    with JsonLinesLog(path, writable=False) as file:
        return _read(file)


def remove_heads(traces: Path, keys: Collection[str]) -> None:
    """Remove the heads of the prompts in a file of traces but those with these keys. Raises RunError,
    OSError."""
    heads = read_heads(traces)
    if not heads.keys() <= set(keys):
        kept = ({"key": key, "text": text} for key, text in heads.items() if key in keys)
        write_atomically(prompts_path(traces), "".join(json.dumps(record) + "\n" for record in kept))


def _read(file: JsonLinesLog) -> dict[str, str]:
    heads = {}
    for line in file.read().split(b"\n")[:-1]:
        try:
            record = parse_json(line)
        except ValueError:
            continue
        text = record.get("text") if isinstance(record, dict) else None
        # Damage that leaves a line readable must not change what a model is said to have read.
        if isinstance(text, str) and record.get("key") == head_key(text):
            heads[record["key"]] = text
    return heads
