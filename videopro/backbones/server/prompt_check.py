"""Compares the prompt that an engine made of a request with ours, token by token.

vLLM returns the ids of the prompt that its model saw (`return_token_ids`). Where the checkpoint's processor
is on this machine, the same frames and text give our own ids, with which models are trained and run here.
Engines have differed: they have one more pair of marks around a video or not (`VideoMarks`; vLLM issue
46817), lost its times, or resized its frames.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import numpy as np

from videopro.backbones.model_record import VideoMarks

if TYPE_CHECKING:
    from videopro.video import Frame

TEXT = "Is it day or night?\nA. day\nB. night"
"""The text of the request that is compared."""
# The size of a real video, so that frames are resized as usual.
_HEIGHT, _WIDTH = 720, 1280
# Seconds between the frames; uneven to a tenth, so that lost times are seen.
_GAP = 7.3
# Tokens that a message shows on each side.
_QUOTED_TOKENS = 8

Decode = Callable[[Sequence[int]], str]


def video_frames(count: int, resize: Callable[[int, int, int], tuple[int, int] | None]) -> list[Frame]:
    """Grey frames of a video. `resize` is the backbone's `frame_size`, in which it decodes them."""
    from videopro.video import Frame

    height, width = resize(_HEIGHT, _WIDTH, count) or (_HEIGHT, _WIDTH)
    picture = np.full((height, width, 3), 127, dtype=np.uint8)
    return [Frame(picture, round(_GAP * (index + 0.5), 1)) for index in range(count)]


def own_prompts(folder: Path, count: int, pixels: int) -> tuple[dict[VideoMarks, list[int]], Decode]:
    """The ids of our own prompt about `count` frames of at most `pixels` pixels, in each form of a video,
    with the processor in a checkpoint's folder, and what writes ids as text. Raises BackboneError if the
    processor cannot be loaded."""
    # Imported late: both import torch, which a client of a server elsewhere does not need.
    import torch

    from videopro.backbones.qwen import QwenInputs, find_checkpoint

    checkpoint, device = find_checkpoint(str(folder)), torch.device("cpu")
    prompts: dict[VideoMarks, list[int]] = {}
    for marks in get_args(VideoMarks):
        inputs = QwenInputs(checkpoint.marked(marks).processor, frames=count, pixels=pixels, device=device)
        head = inputs.head(video_frames(count, inputs.frame_size))
        prompts[marks] = list(head.append_text(inputs.tail(TEXT)).ids)
    return prompts, checkpoint.processor.tokenizer.decode


def difference(engine: Sequence[int], local: Sequence[int], decode: Decode) -> str:
    """What differs between the ids of an engine's prompt and ours, as the end of a sentence; empty if nothing
    does."""
    if list(engine) == list(local):
        return ""
    pads = [sum(decode([token]).endswith("_pad|>") for token in ids) for ids in (engine, local)]
    if pads[0] != pads[1]:
        return (
            f"{pads[0]} frame tokens instead of {pads[1]}: frames are resized or sampled in another way (set "
            "the frames and pixels that the model was trained with, or raise the limits of its processor "
            "with vLLM's --mm-processor-kwargs)"
        )
    pairs = itertools.zip_longest(engine, local)
    first = next(index for index, (theirs, ours) in enumerate(pairs) if theirs != ours)
    start = max(0, first - _QUOTED_TOKENS // 2)
    quoted = slice(start, start + _QUOTED_TOKENS)
    return (
        f"from token {first} on, it has {decode(engine[quoted])!r} instead of {decode(local[quoted])!r} (the "
        "server has another chat template or tokenizer, or a vLLM before 0.32)"
    )
