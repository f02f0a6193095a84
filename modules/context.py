"""Global context: what the transcript of the whole video says about a question (section 3.2, A.1).

A short transcript is returned in full. A longer one is summarized by the backbone, over the full transcript
as in the paper.
"""

from __future__ import annotations

from collections.abc import Sequence

from videopro.backbones import Sampling
from videopro.modules.calls import (
    CallContext,
    Choices,
    OptionalChoices,
    PositiveSeconds,
    Segment,
    Text,
    WordCount,
    module,
)
from videopro.modules.errors import NotFoundError, written_text
from videopro.modules.search import search_tokens
from videopro.question import Question, prompts
from videopro.video import SubtitleLine

TRANSCRIPT_WORDS = 16_000
"""The longest transcript in the model's prompt."""


@module(family="context", needs=("subtitles",))
def get_subtitle_hints(
    call: CallContext,
    video: Segment,
    question: Text,
    choices: Choices,
    duration: PositiveSeconds | None = None,
    word_number: WordCount = 300,
) -> str:
    """Tell what the subtitles of the whole video say that bears on a question, in about `word_number` words:
    for the story as a whole, or facts that are only spoken. `duration` limits it to the first so many
    seconds.

    Returns a text to pass on as context, as in `query_mc(frames, question, choices, context=hints)`.
    """
    return _hints(call, video, Question(question, choices), duration, word_number)


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
    return _hints(call, video, full_question, duration, word_number)


def _hints(
    call: CallContext, video: Segment, question: Question, duration: float | None, word_number: int
) -> str:
    """What the subtitles say that bears on a question; see `get_subtitle_hints`."""
    assert call.context.subtitles is not None
    end = video.end if duration is None else min(video.end, video.start + duration)
    lines: Sequence[SubtitleLine] = call.context.subtitles.between(video.start, end)
    if not lines:
        raise NotFoundError(
            f"get_subtitle_hints(): nothing is said within {video.start:.1f}-{end:.1f} s about "
            f"{question.text!r}; use what is seen instead"
        )
    if _word_count(lines) <= word_number:
        call.confidence = call.context.lines_confidence
        return _text(lines)
    if not call.context.can_summarize:
        call.confidence = call.context.lines_confidence
        return _text(_relevant_lines(call, lines, question, word_number))
    if _word_count(lines) > TRANSCRIPT_WORDS:
        lines = _relevant_lines(call, lines, question, TRANSCRIPT_WORDS)
    reply = call.context.backbone.generate(
        # A token is about three quarters of a word; doubled, so that long names do not cut a summary off.
        None,
        prompts.summarize(question, _text(lines), word_number),
        Sampling(max(64, word_number * 8 // 3)),
    )
    call.confidence = reply.confidence
    return written_text(reply)


def _relevant_lines(
    call: CallContext, lines: Sequence[SubtitleLine], question: Question, max_words: int
) -> list[SubtitleLine]:
    """The lines that best match the question and its options, up to `max_words` words in total (but at least
    one line), in order of time. NotFoundError if none matches."""
    assert call.context.search is not None
    # With the options, whose words the narrator may use and the question does not.
    query = " ".join((question.text, *question.choices))
    allowed = set(lines)
    chosen: set[SubtitleLine] = set()
    words_left = max_words
    for number, _ in call.context.search.rank(query):
        line = call.context.search.lines[number]
        size = _word_count([line])
        if line in allowed and line not in chosen and (size <= words_left or not chosen):
            chosen.add(line)
            words_left -= size
    if not chosen:
        raise NotFoundError(f"get_subtitle_hints(): no subtitle line has to do with {query!r}")
    return [line for line in lines if line in chosen]


def _word_count(lines: Sequence[SubtitleLine]) -> int:
    return sum(len(search_tokens(line.text)) for line in lines)


def _text(lines: Sequence[SubtitleLine]) -> str:
    return "\n".join(line.text for line in lines)
