"""Turns ordinary Qwen chat messages (text, image and video parts) into a prompt's tensors.

`qwen-vl-utils` reads images from any source and decides how many frames a video part has; the frames come
from this project's decoder, so that their times are exact.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import requests
import torch
from PIL import Image
from qwen_vl_utils.vision_process import (
    FRAME_FACTOR,
    SPATIAL_MERGE_SIZE,
    extract_vision_info,
    fetch_image,
    smart_nframes,
    to_rgb,
)
from torchvision.transforms.v2 import functional as tvF

from videopro.backbones.qwen.inputs import EncodedPrompt, QwenInputs, SizedVideo
from videopro.backbones.texts import escape_control_tokens
from videopro.errors import BackboneError
from videopro.video import LARGEST_RATIO, Frame, Video, pad_picture, padded_size, size_to_decode

# For a picture from the network.
_SECONDS = 60.0


def read_messages(inputs: QwenInputs, messages: Sequence[Mapping[str, Any]]) -> EncodedPrompt:
    """The prompt for chat messages, up to where the reply starts.

    An image part is {"type": "image", "image": X}, where X is a path, a file:// or http(s):// URL, base64 or
    a PIL image; `min_pixels`, `max_pixels`, `resized_height` and `resized_width` are respected. A video part
    is {"type": "video", "video": X}, where X is a path or file:// URL (with `nframes` or `fps`,
    `min_frames`, `max_frames`, `video_start`, `video_end`), a list of images (`sample_fps`), or a list of
    `Frame`; `max_pixels` bounds a frame, `total_pixels` the video. By default the backbone's budgets apply.
    Raises `BackboneError` for a part that cannot be read, `VideoError` for a video that cannot be decoded.
    """
    if not messages:
        raise BackboneError("no chat messages; give at least one with role 'user'")
    images: list[np.ndarray] = []
    videos: list[SizedVideo] = []
    for part in extract_vision_info([dict(message) for message in messages]):
        if "video" in part:
            videos.append(_video(inputs, part))
        elif "image" in part or "image_url" in part:
            images.append(_image(inputs, part))
        else:
            raise BackboneError(f"a chat part of type {part.get('type')!r} has neither an image nor a video")
    return inputs.encode(
        inputs.render([_plain(message) for message in messages]), videos=videos, images=images
    )


def _plain(message: Mapping[str, Any]) -> dict[str, Any]:
    """The message as the chat template expects it: parts by type, texts without control tokens."""
    content = message["content"]
    if isinstance(content, str):
        return {**message, "content": [{"type": "text", "text": escape_control_tokens(content)}]}
    parts: list[dict[str, Any]] = []
    for part in content:
        if "video" in part:
            parts.append({"type": "video"})
        elif "image" in part or "image_url" in part:
            parts.append({"type": "image"})
        else:
            parts.append({"type": "text", "text": escape_control_tokens(part["text"])})
    return {**message, "content": parts}


def _image(inputs: QwenInputs, part: Mapping[str, Any]) -> np.ndarray:
    options = {"max_pixels": max(inputs.pixels, inputs.patch**2), "min_pixels": inputs.patch**2, **part}
    key = "image" if "image" in part else "image_url"
    try:
        # qwen-vl-utils rounds a side that is shorter than a patch down to nothing.
        ratio = int(options["max_pixels"]) // inputs.patch**2 - 1
        options[key] = _with_margin(part[key], max(1, min(ratio, LARGEST_RATIO)))
        # qwen-vl-utils multiplies the patch by the merge size itself.
        picture = fetch_image(options, image_patch_size=inputs.patch // SPATIAL_MERGE_SIZE)
    except (OSError, ValueError, AssertionError) as error:
        raise BackboneError(
            f"the image of a chat message cannot be read ({error}); check its path or URL"
        ) from error
    return np.asarray(picture)


def _with_margin(source: Any, ratio: int) -> Any:
    """The picture of any source that an image part may have, with the margin that it needs, to be at most
    `ratio` times as long as wide."""
    picture = _opened(source) if isinstance(source, str) else source
    if not isinstance(picture, Image.Image):
        return source
    size = picture.height, picture.width
    if padded_size(*size, ratio=ratio) == size:
        return picture
    return Image.fromarray(pad_picture(np.asarray(to_rgb(picture)), ratio=ratio))


def _opened(source: str) -> Image.Image:
    """The picture of a path or URL, as `fetch_image` reads it."""
    if source.startswith(("http://", "https://")):
        response = requests.get(source, timeout=_SECONDS)
        response.raise_for_status()
        return Image.open(io.BytesIO(response.content))
    if source.startswith("data:"):
        return Image.open(io.BytesIO(base64.b64decode(source.partition("base64,")[2])))
    return Image.open(source.removeprefix("file://"))


def _video(inputs: QwenInputs, part: Mapping[str, Any]) -> SizedVideo:
    source = part["video"]
    if isinstance(source, str):
        return inputs.as_video(_decoded(inputs, part, source.removeprefix("file://")))
    if len(source) < 2:
        raise BackboneError(f"a video part has {len(source)} frames; give a path or at least two frames")
    if all(isinstance(frame, Frame) for frame in source):
        frames = list(source)
    else:
        # Two a second is what qwen-vl-utils assumes of a list of pictures.
        step = 1 / float(part.get("sample_fps", 2.0))
        bounds = {key: part[key] for key in ("min_pixels", "max_pixels") if key in part}
        pictures = [_image(inputs, {**bounds, "image": picture}) for picture in source]
        frames = [Frame(picture, i * step) for i, picture in enumerate(pictures)]
    height, width = frames[0].image.shape[:2]
    size = _size(inputs, part, height, width, len(frames))
    return inputs.as_video(_fitted(frames, size))


def _decoded(inputs: QwenInputs, part: Mapping[str, Any], path: str) -> list[Frame]:
    video = Video.open(path)
    start = float(part.get("video_start") or 0.0)
    end = min(float(part.get("video_end") or video.duration), video.duration)
    total = round((end - start) * video.fps)
    keys = ("nframes", "fps", "min_frames", "max_frames")
    sampling = {key: part[key] for key in keys if key in part}
    if "nframes" not in sampling:
        sampling.setdefault("max_frames", min(inputs.frames, total))
    try:
        count = smart_nframes(sampling, total, video.fps)
    except (ValueError, AssertionError) as error:
        raise BackboneError(f"video part {path!r}: {error}") from error
    size = _size(inputs, part, video.height, video.width, count)
    # The first frame, the last one, and evenly between: as in qwen-vl-utils' own readers.
    frames = video.frames(
        np.linspace(start, end - 1 / video.fps, count).tolist(),
        size=size_to_decode(video.height, video.width, size),
    )
    return _fitted(frames, size)


def _size(
    inputs: QwenInputs, part: Mapping[str, Any], height: int, width: int, count: int
) -> tuple[int, int]:
    if "resized_height" in part and "resized_width" in part:
        height, width = int(part["resized_height"]), int(part["resized_width"])
        return inputs.model_size(height, width, count, pixels=4 * max(height, inputs.patch) * width)
    pixels = int(part.get("max_pixels", inputs.pixels))
    if "total_pixels" in part:
        # As in qwen-vl-utils, which counts a temporal patch once.
        pixels = min(pixels, int(part["total_pixels"]) * FRAME_FACTOR // count)
    return inputs.model_size(height, width, count, pixels=pixels)


def _fitted(frames: Sequence[Frame], size: tuple[int, int]) -> list[Frame]:
    """The frames, with the margin that they need, at the size that suits the model."""
    return [Frame(_resized(pad_picture(frame.image), size), frame.time) for frame in frames]


def _resized(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """The image resized to (height, width) with the processors' filter."""
    if image.shape[:2] == size:
        return image
    # A copy, because the frame is shared and torch must not write into it.
    pixels = torch.tensor(image).permute(2, 0, 1)
    output = tvF.resize(pixels, list(size), interpolation=tvF.InterpolationMode.BICUBIC, antialias=True)
    resized: np.ndarray = output.permute(1, 2, 0).numpy()
    return resized
