"""The forms of modules for open questions: answers in words, with Eq. 2 over all of their tokens.

An open question has no options, so a program's `choices` are an empty list. Planners that were trained on
questions with options pass it nevertheless, and these forms accept it. `query_frames`, `query_yn` and
`query_count` are the same for every question.
"""

from __future__ import annotations

from videopro.modules.answering import answer_in_words, choose, make_result
from videopro.modules.calls import (
    AnswerHandle,
    AnyValue,
    CallContext,
    FrameHandle,
    Frames,
    NoChoices,
    OptionalChoices,
    OptionalText,
    PositiveSeconds,
    Segment,
    Text,
    WordCount,
    module,
)
from videopro.modules.context import hints
from videopro.question import Question
from videopro.video import uniform_times


@module(family="answering", open_form_of="query_native")
def query_native_in_words(
    call: CallContext, video: Segment, question: Text, choices: NoChoices = ()
) -> AnswerHandle:
    """Answer an open question in a few words directly from frames over the whole video, in a single look.

    Returns an answer that reads as its text, with a confidence; the answer itself may be returned.
    """
    times = uniform_times(video.start, video.end, call.context.backbone.frames)
    frames = call.load_frames_for_backbone([FrameHandle(video.video, time) for time in times])
    if choices:
        chosen = Question(question, choices)
        return AnswerHandle(choose(call, frames, chosen, ""), "native", chosen.choices)
    return AnswerHandle(answer_in_words(call, frames, question, ""), "words")


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
    images = call.load_frames_for_backbone(frames)
    if choices:
        chosen = Question(question, choices)
        return AnswerHandle(choose(call, images, chosen, context), "mc", chosen.choices)
    return AnswerHandle(answer_in_words(call, images, question, context), "words")


@module(family="context", needs=("subtitles",), open_form_of="get_subtitle_hints")
def get_subtitle_hints_in_words(
    call: CallContext,
    video: Segment,
    question: Text,
    choices: OptionalChoices = (),
    duration: PositiveSeconds | None = None,
    word_number: WordCount = 300,
) -> str:
    """Tell what the subtitles of the whole video say that bears on a question, in about `word_number` words:
    for the story as a whole, or facts that are only spoken. `duration` limits it to the first so many
    seconds.

    Returns a text to pass on as context, as in `query_frames(frames, question, context=hints)`.
    """
    full_question = Question(question, choices) if choices else Question.open(question)
    return hints(call, video, full_question, duration, word_number)


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
