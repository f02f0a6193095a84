"""(g) LanguageBind_Video with random weights: clips a second by dtype and batch, with decoding beside it."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from perf.battery.cases import Bench, Case, Figures
from perf.battery.measuring import now, peak_gib, reset_peak
from perf.battery.shapes import VideoShape
from perf.battery.world import make_video
from videopro.modules.models.encoders import VideoTextEncoder, interfaces, load_encoder
from videopro.modules.models.encoders.languagebind_model import LanguageBindConfig, LanguageBindVideo
from videopro.modules.search import CLIP_SECONDS, build_index, clip_bounds, clip_index
from videopro.video import Frame, FrameStore, Video

TITLE = "LanguageBind_Video: embedding 10-second clips"


def cases(bench: Bench) -> list[Case]:
    return [
        Case(f"{dtype}, batch {batch}", partial(embed, bench, dtype, batch))
        for dtype in ("float32", "bfloat16")
        for batch in bench.shapes.clip_batches
    ]


def config(tiny: bool) -> dict[str, Any]:
    """The published sizes of LanguageBind/LanguageBind_Video_FT (ViT-L/14, 8 frames of 224 pixels), or tiny
    ones."""
    names = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
    vision = dict(zip(names, (1024, 4096, 24, 16), strict=True))
    text = dict(zip(names, (768, 3072, 12, 12), strict=True))
    image, patch_size = 224, 14
    if tiny:
        vision = text = dict(zip(names, (32, 64, 2, 2), strict=True))
        image, patch_size = 32, 8
    shared = {"hidden_act": "gelu", "layer_norm_eps": 1e-5}
    return {
        "projection_dim": 768 if not tiny else 32,
        "vision_config": {
            **vision,
            **shared,
            "image_size": image,
            "patch_size": patch_size,
            "num_frames": 8,
            "add_time_attn": True,
            "clip_type": "vl_new",
        },
        "text_config": {**text, **shared, "vocab_size": 49_408, "max_position_embeddings": 77},
    }


def make_encoder(bench: Bench) -> Path:
    """The folder of an encoder with random weights, made once."""
    target = bench.path("languagebind")
    if (target / "config.json").exists():
        return target
    part = bench.path("languagebind.part")
    part.mkdir(exist_ok=True)
    content = config(bench.shapes.name == "tiny")
    torch.manual_seed(0)
    torch.save(LanguageBindVideo(LanguageBindConfig.read(content)).state_dict(), part / "pytorch_model.bin")
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "ring": 1, "<s>": 2, "</s>": 3}, unk_token="a"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 2), ("</s>", 3)]
    )
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="</s>"
                            ).save_pretrained(part)  # fmt: skip
    (part / "config.json").write_text(json.dumps(content))
    part.rename(target)
    return target


def embed(bench: Bench, dtype: str, batch: int) -> Figures:
    """Embed clips from memory; decode a file alone; and index the file, which does both."""
    shapes = bench.shapes
    encoder = load_encoder(f"languagebind:{make_encoder(bench)}", dtype=dtype)
    shape = VideoShape(int(shapes.clips * CLIP_SECONDS), 2, shapes.video.height, shapes.video.width)
    path = bench.path("clips.mp4")
    make_video(path, shape, 7)
    size = encoder.frame_size(shape.height, shape.width)
    noise = np.random.default_rng(0).integers(0, 256, (encoder.clip_frames, *size, 3), dtype=np.uint8)
    clip = [Frame(picture, float(number)) for number, picture in enumerate(noise)]
    decoding = _decode(path, encoder, size)
    root = bench.path("index")
    shutil.rmtree(root, ignore_errors=True)
    with (
        patch.object(interfaces, "BATCH_SIZE", batch),
        patch.object(clip_index, "BATCH_SIZE", batch),
        patch.object(clip_index, "_PART", 2 * batch),
    ):
        encoder.encode_clips([clip])
        reset_peak()
        began = now()
        for start in range(0, shapes.clips, batch):
            encoder.encode_clips([clip] * min(batch, shapes.clips - start))
        encoding = now() - began
        peak = peak_gib()
        began = now()
        build_index(Video.open(path, store=FrameStore()), encoder, root=root)
        indexing = now() - began
    return {
        "clips": shapes.clips,
        "encode_clips_per_s": round(shapes.clips / encoding, 2),
        "decode_clips_per_s": round(shapes.clips / decoding, 2),
        "index_clips_per_s": round(shapes.clips / indexing, 2),
        # 1: encoding hides behind decoding, or the other way round; 2 at most.
        "index_to_longer": round(indexing / max(encoding, decoding), 2),
        "peak_gib": peak,
    }


def _decode(path: Path, encoder: VideoTextEncoder, size: tuple[int, int]) -> float:
    """Seconds to decode the frames that the index needs."""
    video = Video.open(path, store=FrameStore())
    times = [time for bounds in clip_bounds(video.duration) for time in encoder.clip_times(*bounds)]
    began = now()
    for _ in video.stream(times, size=size):
        pass
    return now() - began
