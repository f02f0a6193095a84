"""The tools. Their names, annotations and docstrings are what a language model reads, here and over MCP; none
names another tool, which may not be offered."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from videopro.modules import ArgumentError
from videopro.modules.calls import frame_refs
from videopro.modules.calls.arguments import MAX_TEXT
from videopro.modules.tools.calling import Tool, ToolCall, tool_of
from videopro.modules.tools.images import SIDE, encoded, fitted
from videopro.modules.tools.results import (
    Answer,
    Boxes,
    Clips,
    Frames,
    FrameText,
    Lines,
    LocatedBox,
    Texts,
    Transcript,
)
from videopro.question import LETTERS
from videopro.storage import InvalidJson, parse_json
from videopro.video import uniform_times

MOST_FRAMES = 32
"""Frames of one call."""
MOST_IMAGE_BYTES = 8_000_000
"""Of all images of one call, in base64."""
_DIGITS = 4


def _as_list(value: Any) -> Any:
    # Some models write a list as a text, or a single number in place of one.
    with suppress(InvalidJson):
        value = parse_json(value) if isinstance(value, str) else value
    return [value] if isinstance(value, int | float) else value


Text = Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]
Start = Annotated[float, Field(ge=0, description="seconds; default: the beginning")]
End = Annotated[float, Field(gt=0, description="seconds; default: the end")]
Times = Annotated[
    list[Annotated[float, Field(ge=0)]],
    Field(min_length=1, max_length=MOST_FRAMES, description="times of frames in seconds"),
    BeforeValidator(_as_list),
]
Box = Annotated[
    list[Annotated[float, Field(ge=0, le=1)]],
    Field(min_length=4, max_length=4, description="part to enlarge, [x0, y0, x1, y1] as shares, 0 to 1"),
    BeforeValidator(_as_list),
]
Choices = Annotated[
    list[Text],
    Field(max_length=len(LETTERS), description="answers to choose from; default: answer in words"),
    BeforeValidator(_as_list),
]
TopK = Annotated[int, Field(ge=1, le=100, description="most results")]


def search(
    call: ToolCall,
    query: Annotated[Text, Field(description="what is visible, in a few words")],
    top_k: TopK = 3,
    start: Start | None = None,
    end: End | None = None,
) -> Clips:
    """Find the clips (10 seconds each) that show what `query` describes."""
    part = call.part(start, end)
    _, clips = call.module("get_informative_clips", video=part, query=query, top_k=top_k) or ((), ())
    for clip in clips:
        call.found("interval", clip.start, clip.end)
    return Clips.model_validate({"clips": clips}, from_attributes=True)


def look(
    call: ToolCall,
    times: Times | None = None,
    start: Start | None = None,
    end: End | None = None,
    count: Annotated[int, Field(ge=1, le=MOST_FRAMES, description="frames, if no times are given")] = 8,
    box: Box | None = None,
    side: Annotated[int, Field(ge=16, le=2048, description="longer side of an image in pixels")] = SIDE,
    format: Literal["jpeg", "png"] = "jpeg",
) -> Frames:
    """See frames as images: those at `times`, or `count` spread evenly from `start` to `end`. Give a `box` to
    enlarge a detail."""
    if times and (start is not None or end is not None):
        raise ArgumentError("look(): give either times, or start and end")
    part = call.part(start, end)
    handles = [call.frame(time, box) for time in times or uniform_times(part.start, part.end, count)]
    video, frames, size = call.context.video, [], 0
    decoded = call.looking.decode(handles, fitted(video.height, video.width, side))
    call.looking.frame_refs += frame_refs(decoded.values())
    for handle, frame in decoded.items():
        image = encoded(frame, side, format)
        if (size := size + len(image["data"])) > MOST_IMAGE_BYTES:
            raise ArgumentError(
                f"look(): {len(decoded)} images of this size have more than {MOST_IMAGE_BYTES // 10**6} MB; "
                "ask for fewer frames, a smaller side, or format jpeg"
            )
        call.images.append({"time": round(handle.time, 3), **image})
        frames.append({**call.images[-1], "subtitles": handle.subtitles})
    call.looked(box)
    return Frames.model_validate({"frames": frames})


def read_text(call: ToolCall, times: Times, box: Box | None = None) -> Texts:
    """Read the text in frames by OCR. Give a `box` to read small text."""
    handles, texts = [call.frame(time, box) for time in times], []
    for number, handle in enumerate(handles):
        call.tell("reading", number, len(handles))
        text, time = call.module("run_ocr", frame=handle), round(handle.time, 3)
        texts.append(FrameText(time=time, text=text))
        if text:
            call.found("text", time, time, time=time, box=box, text=text)
    return Texts(texts=texts)


def subtitles(
    call: ToolCall,
    query: Annotated[Text, Field(description="words that may be spoken")],
    top_k: TopK = 5,
    start: Start | None = None,
    end: End | None = None,
) -> Lines:
    """Find the subtitle lines that are about `query`."""
    part = call.part(start, end)
    lines = call.module("get_informative_subtitles", video=part, query=query, top_k=top_k) or []
    return Lines.model_validate({"lines": _noted(call, lines)}, from_attributes=True)


def transcript(
    call: ToolCall,
    start: Start | None = None,
    end: End | None = None,
    limit: Annotated[int, Field(ge=1, le=1000, description="most lines")] = 100,
) -> Transcript:
    """Read everything that is said in a part of the video, in order."""
    part, given = call.part(start, end), call.context.subtitles
    lines = [] if given is None else given.between(part.start, part.end)
    shown = {"lines": _noted(call, lines[:limit]), "left_out": max(0, len(lines) - limit)}
    return Transcript.model_validate(shown, from_attributes=True)


def _noted(call: ToolCall, lines: Any) -> Any:
    for line in lines:
        call.found("subtitle", line.start, line.end, text=line.text)
    return lines


def locate(
    call: ToolCall,
    text: Annotated[Text, Field(description="the thing to find, such as: a red car")],
    times: Times,
    threshold: Annotated[float, Field(ge=0, le=1, description="lowest score of a box")] = 0.5,
) -> Boxes:
    """Find where a thing is in frames: boxes with scores."""
    handles, boxes = [call.frame(time) for time in times], []
    for number, handle in enumerate(handles):
        call.tell("looking", number, len(handles))
        time = round(handle.time, 3)
        for found in call.module("detect_object", frame=handle, text=text, box_threshold=threshold):
            sides = zip((found.x0, found.y0, found.x1, found.y1), handle.size * 2, strict=True)
            box = [round(min(max(side / whole, 0.0), 1.0), _DIGITS) for side, whole in sides]
            boxes.append(LocatedBox(time=time, box=box, label=found.label, score=found.score))
            call.found("box", time, time, time=time, box=box, text=found.label)
    return Boxes(boxes=boxes)


def ask(call: ToolCall, question: Text, choices: Choices | None = None) -> Answer:
    """Ask a video model about the whole video. Returns its answer with a confidence and evidence."""
    options = {"choices": choices} if choices else {}
    reply = call.module(
        "query_native", is_open=not choices, video=call.context.handle, question=question, **options
    )
    call.looked()
    letter = reply.answer if reply.choices and reply.answer else None
    return Answer(
        answer=reply.choices[LETTERS.index(letter)] if letter else reply.raw_output.strip(),
        letter=letter,
        confidence=round(reply.confidence, _DIGITS),
        probabilities={each: round(share, _DIGITS) for each, share in reply.letters.items()},
        evidence=call.evidence,
    )


TOOLS: dict[str, Tool] = {
    tool.name: tool
    for tool in (
        tool_of(search, "index"),
        tool_of(look),
        tool_of(read_text, "ocr"),
        tool_of(subtitles, "subtitles"),
        tool_of(transcript, "subtitles"),
        tool_of(locate, "detector"),
        tool_of(ask, "model"),
    )
}
