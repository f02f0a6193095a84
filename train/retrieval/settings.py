"""The settings of `videopro asp-clip`; readable without a model library."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from videopro.cli import CommandLine, setting

Units: TypeAlias = Literal["segments", "videos"]
"""What a caption is paired with, where a source annotates segments: its segment, or the whole video. With
"videos", the captions of a video are joined into one, except for ActivityNet Captions."""


@dataclass(frozen=True)
class AspClipTraining:
    """The settings of a training."""

    sources: dict[str, str] = field(
        metadata=setting("sources and their folders: activitynet, openvid, vitt, moviechat, youcook2")
    )
    output: Path = field(metadata=setting("folder of the run"))
    clip: str = field(
        default="openai/clip-vit-base-patch16", metadata=setting("CLIP checkpoint: hub name or folder")
    )
    units: Units = field(
        default="segments",
        metadata=setting("segments or videos: what a caption of an annotated segment is paired with"),
    )
    limits: dict[str, int] = field(
        default_factory=dict, metadata=setting("number of pairs to draw from a source")
    )
    skip_broken: bool = field(default=False, metadata=setting("leave out broken records"))
    trained: Literal["temporal", "upper", "all"] = field(
        default="upper",
        metadata=setting("temporal: the temporal transformer; upper: also CLIP above frozen_layers; all"),
    )
    frozen_layers: int = field(default=4, metadata=setting("layers of each tower that upper leaves frozen"))
    layers: int = field(default=4, metadata=setting("layers of the temporal transformer"))
    heads: int = field(default=8, metadata=setting("attention heads of the temporal transformer"))
    frames: int = field(default=16, metadata=setting("frames per clip"))
    steps: int = field(default=3000, metadata=setting("steps"))
    batch: int = field(default=128, metadata=setting("pairs per step"))
    lr: float = field(default=1e-4, metadata=setting("learning rate of the temporal transformer"))
    clip_lr_share: float = field(
        default=1e-3, metadata=setting("learning rate of CLIP's own weights, as a share of lr")
    )
    warmup: int = field(default=300, metadata=setting("steps of linear warm-up"))
    held_out: int = field(default=256, metadata=setting("pairs held out for evaluation, drawn at random"))
    seed: int = field(default=0, metadata=setting("seed"))
    bf16: bool = field(default=False, metadata=setting("train in bf16 mixed precision"))
    workers: int = field(default=4, metadata=setting("processes that decode videos"))
    device: str | None = field(
        default=None, metadata=setting("such as cuda:1; default: the first accelerator, else the CPU")
    )


ASP_CLIP = CommandLine("asp-clip", AspClipTraining, configs="retrieval")
