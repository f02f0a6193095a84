"""Reasoning and answers: questions to the backbone about the video or frames, with its confidence (Eq. 2).

Confidence comes from these calls only; `make_result` records what a program claims.

An open question has no options, so a program's `choices` are an empty list. Planners that were trained on
questions with options pass it nevertheless, and the forms of modules for open questions accept it: they
answer in words, with Eq. 2 over all of their tokens.

Programs of the paper's release (Python sources of its runtime API) call two more names: `finalize_result` is
its `make_result`, and `normalize_model_result` turns whatever a query gave (an answer, a mapping, a pair or a
text) into such a result. Here both take all of these. Planners do not read of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from videopro.backbones import YES_NO, ChoiceRequest, Sampling, YesNoRequest
from videopro.modules.calls import (
    AnswerHandle,
    AnyValue,
    CallContext,
    Choices,
    ClipHandle,
    Count,
    FrameHandle,
    Frames,
    NoChoices,
    OptionalChoices,
    OptionalText,
    Segment,
    Text,
    VideoHandle,
    abbreviate,
    module,
    read_claim,
)
from videopro.modules.errors import ArgumentError
from videopro.question import Answer, Question, extract_letter, prompts
from videopro.video import Frame, uniform_times

WORDS_IN_REPLY = 64
"""The longest answer in words, in tokens."""


@module(family="answering")
def query_native(call: CallContext, video: Segment, question: Text, choices: Choices) -> AnswerHandle:
    """Answer a multiple-choice question directly from frames over the whole video, in a single look.

    Returns an answer: `letter, confidence = query_native(...)`; the answer itself may be returned.
    """
    return _answer(call, _whole(call, video), question, choices, "", "native")


@module(family="answering", open_form_of="query_native")
def query_native_in_words(
    call: CallContext, video: Segment, question: Text, choices: NoChoices = ()
) -> AnswerHandle:
    """Answer an open question in a few words directly from frames over the whole video, in a single look.

    Returns an answer that reads as its text, with a confidence; the answer itself may be returned.
    """
    return _answer(call, _whole(call, video), question, choices, "", "native")


@module(family="answering")
def query_mc(
    call: CallContext, frames: Frames, question: Text, choices: Choices, context: OptionalText = ""
) -> AnswerHandle:
    """Answer a multiple-choice question from frames that were found. `context` is text to go by: subtitle
    lines, what OCR read, notes.

    Returns an answer: `letter, confidence = query_mc(...)`; the answer itself may be returned.
    """
    return _answer(call, call.load_frames_for_backbone(frames), question, choices, context, "mc")


@module(family="answering", open_form_of="query_mc")
def query_mc_in_words(
    call: CallContext,
    frames: Frames,
    question: Text,
    choices: OptionalChoices = (),
    context: OptionalText = "",
) -> AnswerHandle:
    """Choose one of the `choices` that you give, from frames that were found; without choices, answer in a
    few words. `context` is text to go by: subtitle lines, what OCR read, notes.

    Returns an answer; the text of the choice counts if it is returned.
    """
    return _answer(call, call.load_frames_for_backbone(frames), question, choices, context, "mc")


@module(family="answering")
def query_yn(call: CallContext, frames: Frames, question: Text, context: OptionalText = "") -> AnswerHandle:
    """Answer a yes-or-no question about frames.

    Returns an answer that compares with "Yes" and "No", is true for Yes, and has a confidence.
    """
    prompt = prompts.with_context(context, prompts.yes_no(question))
    # A batch of one: the backbone joins those of programs that run at the same time.
    (answer,) = call.context.backbone.yes_no_batch(
        [YesNoRequest(call.load_frames_for_backbone(frames), prompt)]
    )
    return AnswerHandle(answer, "yes_no", YES_NO)


@module(family="answering")
def query_frames(
    call: CallContext, frames: Frames, question: Text, context: OptionalText = ""
) -> AnswerHandle:
    """Answer an open question about frames in a few words.

    Returns an answer that reads as its text, with a confidence.
    """
    images = call.load_frames_for_backbone(frames)
    return AnswerHandle(_in_words(call, images, question, context), "frames")


@module(family="answering")
def query_count(
    call: CallContext, frames: Frames, text: Text, most: Count = 9, context: OptionalText = ""
) -> AnswerHandle:
    """Count what `text` names ("people in red") or asks ("How many goals are scored?") over frames, up to
    `most` (1 to 9).

    Returns an answer with the number and its confidence; it compares and adds like the number, `most` meaning
    that many or more.
    """
    if most > 9:
        raise ArgumentError(f"query_count(): most is {most}; it must be 1 to 9")
    # The number is chosen among options, not written: this takes one pass, gives the confidence of a letter,
    # and works with a backbone that can only choose letters.
    numbers = [str(number) for number in range(most)]
    question = Question(prompts.count(text), (*numbers, f"{most} or more"))
    answer = _choice(call, call.load_frames_for_backbone(frames), question, context)
    digit = str(question.letters.index(answer.letter)) if answer.letter else None
    probabilities = {str(i): answer.letters[letter] for i, letter in enumerate(question.letters)}
    return AnswerHandle(replace(answer, letter=digit, letters=probabilities), "count")


@module(family="answering", cache=False)
def make_result(
    call: CallContext,
    /,
    answer: AnyValue = "",
    confidence: AnyValue = 0.0,
    raw_output: AnyValue = "",
    **metadata: AnyValue,
) -> AnswerHandle:
    """Put together a final answer from a letter. The confidence given here is noted as the program's own
    claim; the one that counts comes from the query that gave the letter.

    Returns an answer.
    """
    if isinstance(answer, AnswerHandle):
        read = _Read(answer.answer, source=answer)
    elif answer is None or isinstance(answer, str):
        read = _Read((answer or "").strip())
    else:
        raise ArgumentError(f"make_result(): answer must be a letter, not {type(answer).__name__}")
    if isinstance(confidence, bool) or not isinstance(confidence, int | float):
        raise ArgumentError(
            f"make_result(): confidence must be a number from 0 to 1, not {type(confidence).__name__}"
        )
    return _claim(read, confidence, raw_output, metadata)


@module(family="answering", cache=False, open_form_of="make_result")
def make_result_in_words(
    call: CallContext,
    /,
    answer: AnyValue = "",
    confidence: AnyValue = 0.0,
    raw_output: AnyValue = "",
    **metadata: AnyValue,
) -> AnswerHandle:
    """Put together a final answer from a text. The confidence given here is noted as the program's own claim;
    the one that counts comes from the query that gave the text.

    Returns an answer.
    """
    return make_result(call, answer, confidence, raw_output, **metadata)


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
    metadata = {**reply.metadata, **metadata}
    return _claim(reply, confidence or reply.confidence, raw_output or reply.raw, metadata)


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
    # Yes and No are what query_yn gave, and no options.
    if choices is not None and reply.text not in ("Yes", "No"):
        question = Question("Which?", choices)
        letter = extract_letter(reply.text, question) or extract_letter(reply.raw, question) or ""
        reply = reply._replace(text=letter)
    return _claim(reply, reply.confidence, reply.raw, {**(metadata or {}), **reply.metadata})


def _whole(call: CallContext, video: VideoHandle | ClipHandle) -> list[Frame]:
    # As many frames as the model takes: this is the one look at the whole video.
    times = uniform_times(video.start, video.end, call.context.backbone.frames)
    return call.load_frames_for_backbone([FrameHandle(video.video, time) for time in times])


def _answer(
    call: CallContext, frames: list[Frame], question: str, choices: tuple[str, ...], context: str, mode: str
) -> AnswerHandle:
    # A program passes no choices for an open question only.
    if not choices:
        return AnswerHandle(_in_words(call, frames, question, context), "words")
    multiple_choice = Question(question, choices)
    return AnswerHandle(_choice(call, frames, multiple_choice, context), mode, multiple_choice.choices)


def _choice(call: CallContext, frames: list[Frame], question: Question, context: str) -> Answer:
    prompt = prompts.with_context(context, prompts.multiple_choice(question))
    (answer,) = call.context.backbone.answer_batch([ChoiceRequest(frames, question, prompt)])
    return answer


def _in_words(call: CallContext, frames: list[Frame], question: str, context: str) -> Answer:
    """The backbone's answer to an open question, with Eq. 2 over the answer's tokens."""
    prompt = prompts.with_context(context, prompts.open_ended(question))
    reply = call.context.backbone.generate(frames, prompt, Sampling(WORDS_IN_REPLY))
    # On the record, so that a reply that was cut off is not taken for a short one.
    cut_at = WORDS_IN_REPLY if reply.finish == "length" else None
    return Answer(None, reply.confidence, {}, reply.text, reply.tokens_in, reply.tokens_out, cut_at)


# Where a mapping may hold the reply, in this order.
_REPLIES = ("raw_output", "output_text", "text", "result", "answer")


class _Read(NamedTuple):
    """What was read from a value that a program takes for an answer."""

    text: str = ""
    confidence: Any = 0.0
    raw: str = ""
    metadata: Mapping[str, Any] = {}
    source: AnswerHandle | None = None


def _claim(reply: _Read, confidence: Any, raw: Any, metadata: Mapping[str, Any]) -> AnswerHandle:
    raw = raw.raw_output if isinstance(raw, AnswerHandle) else str(raw or "")
    claimed = Answer(
        reply.text or None, read_claim(confidence) or 0.0, raw=abbreviate(raw or reply.text, 4000)
    )
    return AnswerHandle(claimed, "result", extra=dict(metadata), source=reply.source)


def _read(value: Any, name: str) -> _Read:
    """Raises ArgumentError for a value that holds no answer."""
    if value is None or value in ((), []):
        return _Read()
    if isinstance(value, AnswerHandle):
        return _Read(value.answer, value.confidence, value.raw_output, value.extra, value)
    if isinstance(value, str):
        return _Read(value.strip(), raw=value)
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
        # (answer, confidence, reply), of which all but the first may be missing.
        inner = _read(value[0], name)
        raw = value[2] if len(value) > 2 and isinstance(value[2], str) else inner.raw
        return inner._replace(confidence=value[1] if len(value) > 1 else inner.confidence, raw=raw)
    raise ArgumentError(
        f"{name}(): an answer, a dict with 'answer', a pair or a text is needed, not {type(value).__name__}"
    )
