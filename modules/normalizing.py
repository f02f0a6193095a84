"""Two names that programs of the paper's release call: `finalize_result` and `normalize_model_result`.

In the release (Python sources of its runtime API) the first is `make_result`, and the second turns whatever a
query gave (an answer, a mapping, a pair or a text) into such a result. Here both take all of these. Planners
do not read of them: ours are told of `make_result` only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from videopro.modules.calls import AnswerHandle, AnyValue, CallContext, Choices, abbreviate, module
from videopro.modules.errors import ArgumentError
from videopro.question import Answer, Question, extract_letter

# Where a mapping may hold the reply, in this order.
_REPLIES = ("raw_output", "output_text", "text", "result", "answer")


@dataclass(frozen=True)
class _Read:
    """What was read from a value."""

    text: str = ""
    confidence: Any = 0.0
    raw: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    source: AnswerHandle | None = None


@module(family="answering", cache=False, documented=False)
def finalize_result(
    call: CallContext,
    /,
    answer: AnyValue = "",
    confidence: AnyValue = 0.0,
    raw_output: AnyValue = "",
    **metadata: AnyValue,
) -> AnswerHandle:
    """Put together a final answer, as make_result does, from an answer of a query, a mapping with "answer", a
    pair (answer, confidence) or a text. The confidence, if none is given, is that of the answer.

    Returns an answer.
    """
    reply = _read(answer, "finalize_result")
    raw = raw_output.raw_output if isinstance(raw_output, AnswerHandle) else str(raw_output or "")
    return _claim(reply, confidence or reply.confidence, raw or reply.raw, {**reply.metadata, **metadata})


@module(family="answering", cache=False, documented=False)
def normalize_model_result(
    call: CallContext, result: AnyValue, choices: Choices | None = None, metadata: AnyValue = None
) -> AnswerHandle:
    """Bring what a query gave into the form of an answer: an answer, a mapping with "answer", a pair (answer,
    confidence) or a text. With `choices` its answer is the letter of an option, or "" if it names none.

    Returns an answer.
    """
    if metadata is not None and not isinstance(metadata, Mapping):
        raise ArgumentError(
            f"normalize_model_result(): metadata must be a dict, not {type(metadata).__name__}"
        )
    reply = _read(result, "normalize_model_result")
    if choices is not None and reply.text not in ("Yes", "No"):
        question = Question("Which?", choices)
        letter = extract_letter(reply.text, question) or extract_letter(reply.raw, question) or ""
        reply = _Read(letter, reply.confidence, reply.raw, reply.metadata, reply.source)
    return _claim(reply, reply.confidence, reply.raw, {**(metadata or {}), **reply.metadata})


def _claim(reply: _Read, confidence: Any, raw: str, metadata: Mapping[str, Any]) -> AnswerHandle:
    if isinstance(confidence, bool) or not isinstance(confidence, int | float) or confidence != confidence:
        confidence = 0.0
    claim = float(min(max(confidence, 0), 1))
    claimed = Answer(reply.text or None, claim, raw=abbreviate(raw or reply.text, 4000))
    return AnswerHandle(claimed, "result", extra=dict(metadata), source=reply.source)


def _read(value: Any, name: str) -> _Read:
    """Raises ArgumentError for a value that holds no answer."""
    if isinstance(value, AnswerHandle):
        return _Read(value.answer, value.confidence, value.raw_output, value.extra, value)
    if isinstance(value, Mapping):
        inner = _read(value.get("answer", ""), name)
        raw = next((text for key in _REPLIES if isinstance(text := value.get(key), str) and text), "")
        metadata = value.get("metadata")
        return _Read(
            inner.text or raw.strip(),
            value.get("confidence", value.get("score", inner.confidence)),
            raw or inner.raw,
            metadata if isinstance(metadata, Mapping) else {},
            inner.source,
        )
    if isinstance(value, list | tuple):
        if not value:
            return _Read()
        inner = _read(value[0], name)
        raw = value[2] if len(value) > 2 and isinstance(value[2], str) else inner.raw
        confidence = value[1] if len(value) > 1 else inner.confidence
        return _Read(inner.text, confidence, raw, inner.metadata, inner.source)
    if value is None:
        return _Read()
    if not isinstance(value, str):
        raise ArgumentError(
            f"{name}(): an answer, a dict with 'answer', a pair or a text is needed, not "
            f"{type(value).__name__}"
        )
    return _Read(value.strip(), raw=value)
