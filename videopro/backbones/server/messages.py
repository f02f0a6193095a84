"""Turns frames into the content parts of an OpenAI-compatible chat request.

Frames have two forms:

*Video*: one `video_url` part whose data URL is `data:video/jpeg;base64,` and the frames' JPEGs, joined by
commas. This is vLLM's form for sampled frames; their times are sent with the messages as `media_io_kwargs`
(`frames_indices` over `fps`; vLLM pull requests 37301 and 40133; checked in 0.33.0). The indices count
milliseconds, so Qwen3-VL and newer get every frame's true time, at even and uneven spacing. Older servers,
and Qwen2.5-VL (one interval per video), lose the times; SGLang (checked in 0.5.23) decodes whole files only
and rejects this form. `ServerProfile` detects whether a server keeps the times.

*Frames*: one `image_url` part per frame, each after a `<t seconds>` text, which Qwen3-VL's own processor
writes before the frames of a video. Every server that accepts images supports it; it costs about twice the
visual tokens, because frames are not merged in pairs. (Qwen3-VL's image processor enlarges images below
65,536 pixels unless the request's `extra_body` changes that with `mm_processor_kwargs`.) Frames of several
sizes (crops) always use this form.
"""

from __future__ import annotations

import base64
import math
import re
import secrets
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import simplejpeg
from cachetools import LRUCache
from PIL import Image

from videopro.backbones.base import Interleaved, Sampling, Stills
from videopro.backbones.server.replies import TOP_LOGPROBS
from videopro.backbones.texts import escape_control_tokens
from videopro.errors import BackboneError
from videopro.video import pad_picture, size_to_decode

if TYPE_CHECKING:
    from videopro.video import Frame

# Qwen3-VL (16-pixel patches merged 2 x 2) and newer resize to multiples of this; sending such sizes avoids a
# second resampling at the server.
SIZE_STEP = 32
# With which vLLM and SGLang continue the assistant's last turn instead of beginning another.
CONTINUES: Mapping[str, Any] = {"continue_final_message": True, "add_generation_prompt": False}
# Time steps of `frames_indices` in a second.
TICKS = 1000
# At 95, three of 200 letters of a small model differed from those of the frames themselves (perf/served.py);
# 99 takes 1.7 times the bytes.
JPEG_QUALITY = 99


@dataclass(frozen=True)
class EncodedFrames:
    """Frames as base64 JPEGs with their times in seconds."""

    jpegs: tuple[bytes, ...]
    times: tuple[float, ...]
    fits_video: bool = True
    """Whether they can be a video: all have one size, and belong together (no `Stills`)."""
    texts: tuple[str, ...] = ()
    """The text before each frame; empty without texts (see `Interleaved`)."""


@dataclass(frozen=True)
class Messages:
    """A request's messages, and the extra request fields that they need."""

    messages: list[dict[str, Any]]
    extra_body: dict[str, Any]


Prompted = tuple[Callable[[], Messages], Mapping[str, Any]]
"""A request: what makes its messages, when it is sent, and its other fields."""


def fit_pixels(height: int, width: int, pixels: int) -> tuple[int, int]:
    """(height, width) scaled down to at most `pixels`, aspect ratio kept, in multiples of 32 and at least 32.

    A size that already fits is returned unchanged: nothing is enlarged.
    """
    if height * width <= pixels:
        return height, width
    scale = math.sqrt(pixels / (height * width))
    return (
        max(SIZE_STEP, math.floor(height * scale / SIZE_STEP) * SIZE_STEP),
        max(SIZE_STEP, math.floor(width * scale / SIZE_STEP) * SIZE_STEP),
    )


def sent_size(height: int, width: int, pixels: int) -> tuple[int, int]:
    """(height, width) at which frames of (height, width) pixels are decoded to be sent: as `fit_pixels`,
    unless they need a margin first."""
    return size_to_decode(height, width, fit_pixels(height, width, pixels))


def jpeg(image: np.ndarray, pixels: int) -> bytes:
    """Encode an image, (height, width, 3) uint8, as a base64 JPEG of at most `pixels` pixels, with the margin
    that it needs (`videopro.video.shapes`).

    The bytes are those that Pillow writes, in half the time and without the interpreter's lock: several
    videos' frames are encoded at a time.
    """
    array = pad_picture(image)
    height, width = array.shape[:2]
    size = fit_pixels(height, width, pixels)
    if size != (height, width):
        array = np.asarray(Image.fromarray(array).resize(size[::-1], Image.Resampling.BICUBIC))
    encoded = simplejpeg.encode_jpeg(
        np.ascontiguousarray(array), quality=JPEG_QUALITY, colorsubsampling="444", fastdct=False
    )
    return base64.b64encode(encoded)


# Of decoded frames, which the questions about a video and the rounds of a question share.
_MOST_BYTES = 256 * 2**20
_encoded: LRUCache[tuple[int, int], tuple[weakref.ref[np.ndarray], bytes]] = LRUCache(
    _MOST_BYTES, lambda entry: len(entry[1])
)
_encoding = threading.Lock()


def _jpeg_once(image: np.ndarray, pixels: int) -> bytes:
    """`jpeg`, remembered while the picture's array lives: the address of a dead one may be another's."""
    key = id(image), pixels
    with _encoding:
        ref, encoded = _encoded.get(key, (None, b""))
    if ref is None or ref() is not image:
        encoded = jpeg(image, pixels)
        if not image.flags.writeable and len(encoded) <= _MOST_BYTES:
            with _encoding:
                _encoded[key] = weakref.ref(image), encoded
    return encoded


def encode_frames(frames: Sequence[Frame], pixels: int) -> EncodedFrames:
    """Encode frames once, for any number of requests."""
    return EncodedFrames(
        jpegs=tuple(_jpeg_once(frame.image, pixels) for frame in frames),
        times=tuple(float(frame.time) for frame in frames),
        fits_video=not isinstance(frames, Stills) and len({frame.image.shape for frame in frames}) <= 1,
        texts=frames.texts if isinstance(frames, Interleaved) else (),
    )


def visual_parts(encoded: EncodedFrames, as_video: bool) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The content parts for frames, and the request fields that carry their times. The URL of a video is the
    frames themselves, for `encode_body`.

    A single frame is an image without a time, as in every backbone.
    """
    alone = len(encoded.jpegs) == 1
    if as_video and encoded.fits_video and not alone:
        return [{"type": "video_url", "video_url": {"url": encoded}}], _video_times(encoded.times)
    parts: list[dict[str, Any]] = []
    texts = encoded.texts or ("",) * len(encoded.jpegs)
    for picture, time, before in zip(encoded.jpegs, encoded.times, texts, strict=True):
        text = escape_control_tokens(before) + ("" if alone else f"<{time:.1f} seconds>")
        parts += [*([{"type": "text", "text": text}] if text else []), image_part(picture)]
    return parts, {}


def user_message(
    encoded: EncodedFrames | None,
    text: str,
    as_video: bool,
    *,
    system: str = "",
    prefill: str = "",
    before: str = "",
) -> Messages:
    """One user turn: first the frames, so that requests about them share a prefix, then the text. Before it
    the system turn and after it the beginning of the reply, if they are given. `before`: text that stands
    before the frames, as in prompts of others."""
    content: str | list[dict[str, Any]] = escape_control_tokens(text)
    extra_body: dict[str, Any] = {}
    if encoded is not None and encoded.jpegs:
        parts, extra_body = visual_parts(encoded, as_video)
        if before:
            parts.insert(0, {"type": "text", "text": escape_control_tokens(before)})
        content = [*parts, {"type": "text", "text": content}]
    turns: list[dict[str, Any]] = [{"role": "user", "content": content}]
    if system:
        turns.insert(0, {"role": "system", "content": escape_control_tokens(system)})
    if prefill:
        turns.append({"role": "assistant", "content": escape_control_tokens(prefill)})
        extra_body = {**extra_body, **CONTINUES}
    return Messages(turns, extra_body)


def response_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The request field that asks for a reply that fits a JSON schema (vLLM, SGLang, OpenAI)."""
    name = re.sub(r"[^A-Za-z0-9_-]", "_", str(schema.get("title") or "reply"))[:64]
    return {"type": "json_schema", "json_schema": {"name": name, "schema": dict(schema)}}


def image_part(picture: bytes) -> dict[str, Any]:
    """The content part of a picture, a base64 JPEG."""
    return {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{picture.decode()}"}}


# Stands for a video in a body until it is joined; no text has it.
_PLACE = secrets.token_hex()


def encode_body(fields: Mapping[str, Any]) -> bytes:
    """The JSON of a request. A video, which takes megabytes, is copied once, from frames to body."""
    videos: list[EncodedFrames] = []

    def put(value: object) -> str:
        if not isinstance(value, EncodedFrames):
            raise TypeError
        videos.append(value)
        return _PLACE

    # Keys of a user's own fields may be numbers, such as the tokens of logit_bias.
    options = orjson.OPT_NON_STR_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS
    first, *rest = orjson.dumps(fields, put, options).split(_PLACE.encode())
    pieces = [first]
    for video, after in zip(videos, rest, strict=True):
        pieces.append(b"data:video/jpeg;base64,")
        for encoded in video.jpegs:
            pieces += (encoded, b",")
        pieces[-1] = after
    return b"".join(pieces)


def _video_times(times: Sequence[float]) -> dict[str, Any]:
    indices = [max(0, round(time * TICKS)) for time in times]
    # The duration includes half a gap after the last frame, so that frames at the midpoints of equal parts
    # cover their whole interval.
    gap = (indices[-1] - indices[0]) / (len(indices) - 1)
    total = indices[-1] + max(1, round(gap / 2))
    return {
        "media_io_kwargs": {
            "video": {
                "num_frames": len(indices),
                "fps": float(TICKS),
                "frames_indices": indices,
                "total_num_frames": max(total, len(indices)),
                "duration": total / TICKS,
                "do_sample_frames": False,
            }
        }
    }


def check_budget(count: int, frames: int) -> None:
    """Raise `BackboneError` if a call has more frames than its budget."""
    if count > frames:
        raise BackboneError(
            f"{count} frames in one call; the budget is {frames}: sample fewer, or raise the backbone's "
            "'frames'"
        )


# Request fields that the backbone sets itself, so `extra_body` may not.
RESERVED_FIELDS = {
    "model",
    "messages",
    "max_tokens",
    "logprobs",
    "top_logprobs",
    "temperature",
    "top_p",
    "seed",
    "stream",
    "response_format",
    *CONTINUES,
}
# What vLLM and SGLang would otherwise take from the model's generation_config.json: Qwen's has top_k 20 and,
# in Qwen2.5-VL, a repetition penalty, which changes greedy replies too. A local model ignores that file.
NEUTRAL_SAMPLING: Mapping[str, Any] = {
    "top_k": -1,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    # Since vLLM 0.31.
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
}
# Of a call that is answered with one token.
CHOICE_FIELDS: Mapping[str, Any] = {"max_tokens": 1, "temperature": 0.0, "top_logprobs": TOP_LOGPROBS}


def reply_fields(sampling: Sampling, seed: int | None, schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """The fields of a call whose reply is written, and fits `schema` if there is one."""
    fields: dict[str, Any] = {"max_tokens": sampling.max_new_tokens, "temperature": sampling.temperature}
    if sampling.temperature > 0:
        fields["top_p"] = sampling.top_p
        if seed is not None:
            fields["seed"] = seed
    if schema is not None:
        fields["response_format"] = response_format(schema)
    return fields


def request_body(model: str, encoded: Messages, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a request with log-probabilities."""
    body = {"model": model, "messages": encoded.messages, "logprobs": True, **fields}
    # The user's fields are added to those that carry the frames' times and do not replace them.
    for name, value in encoded.extra_body.items():
        body[name] = {**value, **body[name]} if name in body else value
    return body


def row_seed(seed: int, row: int) -> int:
    """The seed for a row of a batch, 0 to 2**31 - 1; row 0 gets `seed` itself."""
    if row == 0:
        return seed
    return int(np.random.SeedSequence([seed, row]).generate_state(1)[0]) >> 1
