"""Reasoning and answers: questions to the backbone about the video or frames, with its confidence (Eq. 2).

Confidence comes from these calls only; `make_result` records what a program claims.
"""

from __future__ import annotations

from dataclasses import replace

from videopro.backbones import YES_NO, ChoiceRequest, Sampling, YesNoRequest
from videopro.modules.calls import (
    AnswerHandle,
    AnyValue,
    CallContext,
    Choices,
    Count,
    FrameHandle,
    Frames,
    OptionalText,
    Segment,
    Text,
    abbreviate,
    module,
)
from videopro.modules.errors import ArgumentError
from videopro.question import Answer, Question, prompts
from videopro.video import Frame, uniform_times

WORDS_IN_REPLY = 64
"""The longest answer in words, in tokens."""


@module(family="answering")
def query_native(call: CallContext, video: Segment, question: Text, choices: Choices) -> AnswerHandle:
    """Answer a multiple-choice question directly from frames over the whole video, in a single look.

    Returns an answer: `letter, confidence = query_native(...)`; the answer itself may be returned.
    """
    # As many frames as the model takes: this is the one look at the whole video.
    times = uniform_times(video.start, video.end, call.context.backbone.frames)
    frames = call.load_frames_for_backbone([FrameHandle(video.video, time) for time in times])
    multiple_choice = Question(question, choices)
    return AnswerHandle(choose(call, frames, multiple_choice, ""), "native", multiple_choice.choices)


@module(family="answering")
def query_mc(
    call: CallContext, frames: Frames, question: Text, choices: Choices, context: OptionalText = ""
) -> AnswerHandle:
    """Answer a multiple-choice question from frames that were found. `context` is text to go by: subtitle
    lines, what OCR read, notes.

    Returns an answer: `letter, confidence = query_mc(...)`; the answer itself may be returned.
    """
    multiple_choice = Question(question, choices)
    answer = choose(call, call.load_frames_for_backbone(frames), multiple_choice, context)
    return AnswerHandle(answer, "mc", multiple_choice.choices)


@module(family="answering")
def query_yn(call: CallContext, frames: Frames, question: Text, context: OptionalText = "") -> AnswerHandle:
    """Answer a yes-or-no question about frames.

    Returns an answer that compares with "Yes" and "No", is true for Yes, and has a confidence.
    """
    prompt = prompts.with_context(context, prompts.yes_no(question))
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
    return AnswerHandle(answer_in_words(call, images, question, context), "frames")


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
    answer = choose(call, call.load_frames_for_backbone(frames), question, context)
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
    source = answer if isinstance(answer, AnswerHandle) else None
    if source is not None:
        text = source.answer
    elif answer is None:
        text = ""
    elif isinstance(answer, str):
        text = answer.strip()
    else:
        raise ArgumentError(f"make_result(): answer must be a letter, not {type(answer).__name__}")
    if isinstance(confidence, bool) or not isinstance(confidence, int | float):
        raise ArgumentError(
            f"make_result(): confidence must be a number from 0 to 1, not {type(confidence).__name__}"
        )
    # Clipped to 0..1, before an integer of any size becomes a float; NaN counts as 0.
    claim = float(min(max(confidence, 0), 1)) if confidence == confidence else 0.0
    if isinstance(raw_output, AnswerHandle):
        raw_output = raw_output.raw_output
    claimed = Answer(text or None, claim, raw=abbreviate(str(raw_output), 4000) or text)
    return AnswerHandle(claimed, "result", extra=metadata, source=source)


def answer_in_words(call: CallContext, frames: list[Frame], question: str, context: str) -> Answer:
    """The backbone's answer to an open question, with Eq. 2 over the answer's tokens."""
    prompt = prompts.with_context(context, prompts.open_ended(question))
    reply = call.context.backbone.generate(frames, prompt, Sampling(WORDS_IN_REPLY))
    cut_at = WORDS_IN_REPLY if reply.finish == "length" else None
    return Answer(None, reply.confidence, {}, reply.text, reply.tokens_in, reply.tokens_out, cut_at)


def choose(call: CallContext, frames: list[Frame], question: Question, context: str) -> Answer:
    """The backbone's choice among a question's options."""
    prompt = prompts.with_context(context, prompts.multiple_choice(question))
    (answer,) = call.context.backbone.answer_batch([ChoiceRequest(frames, question, prompt)])
    return answer
