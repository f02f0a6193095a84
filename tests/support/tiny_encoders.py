"""Folders of tiny encoders with random weights, in the form in which real checkpoints are published. For
tests only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from videopro.video import Frame

GOLDEN = np.load(Path(__file__).parent / "languagebind_golden" / "golden.npz")


def golden(kind: str) -> dict[str, np.ndarray]:
    """What the published LanguageBind package computed, for "vl" or "vl_new"."""
    return {key.removeprefix(f"{kind}/"): GOLDEN[key] for key in GOLDEN.files if key.startswith(f"{kind}/")}


def config_of(kind: str) -> dict[str, Any]:
    """Its config.json."""
    config: dict[str, Any] = json.loads(golden(kind)["config"].tobytes())
    return config


def weights_of(kind: str) -> dict[str, torch.Tensor]:
    """Its state dict."""
    return {
        key.removeprefix("weight/"): torch.from_numpy(value)
        for key, value in golden(kind).items()
        if key.startswith("weight/")
    }


def tokenizer(start: str = "<s>", end: str = "</s>") -> PreTrainedTokenizerFast:
    """48 words w0 to w47, between a start and an end token (48 and 49)."""
    words = {f"w{i}": i for i in range(48)} | {start: 48, end: 49}
    own = Tokenizer(models.WordLevel(words, unk_token="w0"))
    own.pre_tokenizer = pre_tokenizers.Whitespace()  # type: ignore[assignment]
    ends = [(start, 48), (end, 49)]
    own.post_processor = processors.TemplateProcessing(  # type: ignore[assignment]
        single=f"{start} $A {end}", special_tokens=ends
    )
    return PreTrainedTokenizerFast(tokenizer_object=own, bos_token=start, eos_token=end, pad_token=end)


def languagebind_folder(path: Path) -> Path:
    """The golden model as its authors publish theirs: config.json, pytorch_model.bin, a tokenizer."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text(json.dumps(config_of("vl")))
    torch.save(weights_of("vl"), path / "pytorch_model.bin")
    tokenizer().save_pretrained(path)
    return path


def clip(seed: int, frames: int = 3, height: int = 16, width: int = 30) -> list[Frame]:
    """Frames of noise."""
    pictures = np.random.default_rng(seed).integers(0, 256, (frames, height, width, 3), dtype=np.uint8)
    return [Frame(picture, float(i)) for i, picture in enumerate(pictures)]
