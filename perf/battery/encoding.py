"""(g) LanguageBind_Video with random weights: clips a second by dtype and batch, with decoding beside it, of
a film with a key frame every 10 seconds."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
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
from videopro.modules.models.encoders import (
    VideoTextEncoder,
    interfaces,
    languagebind_model,
    load_encoder,
)
from videopro.modules.models.encoders.languagebind_model import LanguageBindConfig, LanguageBindVideo
from videopro.modules.search import CLIP_SECONDS, build_index, clip_bounds, clip_index
from videopro.video import Frame, FrameStore, Video

TITLE = "LanguageBind_Video: embedding 10-second clips"
# In float32 there is nothing to be gained from a larger batch, and it takes long.
_PRECISIONS = ("float32", "bfloat16")


def cases(bench: Bench) -> list[Case]:
    few, *more = bench.shapes.clip_batches
    return [
        *(Case(f"{dtype}, batch {few}", partial(embed, bench, dtype, few)) for dtype in _PRECISIONS),
        *(Case(f"bfloat16, batch {batch}", partial(embed, bench, "bfloat16", batch)) for batch in more),
        Case("bfloat16, the frames of each patch attended apart", partial(attend_apart, bench)),
        Case("a stand-in for the encoder, which sleeps", partial(sleep, bench)),
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
    encoder = load_encoder(f"languagebind:{make_encoder(bench)}", dtype=dtype)
    path = _film(bench)
    decoding = _decode(path, encoder)
    root = bench.path("index")
    shutil.rmtree(root, ignore_errors=True)
    with (
        patch.object(interfaces, "BATCH_SIZE", batch),
        patch.object(clip_index, "BATCH_SIZE", batch),
        patch.object(clip_index, "_PART", 2 * batch),
    ):
        encoding, peak = _encode(bench, encoder, batch)
        began = now()
        build_index(Video.open(path, store=FrameStore()), encoder, root=root)
        indexing = now() - began
    return {**_rates(bench.shapes.clips, encoding, decoding, indexing), "peak_gib": peak}


def attend_apart(bench: Bench) -> Figures:
    """Embed clips from memory, with attention over the frames of each patch in a sequence of its own."""
    encoder = load_encoder(f"languagebind:{make_encoder(bench)}", dtype="bfloat16")
    batch = bench.shapes.clip_batches[0]
    with patch.object(languagebind_model, "joined_sequences", lambda n, length, device: 1):
        seconds, peak = _encode(bench, encoder, batch)
    return {"encode_clips_per_s": round(bench.shapes.clips / seconds, 2), "peak_gib": peak}


def sleep(bench: Bench) -> Figures:
    """Index the film with an encoder that takes as long as decoding and computes nothing."""
    encoder, path, clips = SleepingEncoder(), _film(bench), bench.shapes.clips
    decoding = _decode(path, encoder)
    encoder.seconds = decoding / clips
    root = bench.path("index")
    shutil.rmtree(root, ignore_errors=True)
    began = now()
    build_index(Video.open(path, store=FrameStore()), encoder, root=root)
    return _rates(clips, decoding, decoding, now() - began)


def _rates(clips: int, encoding: float, decoding: float, indexing: float) -> Figures:
    return {
        "clips": clips,
        "encode_clips_per_s": round(clips / encoding, 2),
        "decode_clips_per_s": round(clips / decoding, 2),
        "index_clips_per_s": round(clips / indexing, 2),
        # 1: encoding hides behind decoding, or the other way round; 2 at most.
        "index_to_longer": round(indexing / max(encoding, decoding), 2),
    }


class SleepingEncoder(VideoTextEncoder):
    """Takes `seconds` for a clip, as a device does: one batch after another, while the caller goes on."""

    clip_frames = 8
    in_flight = 2
    seconds = 0.0

    def __init__(self) -> None:
        super().__init__("sleeping")
        self._device = ThreadPoolExecutor(1)

    def identity(self) -> dict[str, object]:
        return {"encoder": "sleeping"}

    def frame_size(self, height: int, width: int) -> tuple[int, int]:
        return interfaces.short_side(height, width, 224)

    def _begin_clips(self, clips: Sequence[Sequence[Frame]]) -> Callable[[], np.ndarray]:
        slept = self._device.submit(time.sleep, self.seconds * len(clips))

        def wait() -> np.ndarray:
            slept.result()
            return np.full((len(clips), 4), 0.5, np.float32)

        return wait

    def _embed_clips(self, clips: Sequence[Sequence[np.ndarray]]) -> torch.Tensor:
        raise NotImplementedError

    def _embed_texts(self, texts: Sequence[str]) -> torch.Tensor:
        return torch.ones(len(texts), 4)


def _film(bench: Bench) -> Path:
    shapes, rate = bench.shapes, 2
    path = bench.path("film.mp4")
    shape = VideoShape(int(shapes.clips * CLIP_SECONDS), rate, shapes.video.height, shapes.video.width)
    make_video(path, shape, 7, key_every=int(rate * CLIP_SECONDS))
    return path


def _encode(bench: Bench, encoder: VideoTextEncoder, batch: int) -> tuple[float, float]:
    """Seconds to embed as many clips of noise, staged before, and the peak of memory in GiB."""
    shape = bench.shapes.video
    size = encoder.frame_size(shape.height, shape.width)
    noise = np.random.default_rng(0).integers(0, 256, (encoder.clip_frames, *size, 3), dtype=np.uint8)
    clip = [Frame(picture, float(number)) for number, picture in enumerate(noise)]
    staged = encoder.stage_clips([clip] * batch)
    encoder.encode_clips(staged)
    reset_peak()
    began = now()
    for _ in range(bench.shapes.clips // batch):
        encoder.encode_clips(staged)
    return now() - began, peak_gib()


def _decode(path: Path, encoder: VideoTextEncoder) -> float:
    """Seconds to decode the frames that the index needs, once the processes that decode have started."""
    video = Video.open(path, store=FrameStore())
    size = encoder.frame_size(video.height, video.width)
    times = [time for bounds in clip_bounds(video.duration) for time in encoder.clip_times(*bounds)]
    seconds = 0.0
    for _ in range(2):
        began = now()
        for _ in video.stream(times, size=size):
            pass
        seconds = now() - began
    return seconds
