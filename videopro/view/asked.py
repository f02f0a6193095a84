"""What the planner was asked. A trace holds a planner's replies and not its prompts, which differ between
questions in a few lines only. They are made again from the trace and the settings that the run recorded, with
the functions that made them; what cannot be made again says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, cast

from videopro.benchmarks import Protocol
from videopro.errors import ConfigError, QuestionError
from videopro.executor import parse_program
from videopro.methods.planners import API, PromptFile, PromptKind
from videopro.methods.program import Refinement, refinement_prompt, shown_answer
from videopro.modules import ModuleSettings, api_reference
from videopro.modules.calls import ClipTimes, modules_for
from videopro.question import Question, prompts
from videopro.traces import FALLBACK, NO_SUBTITLES, Round, Trace

_PLANS = {"plan": True, "plan_program": False}
"""Kinds of prompts for a first program, and whether the planner may choose native mode."""
_REFINEMENTS = ("bug_fix", "native_refinement", "program_refinement")
_METHODS = ("program", "adaptive", "videopro")
_NO_LOG = (
    "it showed the log of the program that it was to improve, and a trace holds the logs of failed programs "
    "only"
)


class _UnknownPrompt(Exception):
    """The prompt cannot be made again; the message says why."""


def refined_by(trace: Trace, place: int) -> int | None:
    """The index of the round whose program this round was to improve; None if there is none."""
    attempt = trace.rounds[place]
    if attempt.prompt_kind not in _REFINEMENTS or not place:
        return None
    before = place - 1 if attempt.refines is None else attempt.refines
    return before if 0 <= before < place else None


class AskedPrompts:
    """The prompts of one run's rounds. `heads` collects what many of them begin with (the form of a reply,
    the API reference, examples), so that the pages store it once."""

    def __init__(self, identity: Mapping[str, Any], protocol: Protocol) -> None:
        """`identity`: the run's recorded one; `protocol`: its benchmark's."""
        method = identity.get("method")
        model = identity.get("model")
        self._method: Mapping[str, Any] = method if isinstance(method, dict) else {}
        self._model: Mapping[str, Any] = model if isinstance(model, dict) else {}
        self._protocol = protocol
        self.heads: list[str] = []

    def of(self, trace: Trace, place: int) -> dict[str, Any]:
        """The prompt of a round for its page: `head` (an index of `heads`, or None) and `text` after it, or
        `missing`: why the prompt is not known."""
        try:
            text = self._text(trace, trace.rounds[place], place)
            # Everything before the question is the same for all questions.
            at = max(0, text.find(prompts.question_block(_question(trace))))
        except _UnknownPrompt as unknown:
            return {"head": None, "text": "", "missing": str(unknown)}
        return {"head": self._head(text[:at]) if at else None, "text": text[at:], "missing": ""}

    def _head(self, text: str) -> int:
        if text not in self.heads:
            self.heads.append(text)
        return self.heads.index(text)

    def _text(self, trace: Trace, attempt: Round, place: int) -> str:
        if attempt.prompt_kind == FALLBACK:
            return _direct(_question(trace))
        name = self._method.get("name")
        if attempt.prompt_kind == "native":
            return self._native(trace, attempt)
        if name not in _METHODS or "planner_prompt" not in self._method:
            raise _UnknownPrompt(
                "traces hold no prompts, and this run did not record how its planner was asked"
            )
        file = self._file
        if attempt.prompt_kind in _PLANS:
            if file is not None:
                reference = self._reference(trace)
                return file.fill(cast(PromptKind, attempt.prompt_kind), _question(trace), reference=reference)
            return prompts.plan(
                _question(trace),
                adaptive=_PLANS[attempt.prompt_kind],
                reference=self._reference(trace),
                examples=not self._is_short,
            )
        return self._refinement(trace, attempt, place)

    def _refinement(self, trace: Trace, attempt: Round, place: int) -> str:
        number = refined_by(trace, place)
        before = None if number is None else trace.rounds[number]
        if before is None or before.execution is None:
            raise _UnknownPrompt("the trace does not say which program was to be improved")
        log = before.execution.error.log if before.execution.error is not None else ""
        shows = self._method.get("refinement_shows", "program")
        answer, question = before.execution.answer, _question(trace)
        file, program = self._file, parse_program(before.raw).code
        if file is not None:
            kind = cast(PromptKind, attempt.prompt_kind)
            if before.execution.error is None and file.shows(kind, "log"):
                raise _UnknownPrompt(_NO_LOG)
            return file.fill(
                kind,
                question,
                reference=self._reference(trace),
                program=program,
                log=log,
                answer=answer.letter,
                confidence=answer.confidence,
            )
        if attempt.prompt_kind != "bug_fix":
            if shows == "log":
                raise _UnknownPrompt(_NO_LOG)
            log = ""
        return refinement_prompt(
            cast(Refinement, attempt.prompt_kind),
            question,
            program,
            log=log,
            result=""
            if shows == "program"
            else prompts.result_line(shown_answer(question, answer), answer.confidence),
            reference=self._reference(trace),
        )

    def _native(self, trace: Trace, attempt: Round) -> str:
        subtitles = self._method.get("subtitles")
        if self._method.get("name") != "native" or subtitles is None:
            raise _UnknownPrompt(
                "traces hold no prompts, and this run did not record how its model was asked"
            )
        if subtitles != "none" and not _has_no_subtitles(trace):
            raise _UnknownPrompt("it contained subtitle lines, which traces do not hold")
        calls = attempt.execution.calls if attempt.execution is not None else ()
        question = _question(trace)
        official = self._protocol.answer_prompt
        turns = [self._method.get("system") or (official.system if official is not None else "")]
        if official is None:
            turns.append(_direct(question))
        else:
            times = [frame[0] for call in calls for frame in call.frames]
            turns += [official.fill(question, (), len(times), times), official.prefill]
        return "\n\n".join(turn for turn in turns if turn)

    @property
    def _file(self) -> PromptFile | None:
        """The user's prompts: the run's own, or those that its planner recorded of itself."""
        texts = self._method.get("prompts")
        if (
            texts is None
            and self._method.get("planner") == "self"
            and self._method["planner_prompt"] == "auto"
        ):
            texts = self._model.get("prompts")
        if texts is None:
            return None
        try:
            return PromptFile(texts, "of the run")
        except ConfigError as error:
            raise _UnknownPrompt(f"the prompts that the run recorded are broken: {error}") from error

    @property
    def _is_short(self) -> bool:
        """Whether the planner was asked without the API reference and examples, as one trained on that."""
        planner = str(self._method.get("planner"))
        if planner.startswith("server:"):
            return bool(self._method["planner_prompt"] == "short")
        if planner != "self":
            return False
        trained = ("adapter", "adapter_model", "planner_prompt")
        adapted = any(self._model.get(name) for name in trained)
        return (
            adapted if self._method["planner_prompt"] == "auto" else self._method["planner_prompt"] == "short"
        )

    def _reference(self, trace: Trace) -> str:
        file = self._file
        if self._is_short if file is None else API in file.texts:
            return ""
        if self._method.get("subtitles") == "none":
            subtitles = False
        elif trace.error is not None:
            raise _UnknownPrompt(
                "it listed the functions that the video allows, and a trace that ended with an error does "
                "not say whether its video has subtitles"
            )
        else:
            subtitles = not _has_no_subtitles(trace)
        return _api_reference(
            self._needs(subtitles),
            frozenset(self._method.get("without", ())),
            self._method.get("clip_times", "video"),
            is_open=not trace.choices,
        )

    def _needs(self, subtitles: bool) -> frozenset[str]:
        """What the modules had: as `ModuleModels.context` provides it."""
        parts = ("encoder", "text_encoder", "ocr", "detector", "tracker")
        given: dict[str, Any] = {part: self._method[part] for part in parts if part in self._method}
        # Which models stand for "auto" depends on the backbone, but not whether there are any.
        names = ModuleSettings(**given).resolved(is_pocket=False)
        has = {
            "index": names["encoder"] != "none",
            "subtitles": subtitles,
            "ocr": names["ocr"] != "none",
            "detector": names["detector"] != "none",
            "tracker": names["tracker"] != "none"
            and (names["detector"] != "none" or names["tracker"] != "detector"),
        }
        return frozenset(need for need, is_there in has.items() if is_there)


@lru_cache(maxsize=16)
def _api_reference(
    needs: frozenset[str], without: frozenset[str], clip_times: ClipTimes, *, is_open: bool
) -> str:
    known = [
        module
        for module in modules_for(is_open=is_open).values()
        if module.family not in without and set(module.needs) <= needs
    ]
    return api_reference(known, clip_times)


def _direct(question: Question) -> str:
    """The prompt that asks the model directly."""
    if question.is_open:
        return prompts.open_ended(question.text)
    return prompts.multiple_choice(question)


def _question(trace: Trace) -> Question:
    try:
        return Question(trace.question, trace.choices, is_open=not trace.choices)
    except QuestionError as error:
        raise _UnknownPrompt(f"the trace's question is none that could be asked: {error}") from error


def _has_no_subtitles(trace: Trace) -> bool:
    return any(note.startswith(NO_SUBTITLES) for note in trace.notes)
