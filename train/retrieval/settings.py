"""The settings of `videopro asp-clip`; readable without a model library."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from videopro.cli import CommandLine, option, setting

Units: TypeAlias = Literal["segments", "videos"]
"""What a caption is paired with, where a source annotates segments: its segment, or the whole video. With
"videos", the captions of a video are joined into one, except for ActivityNet Captions."""


@dataclass(frozen=True)
class AspClipTraining:
    """The settings of a training run."""

    sources: dict[str, str] = field(
        metadata=setting("annotation folders by source: activitynet, openvid, vitt, moviechat, youcook2")
    )
    output: Path = field(metadata=setting("run folder"))
    clip: str = option("openai/clip-vit-base-patch16", "CLIP checkpoint: hub name or folder")
    # LongVR has whole videos, by the lengths in Table 8 of LVAgent; a segment is what its caption describes.
    units: Units = option(
        "segments", "segments or videos: what a caption of an annotated segment is paired with"
    )
    limits: dict[str, int] = field(
        default_factory=dict, metadata=setting("maximum pairs by source, drawn at random")
    )
    skip_broken: bool = option(False, "skip broken records")
    trained: Literal["temporal", "upper", "all"] = option(
        "upper", "temporal: the temporal transformer; upper: also CLIP above frozen_layers; all"
    )
    frozen_layers: int = option(4, "layers of each tower that stay frozen with upper")
    layers: int = option(4, "layers of the temporal transformer")
    heads: int = option(8, "attention heads of the temporal transformer")
    frames: int = option(16, "frames per clip")
    steps: int = option(3000, "steps")
    batch: int = option(128, "pairs per step")
    lr: float = option(1e-4, "learning rate of the temporal transformer")
    # Of CLIP4Clip, on which the public code of LVAgent is built.
    clip_lr_share: float = option(1e-3, "learning rate of CLIP's weights, as a share of lr")
    warmup: int = option(300, "steps of linear warm-up")
    # Few: they are decoded again at every save.
    held_out: int = option(256, "pairs held out for evaluation, drawn at random")
    seed: int = option(0, "seed")
    bf16: bool = option(False, "train in bf16 mixed precision")
    workers: int = option(4, "video decoding processes")
    device: str | None = option(None, "device, such as cuda:1; default: the first accelerator, else the CPU")


ASP_CLIP = CommandLine("asp-clip", AspClipTraining, configs="retrieval")
