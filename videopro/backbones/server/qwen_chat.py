"""Turns Qwen chat messages (text, image and video parts) into those of an OpenAI-compatible chat request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import numpy as np
from PIL import Image, UnidentifiedImageError

from videopro.backbones.control_tokens import escape_control_tokens
from videopro.backbones.server.messages import (
    EncodedFrames,
    Messages,
    check_budget,
    encode_frames,
    image_part,
    jpeg,
    sent_size,
    visual_parts,
)
from videopro.errors import BackboneError, VideoError
from videopro.video import Video, distinct_frames, fps_times, uniform_times

# qwen-vl-utils' default for frame lists and videos without a rate.
DEFAULT_SAMPLE_FPS = 2.0
# Sources that are passed to the server as they are.
_ADDRESSES = ("http://", "https://", "data:")


def has_video(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a part is a video."""
    return any(
        isinstance(part, Mapping) and ("video" in part or part.get("type") == "video")
        for message in messages
        if not isinstance(message.get("content"), str)
        for part in message.get("content") or ()
    )


def from_qwen(messages: Sequence[Mapping[str, Any]], *, as_video: bool, frames: int, pixels: int) -> Messages:
    """Convert ordinary Qwen chat messages to OpenAI ones; local images and videos are read here.

    A video part is a file (`fps`, `nframes`, `max_frames`, `video_start`, `video_end` as in qwen-vl-utils; at
    most `frames` frames, spread evenly if `fps` would give more) or a list of images (`sample_fps`).
    `max_pixels`, by default `pixels`, bounds each image or frame. URLs (http, https, data) are passed to the
    server unchanged. A request with more than one video sends frames, because a server takes one set of times
    per request.

    Raises `BackboneError` for a part of unknown type or an image that cannot be read, `VideoError` for a
    video that cannot be read.
    """
    turns: list[tuple[str, str | list[dict[str, Any] | EncodedFrames]]] = []
    for message in messages:
        content = message.get("content")
        if "role" not in message or not isinstance(content, str | list | tuple):
            raise BackboneError(f"a chat message needs 'role' and 'content', not {sorted(message)}")
        if isinstance(content, str):
            turns.append((message["role"], escape_control_tokens(content)))
        else:
            turns.append((message["role"], [_read_part(part, frames, pixels) for part in content]))

    parts_of_all = [part for _, content in turns if not isinstance(content, str) for part in content]
    videos = [part for part in parts_of_all if isinstance(part, EncodedFrames) and len(part.jpegs) > 1]
    addresses = [part for part in parts_of_all if isinstance(part, dict) and part["type"] == "video_url"]
    as_video = as_video and len(videos) == 1 and not addresses

    out: list[dict[str, Any]] = []
    extra_body: dict[str, Any] = {}
    for role, content in turns:
        if isinstance(content, str):
            out.append({"role": role, "content": content})
            continue
        parts: list[dict[str, Any]] = []
        for part in content:
            if isinstance(part, EncodedFrames):
                more, times = visual_parts(part, as_video)
                parts += more
                extra_body.update(times)
            else:
                parts.append(part)
        out.append({"role": role, "content": parts})
    return Messages(out, extra_body)


def _read_part(part: Any, frames: int, pixels: int) -> dict[str, Any] | EncodedFrames:
    if isinstance(part, str):
        return {"type": "text", "text": escape_control_tokens(part)}
    kind = part.get("type") or next((key for key in ("text", "image", "video") if key in part), None)
    if kind == "text" and isinstance(part.get("text"), str):
        return {"type": "text", "text": escape_control_tokens(part["text"])}
    pixels = int(part.get("max_pixels") or pixels)
    if kind in ("image", "image_url"):
        return _read_image(_address(part, kind), pixels)
    if kind in ("video", "video_url"):
        return _read_video(_address(part, kind), part, frames, pixels)
    raise BackboneError(f"a chat message part of kind {kind!r} is not known; use text, image or video")


def _address(part: Mapping[str, Any], kind: str) -> Any:
    value = part.get(kind, part.get(kind.removesuffix("_url")))
    return value.get("url") if isinstance(value, Mapping) else value


def _read_image(source: Any, pixels: int) -> dict[str, Any]:
    if isinstance(source, str) and source.startswith(_ADDRESSES):
        return {"type": "image_url", "image_url": {"url": source}}
    return image_part(jpeg(_picture(source), pixels))


def _picture(source: Any) -> np.ndarray | Image.Image:
    if isinstance(source, np.ndarray | Image.Image):
        return source
    if hasattr(source, "image") and hasattr(source, "time"):
        image: np.ndarray = source.image
        return image
    if not isinstance(source, str | Path):
        raise BackboneError(f"an image must be a path, a URL, an array or a PIL image, not {source!r}")
    path = _local(source)
    try:
        with Image.open(path) as picture:
            return picture.convert("RGB")
    except (OSError, UnidentifiedImageError) as error:
        raise BackboneError(f"image {path} cannot be read: {error}") from None


def _local(source: str | Path) -> Path:
    text = str(source)
    return Path(unquote(urlparse(text).path)) if text.startswith("file://") else Path(text)


def _read_video(
    source: Any, part: Mapping[str, Any], frames: int, pixels: int
) -> dict[str, Any] | EncodedFrames:
    if isinstance(source, str) and source.startswith(_ADDRESSES):
        return {"type": "video_url", "video_url": {"url": source}}
    if isinstance(source, list | tuple):
        return _listed_frames(source, part, frames, pixels)
    if not isinstance(source, str | Path):
        raise BackboneError(f"a video must be a path, a URL or a list of images, not {source!r}")

    video = Video.open(_local(source))
    start = float(part.get("video_start") or 0.0)
    end = min(float(part.get("video_end") or video.duration), video.duration)
    if not 0 <= start < end:
        raise VideoError(
            f"{video.path}: no time between {start:g} s and {end:g} s; it lasts {video.duration:g} s"
        )
    if part.get("nframes"):
        times = uniform_times(start, end, int(part["nframes"]))
    else:
        cap = min(int(part.get("max_frames") or frames), frames)
        times = fps_times(start, end, float(part.get("fps") or DEFAULT_SAMPLE_FPS), cap)
    check_budget(len(times), frames)
    distinct = distinct_frames(video.frames(times, size=sent_size(video.height, video.width, pixels)))
    return encode_frames(distinct, pixels)


def _listed_frames(source: Sequence[Any], part: Mapping[str, Any], frames: int, pixels: int) -> EncodedFrames:
    check_budget(len(source), frames)
    if not source:
        raise BackboneError("a video part has an empty list of images")
    rate = float(part.get("sample_fps") or DEFAULT_SAMPLE_FPS)
    pictures = [_picture(item) for item in source]
    return EncodedFrames(
        jpegs=tuple(jpeg(picture, pixels) for picture in pictures),
        times=tuple(float(getattr(item, "time", index / rate)) for index, item in enumerate(source)),
        fits_video=len({np.asarray(picture).shape[:2] for picture in pictures}) == 1,
    )
