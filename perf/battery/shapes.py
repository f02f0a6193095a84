"""Models with random weights at the shapes of real ones, and how large the work is that they are given."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForImageTextToText, AutoProcessor, PretrainedConfig

from videopro.pocket import model_dir

_ROPE = {
    "rope_type": "default",
    "rope_theta": 5_000_000.0,
    "mrope_section": [24, 20, 20],
    "mrope_interleaved": True,
}


def _text(width: int, inner: int, *, layers: int, heads: int) -> dict[str, Any]:
    """The fields of a Qwen3-VL text config in which its sizes differ, and what they share."""
    return {
        "hidden_size": width,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 151_936,
        "rope_parameters": _ROPE,
    }


def _vision(width: int, inner: int, *, layers: int, out: int, deepstack: tuple[int, ...]) -> dict[str, Any]:
    """The same of a Qwen3-VL vision config."""
    return {
        "depth": layers,
        "hidden_size": width,
        "intermediate_size": inner,
        "num_heads": 16,
        "out_hidden_size": out,
        "num_position_embeddings": 2304,
        "deepstack_visual_indexes": list(deepstack),
    }


@dataclass(frozen=True)
class VideoShape:
    """A video file."""

    seconds: int
    rate: int
    """Pictures per second."""
    height: int
    width: int


@dataclass(frozen=True)
class Shapes:
    """A model's sizes, and those of the work: as published where a GPU runs it, smaller on a CPU."""

    name: str
    title: str
    frames: int
    pixels: int
    """Maximum pixels of a frame."""
    video: VideoShape
    dtype: str
    lora_rank: int
    text: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the text model's config; empty: nearly those of the pocket model."""
    vision: Mapping[str, Any] = field(default_factory=dict)
    tied: bool = False
    """Whether the output layer is the embedding."""
    batches: tuple[int, ...] = (2, 4, 8)
    """Rows of an SFT step."""
    reply: int = 512
    """Tokens of a written reply that never ends."""
    mean: int = 256
    """Tokens of a reply that ends, on average."""
    longest: int = 1024
    """Its limit, that of configs/grpo/qwen3vl_8b.yaml."""
    prompt: int = 8192
    """Text tokens of a prompt that is read in one step."""
    rows: tuple[int, ...] = (8, 64)
    """Replies that are written at the same time."""
    group: int = 8
    """Replies to one prompt in a GRPO step."""
    groups: int = 8
    """Prompts in a GRPO step."""
    packed: tuple[int, ...] = (512, 1024)
    """Tokens of each reply in an update."""
    mixed: tuple[int, ...] = (0, 1900, 300, 1200, 100, 700)
    """Words that the rows of an SFT step have more than the shortest, where their lengths differ."""
    steps: int = 8
    """SFT steps, and updates, each of another length."""
    videos: int = 3
    questions: int = 11
    """Questions about each video."""
    clips: int = 256
    """10-second clips that an encoder embeds."""
    clip_batches: tuple[int, ...] = (16, 64)

    @property
    def backbone_dtype(self) -> str:
        """The dtype as a backbone's setting names it."""
        return {"bfloat16": "bf16", "float32": "fp32"}[self.dtype]


TINY = Shapes(
    name="tiny",
    title="the pocket model's shapes",
    frames=16,
    pixels=96 * 160,
    video=VideoShape(20, 4, 96, 160),
    dtype="float32",
    lora_rank=8,
    batches=(2, 4),
    reply=16,
    mean=8,
    longest=32,
    prompt=64,
    rows=(4, 8),
    group=4,
    groups=2,
    packed=(16, 32),
    mixed=(0, 90, 20),
    steps=4,
    questions=2,
    clips=8,
    clip_batches=(2, 4),
)
# The published configs of Qwen/Qwen3-VL-2B-Instruct and Qwen/Qwen3-VL-8B-Instruct.
QWEN3VL_2B = Shapes(
    name="2b",
    title="the shapes of Qwen3-VL-2B",
    frames=64,
    pixels=50_176,
    video=VideoShape(300, 8, 360, 640),
    dtype="bfloat16",
    lora_rank=64,
    text=_text(2048, 6144, layers=28, heads=16),
    vision=_vision(1024, 4096, layers=24, out=2048, deepstack=(5, 11, 17)),
    tied=True,
    batches=(2,),
    reply=24,
    mean=8,
    longest=24,
    prompt=256,
    rows=(4,),
    group=4,
    groups=1,
    packed=(24,),
    mixed=(0, 200),
    steps=2,
    videos=1,
    clips=4,
    clip_batches=(4,),
)
QWEN3VL_8B = Shapes(
    name="8b",
    title="the shapes of Qwen3-VL-8B",
    frames=64,
    pixels=50_176,
    video=VideoShape(300, 8, 360, 640),
    dtype="bfloat16",
    lora_rank=64,
    text=_text(4096, 12_288, layers=36, heads=32),
    vision=_vision(1152, 4304, layers=27, out=4096, deepstack=(8, 16, 24)),
)
SHAPES: Mapping[str, Shapes] = {shapes.name: shapes for shapes in (TINY, QWEN3VL_2B, QWEN3VL_8B)}


def model_config(shapes: Shapes) -> PretrainedConfig:
    """The config, with the shipped tokenizer's token ids."""
    small: PretrainedConfig = AutoConfig.from_pretrained(model_dir())
    if not shapes.text:
        # A little wider than the pocket model, which commands refuse for videos of another world.
        small.text_config.intermediate_size += 32
        return small
    ends = {name: getattr(small.text_config, name) for name in ("eos_token_id", "pad_token_id")}
    tokens = ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id")
    return AutoConfig.for_model(
        small.model_type,
        text_config={**shapes.text, **ends},
        vision_config={
            **shapes.vision,
            "patch_size": 16,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
        },
        tie_word_embeddings=shapes.tied,
        **{name: getattr(small, name) for name in tokens},
    )


def make_checkpoint(shapes: Shapes, folder: Path) -> Path:
    """A checkpoint with random weights and the shipped tokenizer and processor, made once."""
    target = folder / "model"
    if not (target / "videopro.json").exists():
        torch.manual_seed(0)
        with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
            model = AutoModelForImageTextToText.from_config(
                model_config(shapes), dtype=getattr(torch, shapes.dtype)
            )
        model.save_pretrained(target)
        del model
        if torch.cuda.is_available():
            # Processes that a part starts need the memory.
            torch.cuda.empty_cache()
        AutoProcessor.from_pretrained(model_dir()).save_pretrained(target)
        # Written last: an interrupted checkpoint is made again.
        (target / "videopro.json").write_text(f'{{"frames": {shapes.frames}, "pixels": {shapes.pixels}}}\n')
    return target


def make_ending_checkpoint(shapes: Shapes, folder: Path) -> Path:
    """The same checkpoint, for which so many of all tokens end a reply that it has `mean` on average.

    The lengths are drawn by the model itself, so that every engine draws them. They are geometric: their
    spread is as large as their mean, as that of a log-normal distribution with sigma 0.83.
    """
    whole, target = make_checkpoint(shapes, folder), folder / "model-that-ends"
    if not (target / "generation_config.json").exists():
        target.mkdir(exist_ok=True)
        for file in whole.iterdir():
            if file.name != "generation_config.json" and not (target / file.name).exists():
                (target / file.name).symlink_to(file)
        config = model_config(shapes).get_text_config()
        ends = random.Random(0).sample(range(config.vocab_size), config.vocab_size // shapes.mean)
        content = {"eos_token_id": sorted({config.eos_token_id, *ends}), "pad_token_id": config.pad_token_id}
        (target / "generation_config.json").write_text(json.dumps(content))
    return target
