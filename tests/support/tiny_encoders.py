"""Folders of tiny encoders with random weights, in the form in which real checkpoints are published. For
tests only."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel, CLIPProcessor, PreTrainedTokenizerFast

from videopro.modules.models.encoders.asp_clip import AspClipConfig, TemporalTransformer, write_folder
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


def tokenizer() -> PreTrainedTokenizerFast:
    """48 words w0 to w47, between a start and an end token (48 and 49)."""
    ends = {"<s>": 48, "</s>": 49}
    words = {f"w{i}": i for i in range(48)} | ends
    own = Tokenizer(models.WordLevel(words, unk_token="w0"))
    own.pre_tokenizer = pre_tokenizers.Whitespace()  # type: ignore[assignment]
    own.post_processor = processors.TemplateProcessing(  # type: ignore[assignment]
        single="<s> $A </s>", special_tokens=list(ends.items())
    )
    return PreTrainedTokenizerFast(tokenizer_object=own, bos_token="<s>", eos_token="</s>", pad_token="</s>")


def languagebind_folder(path: Path) -> Path:
    """The golden model as its authors publish theirs: config.json, pytorch_model.bin, a tokenizer."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text(json.dumps(config_of("vl")))
    torch.save(weights_of("vl"), path / "pytorch_model.bin")
    tokenizer().save_pretrained(path)
    return path


def spread(model: torch.nn.Module) -> Any:
    """Weights large enough that different inputs give different outputs."""
    torch.manual_seed(0)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim:
                weight.add_(0.1 * torch.randn_like(weight))
    return model.eval()


def tiny_clip(path: Path) -> Path:
    """A CLIP checkpoint, 16 wide everywhere."""
    torch.manual_seed(0)
    tower = {"hidden_size": 16, "intermediate_size": 64, "num_hidden_layers": 3, "num_attention_heads": 2}
    words = {"vocab_size": 50, "bos_token_id": 48, "eos_token_id": 49, "pad_token_id": 49}
    config = CLIPConfig(
        text_config={**tower, **words, "max_position_embeddings": 20},
        vision_config={**tower, "image_size": 32, "patch_size": 16},
        projection_dim=16,
    )
    spread(CLIPModel(config)).save_pretrained(path)
    size = {"size": {"shortest_edge": 32}, "crop_size": {"height": 32, "width": 32}}
    CLIPProcessor(CLIPImageProcessor(**size), tokenizer()).save_pretrained(path)
    return path


def asp_folder(path: Path, **changes: Any) -> tuple[Path, TemporalTransformer]:
    """ASP-CLIP: a CLIP checkpoint with a temporal transformer of 2 layers over 4 frames, in one folder."""
    tiny_clip(path)
    config = AspClipConfig(**{"width": 16, "heads": 2, "layers": 2, "frames": 4, **changes})
    temporal = TemporalTransformer(config)
    temporal.initialize(1)
    # As they are stored.
    temporal.to(torch.bfloat16).float()
    write_folder(path, config, temporal, {})
    return path, temporal


def clip(seed: int, frames: int = 3, height: int = 16, width: int = 30) -> list[Frame]:
    """Frames of noise."""
    pictures = np.random.default_rng(seed).integers(0, 256, (frames, height, width, 3), dtype=np.uint8)
    return [Frame(picture, float(i)) for i, picture in enumerate(pictures)]
