"""Global context: what the transcript of the whole video says that bears on a question (section 3.2, A.1).

A transcript that is short enough is given as it is; a longer one is summed up by the backbone as in the
paper, over the full transcript.
"""

from __future__ import annotations

from collections.abc import Sequence

from videopro import prompts
from videopro.backbones.base import Sampling
from videopro.modules.calls import CallContext, Choices, Count, PositiveSeconds, Segment, Text, module
from videopro.modules.errors import NotFoundError
from videopro.modules.search import search_tokens
from videopro.question import Question
from videopro.video import SubtitleLine


@module(family="context", needs=("subtitles",))
def get_subtitle_hints(
    call: CallContext,
    video: Segment,
    question: Text,
    choices: Choices,
    duration: PositiveSeconds | None = None,
    word_number: Count = 300,
) -> str:
    """Tell what the subtitles of the whole video say that bears on a question, in about `word_number` words:
    for the story as a whole, or facts that are only spoken. `duration` limits it to the first so many
    seconds.

    Returns a text to pass on as context, as in `query_mc(frames, question, choices, context=hints)`.
    """
    assert call.context.subtitles is not None
    end = video.end if duration is None else min(video.end, video.start + duration)
    lines: Sequence[SubtitleLine] = call.context.subtitles.between(video.start, end)
    if not lines:
        raise NotFoundError(
            f"get_subtitle_hints(): nothing is said within {video.start:.1f}-{end:.1f} s about {question!r}; "
            "use what is seen instead"
        )
    if _length(lines) <= word_number:
        return _text(lines)
    asked = Question(question, choices)
    if not call.context.can_summarize:
        return _text(_relevant(call, lines, asked, word_number))
    if _length(lines) > call.context.transcript_words:
        lines = _relevant(call, lines, asked, call.context.transcript_words)
    reply = call.context.backbone.generate(
        # A token is three quarters of a word or so; twice that, so that no summary is cut off by a long name.
        None,
        prompts.summarize(asked, _text(lines), word_number),
        Sampling(max(64, word_number * 8 // 3)),
    )
    return reply.text.strip()


def _relevant(
    call: CallContext, lines: Sequence[SubtitleLine], question: Question, most: int
) -> list[SubtitleLine]:
    """The lines that fit the question and its options best, as many as make up `most` words (one at least),
    in order of time. NotFoundError if none fits."""
    assert call.context.search is not None
    every = call.context.search.lines
    asked = " ".join((question.text, *question.choices))
    among = set(lines)
    kept: dict[SubtitleLine, None] = {}
    left = most
    for number, _ in call.context.search.rank(asked):
        line = every[number]
        size = len(search_tokens(line.text))
        if line in among and line not in kept and (size <= left or not kept):
            kept[line] = None
            left -= size
    if not kept:
        raise NotFoundError(f"get_subtitle_hints(): no subtitle line has to do with {asked!r}")
    return [line for line in lines if line in kept]


def _length(lines: Sequence[SubtitleLine]) -> int:
    return sum(len(search_tokens(line.text)) for line in lines)


def _text(lines: Sequence[SubtitleLine]) -> str:
    return "\n".join(line.text for line in lines)
