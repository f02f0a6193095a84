"""The picture of README: what a refined question of the pocket world goes through, drawn from its trace.

launch/pictures.py calls it with a run that has the question. Every value in the picture is the trace's own.
"""

from __future__ import annotations

import base64
import io
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from videopro import benchmarks
from videopro.benchmarks import Item
from videopro.cli import read_yaml
from videopro.runs import RunFolder
from videopro.traces import Call, Round, Trace
from videopro.video import Video, uniform_times

QUESTION = "test_long_015_spoken"
"""About 17 minutes of video, with a subtitle that is found, and one refinement. No OCR: what it reads in a
picture may be other letters with another version of its library."""

WIDTH, HEIGHT, MARGIN, COLUMN = 960, 614, 28, 434
STRIP, STRIP_FRAMES = (62, 60), 9
"""The top and height of the row of frames over the whole video, and how many it has."""
FRAME = (230, 138)
FONT = "system-ui,-apple-system,Segoe UI,Helvetica,Arial,sans-serif"
MONOSPACE = "ui-monospace,SFMono-Regular,Menlo,Consolas,DejaVu Sans Mono,monospace"
INK, GREY, LINE, CODE = "#1c1b1a", "#5f5c58", "#d9d6d1", "#155a93"
FIRST, SECOND = "#b0472f", "#1f6b45"


def draw(run: Path) -> str:
    """The picture as SVG. Raises ValueError if the run's trace does not show a refined question."""
    folder = RunFolder(run)
    settings = read_yaml(folder.config)
    item = next(item for item in benchmarks.load("pocket").items if item.id == QUESTION)
    trace = next(trace for trace in folder.read() if trace.question_id == QUESTION)
    if trace.selected != 1 or len(trace.rounds) != 2:
        raise ValueError(f"{QUESTION} has no refinement that answered it: {trace.rounds}")
    video, threshold = Video.open(item.video), settings["identity"]["method"]["tau"]
    parts = [
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="10" fill="#ffffff" stroke="{LINE}"/>',
        _text(MARGIN, 40, item.question.text, size=19, weight=600),
        _text(WIDTH / 2, 141, "     ".join(_choices(item)), size=15, fill=GREY, anchor="middle"),
        *_strip(video, trace),
        *_round(1, trace.rounds[0], item, video, threshold),
        *_round(2, trace.rounds[1], item, video, threshold),
        f'<path d="M{MARGIN + COLUMN + 6} 372 h16 m-7 -7 l8 7 l-8 7" fill="none" stroke="{GREY}" '
        'stroke-width="2.5"/>',
    ]
    title = (
        f"One question about a video of {video.duration // 60:.0f} minutes: the first program looks at the "
        "wrong frames and has low confidence; the refined program looks at the right frames and answers "
        f"{item.question.choice(trace.final.letter)}"
    )
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'height="{HEIGHT}" role="img" aria-labelledby="title">\n<title id="title">{escape(title)}</title>'
    )
    return "\n".join([head, *parts, "</svg>\n"])


def _strip(video: Video, trace: Trace) -> list[str]:
    """Frames over the whole video, with what each round looked at."""
    top, height = STRIP
    width = WIDTH - 2 * MARGIN
    each = width / STRIP_FRAMES
    frames = video.frames(uniform_times(0.0, video.duration, STRIP_FRAMES), size=(90, 150))
    parts = [
        _image(MARGIN + number * each, top, each, height, frame.image) for number, frame in enumerate(frames)
    ]
    parts.append(
        f'<rect x="{MARGIN}" y="{top}" width="{width}" height="{height}" fill="none" stroke="{LINE}"/>'
    )
    for round, colour in zip(trace.rounds, (FIRST, SECOND), strict=True):
        start, end = _looked_at(round)
        left, right = (MARGIN + width * time / video.duration for time in (start, end))
        parts.append(
            f'<rect x="{left:.1f}" y="{top - 3}" width="{max(right - left, 6):.1f}" height="{height + 6}" '
            f'fill="{colour}" fill-opacity=".5" stroke="{colour}" stroke-width="1.5"/>'
        )
    parts.append(_text(MARGIN, 140, "0:00", size=12, fill=GREY))
    parts.append(_text(WIDTH - MARGIN, 140, _clock(video.duration), size=12, fill=GREY, anchor="end"))
    return parts


def _round(number: int, round: Round, item: Item, video: Video, threshold: float) -> list[str]:
    """A column: the steps of a round's program, what each returned, and how sure the answer is."""
    assert round.execution is not None
    answer = round.execution.answer
    is_sure = answer.confidence >= threshold
    colour = SECOND if is_sure else FIRST
    left = MARGIN + (number - 1) * (WIDTH - 2 * MARGIN - COLUMN)
    inside, right = left + 16, left + COLUMN - 16
    heading = "The first program" if number == 1 else "The refined program"
    find, take, ask = round.execution.calls
    looked = _looked_at(round)
    frame = video.frames([looked[0]])[0]
    bar, bar_width = inside + 100, 252.0
    steps = (
        (222, "Find the subtitle", _span(*find.intervals[0]), _call(round, find)),
        (276, "Take frames", _span(*looked), _call(round, take)),
        (
            488,
            "Ask the model about the frames",
            next(choice for choice in _choices(item) if choice.startswith(answer.letter)),
            _call(round, ask),
        ),
    )
    parts = [
        f'<circle cx="{left + 12}" cy="170" r="12" fill="{colour}"/>',
        _text(left + 12, 175, str(number), size=14, weight=700, fill="#fff", anchor="middle"),
        _text(left + 34, 175, heading, size=16, weight=600),
        f'<rect x="{left}" y="194" width="{COLUMN}" height="372" rx="8" fill="#faf9f7" stroke="{LINE}"/>',
    ]
    for y, step, result, call in steps:
        parts.append(_text(inside, y, step, size=15, weight=600))
        parts.append(_text(right, y, result, size=15, weight=600, fill=colour, anchor="end"))
        parts.append(_text(inside, y + 20, call, size=10, fill=CODE, family=MONOSPACE))
    marked = bar + bar_width * threshold
    end = (
        f"Confident: the answer is {answer.letter}."
        if is_sure
        else (f"Below {threshold:g}, so the program is refined.")
    )
    return [
        *parts,
        _image(inside, 316, *FRAME, frame.image),
        f'<rect x="{inside}" y="316" width="{FRAME[0]}" height="{FRAME[1]}" fill="none" stroke="{LINE}"/>',
        _text(inside + FRAME[0] + 14, 334, f"at {_clock(looked[0])}", size=13, fill=GREY),
        _text(inside, 536, "Confidence", size=15, weight=600),
        *(
            f'<rect x="{bar}" y="526" width="{bar_width * share:.1f}" height="10" rx="5" fill="{fill}"/>'
            for share, fill in ((1.0, "#e8e5e0"), (answer.confidence, colour))
        ),
        f'<line x1="{marked}" y1="521" x2="{marked}" y2="541" stroke="{INK}" stroke-width="1.5"/>',
        _text(marked, 555, f"{threshold:g}", size=12, fill=GREY, anchor="middle"),
        _text(right, 536, f"{answer.confidence:.3f}", size=15, weight=600, fill=colour, anchor="end"),
        _text(left, 594, end, size=14.5, weight=600, fill=colour),
    ]


def _choices(item: Item) -> list[str]:
    return [f"{letter}  {choice}" for letter, choice in zip("ABCDEFGH", item.question.choices, strict=False)]


def _looked_at(round: Round) -> tuple[float, float]:
    """The times in seconds of the first and the last frame that the model was asked about."""
    assert round.execution is not None
    times = [frame[0] for frame in round.execution.calls[-1].frames]
    return min(times), max(times)


def _call(round: Round, call: Call) -> str:
    """The call as the program has it."""
    assert round.program is not None
    assert call.line is not None
    line = round.program.splitlines()[call.line - 1]
    return line[line.index(f"{call.fn}(") :]


def _span(start: float, end: float) -> str:
    first, last = _clock(start), _clock(end)
    return first if first == last else f"{first}–{last}"


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def _image(left: float, top: float, width: float, height: float, image: np.ndarray) -> str:
    file = io.BytesIO()
    Image.fromarray(image).save(file, "JPEG", quality=74, optimize=True)
    data = base64.b64encode(file.getvalue()).decode()
    return (
        f'<image x="{left:.1f}" y="{top}" width="{width:.1f}" height="{height}" '
        f'preserveAspectRatio="xMidYMid slice" href="data:image/jpeg;base64,{data}"/>'
    )


def _text(x: float, y: float, text: str, *, size: float, **style: Any) -> str:
    """One line of text; `x` is its start unless `anchor` says otherwise."""
    return (
        f'<text x="{x:g}" y="{y}" font-family="{style.get("family", FONT)}" font-size="{size:g}" '
        f'fill="{style.get("fill", INK)}" font-weight="{style.get("weight", 400)}" '
        f'text-anchor="{style.get("anchor", "start")}" xml:space="preserve">{escape(text)}</text>'
    )
