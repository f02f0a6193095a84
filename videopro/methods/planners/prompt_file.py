"""A planner's prompts from a user's file, for a planner that was not trained on the default prompts.

    plan: |
      ...{question}...{choices}...        # a YAML file, or a folder with plan.txt, bug_fix.txt, ...

A text has slots such as {question}. {{question}} stands for these characters themselves, and any other braces
stand for themselves, so that code and JSON can be pasted unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from videopro.backbones import PlannerRecord
from videopro.cli import did_you_mean, read_yaml
from videopro.errors import ConfigError, reading_file
from videopro.question import Question
from videopro.traces import PLAN_KINDS, PromptKind

API = "api"
"""The text of the file that replaces {api}, where our own reference of the video's modules would be."""
_KINDS: tuple[PromptKind, ...] = get_args(PromptKind)
_SLOT = re.compile(r"\{\{(\w+)\}\}|\{(\w+)\}")
_ALWAYS = ("question", "choices")
_OF_PLANS = (*_ALWAYS, API)
_OF_REFINEMENTS = (*_OF_PLANS, "program", "log", "answer", "confidence")
_REQUIRED: Mapping[PromptKind, tuple[str, ...]] = {
    "plan": _ALWAYS,
    "plan_program": _ALWAYS,
    "bug_fix": (*_ALWAYS, "program", "log"),
    # It is known which program took a single look.
    "native_refinement": _ALWAYS,
    "program_refinement": (*_ALWAYS, "program"),
}


@dataclass(frozen=True)
class PromptFile:
    """The texts of a file, by kind of prompt, and "api" if it has one. `source`: where they come from, for
    messages. Raises ConfigError for an unknown kind, an empty text, and an unknown or missing slot."""

    texts: Mapping[str, str]
    source: str

    def __post_init__(self) -> None:
        names = (*_KINDS, API)
        for name, text in self.texts.items():
            where = f"prompts {self.source}: {name}"
            if name not in names:
                raise ConfigError(f"{where}: unknown prompt; {did_you_mean(str(name), names)}")
            if not isinstance(text, str) or not text.strip():
                raise ConfigError(f"{where}: is {text!r}; it must be a non-empty string")
            if name != API:
                _check_slots(name, text, where)  # type: ignore[arg-type]

    def require(self, kinds: Iterable[PromptKind], who: str) -> None:
        """Raise ConfigError if a prompt is missing that `who` asks with."""
        for kind in kinds:
            if kind not in self.texts:
                raise ConfigError(f"prompts {self.source}: has no {kind}, which {who} needs; add it")

    def require_api(self, who: str) -> None:
        """Raise ConfigError for a slot {api} without a text for it, if `who` knows of no video's modules."""
        kinds = [kind for kind in _KINDS if self.shows(kind, API)]
        if kinds and API not in self.texts:
            raise ConfigError(
                f"prompts {self.source}: {kinds[0]} uses {{{API}}}, but {who} does not know the modules of a "
                f"video; add a text {API}"
            )

    def shows(self, kind: PromptKind, slot: str) -> bool:
        """Whether the prompt of this kind has the slot."""
        return slot in _slots(self.texts.get(kind, ""))

    def fill(
        self,
        kind: PromptKind,
        question: Question,
        *,
        reference: str = "",
        program: str = "",
        log: str = "",
        answer: str | None = None,
        confidence: float = 0.0,
    ) -> str:
        """The prompt of this kind for a question. `reference`: ours, where the file has no "api"; `program`,
        `log`, `answer` (None: it gave none) and `confidence` are of what is refined."""
        values = {
            "question": question.text,
            "choices": question.lettered_choices(),
            API: self.texts.get(API, reference),
            "program": program,
            "log": log,
            "answer": answer or "",
            "confidence": f"{confidence:.2f}",
        }
        # In one pass: what is filled in holds no slots.
        return _SLOT.sub(
            lambda slot: values[slot[2]] if slot[2] else "{" + slot[1] + "}",
            self.texts[kind],
        )


def read_prompts(prompts: str | Mapping[str, str]) -> PromptFile:
    """The prompts in a YAML file or in the .txt files of a folder, or these texts. The last line break of a
    .txt file is not part of its prompt. Raises ConfigError."""
    if not isinstance(prompts, str):
        return PromptFile(dict(prompts), "of the settings")
    path = Path(prompts).expanduser()
    texts = _folder(path) if path.is_dir() else read_yaml(path)
    if not texts:
        raise ConfigError(f"prompts {prompts}: contains no prompts; {did_you_mean('', [*_KINDS, API])}")
    return PromptFile(texts, prompts)


def prompt_notes(
    who: str, recorded: PlannerRecord | None, form: str, custom: PromptFile | None, reference: str = "auto"
) -> list[str]:
    """Where the settings ask a planner in another way than it was trained, as it records. `form`: the setting
    `planner_prompt`, "auto", "short" or "full"; `custom`: the user's prompts, if they are set; `reference`:
    the setting, "auto" or a `ReferenceForm`."""
    if recorded is None:
        return []
    differences = []
    if custom is not None:
        source, is_same = f"the prompts {custom.source}", custom.texts == recorded.prompts
    else:
        source = f"default {form} prompts"
        is_same = form == "auto" or (form == "short" and not recorded.prompts)
    if not is_same:
        trained = "the prompts that it records" if recorded.prompts else "default short prompts"
        differences.append((trained, source))
    if (reference, form) == ("auto", "short"):
        reference = "none"
    if reference not in ("auto", recorded.reference):
        differences.append((f"prompts with reference={recorded.reference}", f"reference={reference}"))
    return [
        f"{who} was trained on {trained}, but the settings use {asked}; leave that out to use the prompts "
        "from training"
        for trained, asked in differences
    ]


def _folder(path: Path) -> dict[str, str]:
    texts = {}
    for file in sorted(path.glob("*.txt")):
        with reading_file(f"{file}:", "pass a text file in UTF-8", ConfigError):
            text = file.read_text(encoding="utf-8")
        texts[file.stem] = text.removesuffix("\n")
    return texts


def _check_slots(kind: PromptKind, text: str, where: str) -> None:
    allowed = _OF_PLANS if kind in PLAN_KINDS else _OF_REFINEMENTS
    slots = _slots(text)
    for slot in slots:
        if slot not in allowed:
            raise ConfigError(
                f"{where}: unknown slot {{{slot}}}; {did_you_mean(slot, allowed)} (for literal braces write "
                f"{{{{{slot}}}}})"
            )
    for slot in _REQUIRED[kind]:
        if slot not in slots:
            raise ConfigError(f"{where}: the slot {{{slot}}} is missing; add it")


def _slots(text: str) -> list[str]:
    return [slot[2] for slot in _SLOT.finditer(text) if slot[2]]
