"""ASP-CLIP folders from tiny CLIP models with random weights. For tests only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel, CLIPProcessor

from tests.support.tiny_encoders import tokenizer
from videopro.modules.models.encoders.asp_clip import AspClipConfig, TemporalTransformer, write_folder

_TOWER = {"hidden_size": 16, "intermediate_size": 64, "num_hidden_layers": 3, "num_attention_heads": 2}
_TEXT = {"vocab_size": 50, "bos_token_id": 48, "eos_token_id": 49, "pad_token_id": 49}


def tiny_clip(path: Path, *, width: int = 16, layers: int = 3) -> Path:
    """A CLIP checkpoint whose text tower is 16 wide, with a shared space of `width`."""
    torch.manual_seed(0)
    tower: dict[str, Any] = {**_TOWER, "num_hidden_layers": layers}
    config = CLIPConfig(
        text_config={**tower, **_TEXT, "max_position_embeddings": 20},
        vision_config={**tower, "image_size": 32, "patch_size": 16},
        projection_dim=width,
    )
    model = CLIPModel(config)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim:
                weight.add_(0.1 * torch.randn_like(weight))
    model.save_pretrained(path)
    size = {"size": {"shortest_edge": 32}, "crop_size": {"height": 32, "width": 32}}
    CLIPProcessor(CLIPImageProcessor(**size), tokenizer()).save_pretrained(path)
    return path


def asp_folder(path: Path, **changes: Any) -> tuple[Path, TemporalTransformer]:
    """A CLIP checkpoint with a temporal transformer of 2 layers over 4 frames, in one folder."""
    tiny_clip(path)
    config = AspClipConfig(**{"width": 16, "heads": 2, "layers": 2, "frames": 4, **changes})
    temporal = TemporalTransformer(config)
    temporal.initialize(1)
    # As they are stored.
    temporal.to(torch.bfloat16).float()
    write_folder(path, config, temporal, {})
    return path, temporal
