"""What is wrong in a protocol that a file of one's own describes.

Python checks no types: without this, a misspelt value would be taken for another one, and a text in the place
of a tuple for its letters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, get_args, get_origin, get_type_hints

from videopro.benchmarks.protocol import SLOTS, AnswerPrompt, JudgePrompt, Metric, Protocol
from videopro.cli import did_you_mean


def protocol_problems(protocol: Protocol) -> Iterator[str]:
    """What is wrong in a protocol, each with the fix."""
    yield from _unknown_values(protocol, "")
    for name, kind, element in (("groups", "texts", str), ("metrics", "Metric(...)", Metric)):
        yield from _not_a_tuple(getattr(protocol, name), name, kind, element)
    for name, prompt in (("answer_prompt", AnswerPrompt), ("judge", JudgePrompt)):
        value = getattr(protocol, name)
        if not (value is None or isinstance(value, prompt)):
            yield f"{name} is {value!r}; it must be {prompt.__name__}(...)"
    if isinstance(protocol.answer_prompt, AnswerPrompt):
        for slot in protocol.answer_prompt.unknown_slots():
            yield f"the prompt has no slot {{{slot}}}; {did_you_mean(slot, SLOTS)}"
    for metric in protocol.metrics if isinstance(protocol.metrics, tuple) else ():
        if isinstance(metric, Metric):
            yield from _metric_problems(metric, has_judge=protocol.judge is not None)


def _metric_problems(metric: Metric, *, has_judge: bool) -> Iterator[str]:
    where = f"metric {metric.name!r}: "
    yield from _unknown_values(metric, where)
    yield from _not_a_tuple(metric.of, f"{where}of", "texts", str)
    if metric.kind in ("grade", "judged") and not has_judge:
        yield f"{where}is of a judge's grades; give the protocol a judge"
    if metric.at is not None and metric.kind != "grounding":
        yield f"{where}at is {metric.at!r}; only a metric of kind 'grounding' has one"
    if (metric.of or metric.kind == "macro") and not metric.over:
        yield f"{where}needs over, the kind of its groups"


def _unknown_values(value: Protocol | Metric, where: str) -> Iterator[str]:
    for name, choices in _CHOICES[type(value)].items():
        setting = getattr(value, name)
        if setting not in choices:
            yield f"{where}{name} is {setting!r}; {did_you_mean(str(setting), choices)}"


def _choices(kind: type) -> Mapping[str, tuple[str, ...]]:
    """The fields of a class that take one of several values, with these."""
    hints = get_type_hints(kind).items()
    return {name: get_args(hint) for name, hint in hints if get_origin(hint) is Literal}


# Looked up once: a benchmark's own parser checks a protocol for each reply.
_CHOICES = {kind: _choices(kind) for kind in (Protocol, Metric)}


def _not_a_tuple(value: object, name: str, kind: str, element: type) -> Iterator[str]:
    if not isinstance(value, tuple) or not all(isinstance(entry, element) for entry in value):
        yield f"{name} is {value!r}; it must be a tuple of {kind}, such as (x,) for one"
