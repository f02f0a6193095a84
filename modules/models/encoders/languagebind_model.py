"""LanguageBind_Video's two towers in plain torch: a CLIP text tower, and a CLIP vision tower with attention
over time in every layer (Zhu et al. 2024, "LanguageBind").

Parameters have the same names as in the published checkpoints ("pre_layrnorm" included), so that their state
dicts load unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers.activations import ACT2FN


@dataclass(frozen=True)
class TowerConfig:
    """Sizes of one tower, named as in a checkpoint's config.json."""

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    hidden_act: str
    layer_norm_eps: float


@dataclass(frozen=True)
class VisionConfig(TowerConfig):
    image_size: int
    """Side of a square frame in pixels."""
    patch_size: int
    num_frames: int


@dataclass(frozen=True)
class TextConfig(TowerConfig):
    vocab_size: int
    max_position_embeddings: int
    """Maximum text length in tokens."""


@dataclass(frozen=True)
class LanguageBindConfig:
    """Sizes of both towers and of their shared space."""

    vision: VisionConfig
    text: TextConfig
    projection_dim: int
    class_by_frame: bool
    """Whether each frame has its own class embedding and patches come from a 3-D convolution of depth one, as
    in the later checkpoints ("clip_type": "vl_new")."""

    @classmethod
    def read(cls, config: Mapping[str, Any]) -> LanguageBindConfig:
        """Read a checkpoint's config.json. Raises ValueError for what is missing or not supported."""
        vision, text = config.get("vision_config") or {}, config.get("text_config") or {}
        if not vision.get("add_time_attn"):
            raise ValueError("vision_config.add_time_attn is not true: not a LanguageBind video model")
        kind = vision.get("clip_type", "vl")
        if kind not in ("vl", "vl_new") or vision.get("tube_size", 1) != 1:
            raise ValueError(
                f"clip_type {kind!r} with tube_size {vision.get('tube_size', 1)} is not supported; "
                "supported are 'vl' and 'vl_new' with tubes of one frame"
            )
        return cls(
            VisionConfig(**_sizes(VisionConfig, vision, "vision_config")),
            TextConfig(**_sizes(TextConfig, text, "text_config")),
            int(config["projection_dim"]),
            kind == "vl_new",
        )


def _sizes(kind: type[TowerConfig], config: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The fields of `kind` from `config`. There are no defaults: they would be another model's sizes."""
    names = [each.name for each in fields(kind)]
    missing = [name for name in names if config.get(name) is None]
    if missing:
        raise ValueError(f"{where} has no {', '.join(missing)}")
    return {name: config[name] for name in names}


class Attention(nn.Module):
    """Multi-head attention over the second dimension of (n, length, width)."""

    def __init__(self, config: TowerConfig) -> None:
        super().__init__()
        self.heads = config.num_attention_heads
        width = config.hidden_size
        self.q_proj, self.k_proj = nn.Linear(width, width), nn.Linear(width, width)
        self.v_proj, self.out_proj = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor, *, causal: bool = False) -> Tensor:
        n, length, width = x.shape
        joined = 1 if causal else joined_sequences(n, length, x.device)

        def heads(projection: nn.Module) -> Tensor:
            out: Tensor = projection(x)
            return out.view(n // joined, joined * length, self.heads, width // self.heads).transpose(1, 2)

        q, k, v = heads(self.q_proj), heads(self.k_proj), heads(self.v_proj)
        mask = None if joined == 1 else _within_sequences(joined, length, x.device)
        mixed = scaled_dot_product_attention(q, k, v, mask, is_causal=causal)
        out: Tensor = self.out_proj(mixed.transpose(1, 2).reshape(n, length, width))
        return out


_TILE = 128
"""Tokens that a GPU's kernel for attention takes together."""


def joined_sequences(n: int, length: int, device: torch.device) -> int:
    """How many of `n` sequences are attended as one, each to itself by a mask. A GPU's kernels compute whole
    tiles: over the 8 frames of each patch they would compute 16 times as much, which was a third of the
    encoder's time on an H100."""
    if device.type != "cuda":
        return 1
    return next((count for count in range(_TILE // length, 1, -1) if n % count == 0), 1)


@lru_cache(maxsize=8)
def _within_sequences(joined: int, length: int, device: torch.device) -> Tensor:
    sequence = torch.arange(joined, device=device).repeat_interleave(length)
    return sequence[:, None] == sequence


class Mlp(nn.Module):
    def __init__(self, config: TowerConfig) -> None:
        super().__init__()
        self.fc1 = nn.Linear(config.hidden_size, config.intermediate_size)
        self.fc2 = nn.Linear(config.intermediate_size, config.hidden_size)
        self.act = ACT2FN[config.hidden_act]

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.fc2(self.act(self.fc1(x)))
        return out


class Layer(nn.Module):
    """A pre-norm transformer layer."""

    def __init__(self, config: TowerConfig) -> None:
        super().__init__()
        self.self_attn = Attention(config)
        self.layer_norm1 = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.mlp = Mlp(config)
        self.layer_norm2 = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, x: Tensor, *, causal: bool = False) -> Tensor:
        x = x + self.self_attn(self.layer_norm1(x), causal=causal)
        out: Tensor = x + self.mlp(self.layer_norm2(x))
        return out


class VideoLayer(Layer):
    """Attention over the frames of each patch, then a plain layer within each frame, without an MLP
    between."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__(config)
        self.temporal_embedding = nn.Parameter(torch.zeros(1, config.num_frames, config.hidden_size))
        self.temporal_attn = Attention(config)
        self.temporal_layer_norm1 = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, x: Tensor, *, causal: bool = False) -> Tensor:
        """(videos * frames, patches, width), with the frames of a video next to each other."""
        frames, (rows, patches, width) = self.temporal_embedding.shape[1], x.shape

        def swapped(y: Tensor, a: int, b: int) -> Tensor:
            return y.view(-1, a, b, width).transpose(1, 2).reshape(-1, a, width)

        over_time = swapped(x, frames, patches)
        if frames > 1:
            over_time = over_time + self.temporal_embedding
        over_time = over_time + self.temporal_attn(self.temporal_layer_norm1(over_time))
        within = over_time.view(-1, patches, frames, width).transpose(1, 2).reshape(rows, patches, width)
        out: Tensor = super().forward(within, causal=causal)
        return out


class Encoder(nn.Module):
    def __init__(self, layers: list[Layer]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor, *, causal: bool = False) -> Tensor:
        for layer in self.layers:
            x = layer(x, causal=causal)
        return x


class VisionEmbeddings(nn.Module):
    def __init__(self, config: VisionConfig, class_by_frame: bool) -> None:
        super().__init__()
        width, side = config.hidden_size, config.patch_size
        self.frames = config.num_frames
        shape = (config.num_frames, width) if class_by_frame else (width,)
        self.class_embedding = nn.Parameter(torch.zeros(shape))
        depth = (1,) if class_by_frame else ()
        self.patch_embedding = nn.Module()
        self.patch_embedding.weight = nn.Parameter(torch.zeros(width, 3, *depth, side, side))
        self.side = side
        self.position_embedding = nn.Embedding((config.image_size // side) ** 2 + 1, width)

    def forward(self, pictures: Tensor) -> Tensor:
        """(videos * frames, 3, side, side) to (videos * frames, 1 + patches, width)."""
        rows, width = len(pictures), self.position_embedding.embedding_dim
        # A 3-D convolution of depth one is a 2-D one.
        kernel = cast(Tensor, self.patch_embedding.weight).view(width, 3, self.side, self.side)
        patches = nn.functional.conv2d(pictures, kernel, stride=self.side).flatten(2).transpose(1, 2)
        first = self.class_embedding.view(-1, width)
        first = first.repeat(rows // len(first), 1) if len(first) > 1 else first.expand(rows, width)
        return torch.cat([first[:, None], patches], dim=1) + self.position_embedding.weight


class VisionTower(nn.Module):
    def __init__(self, config: VisionConfig, class_by_frame: bool) -> None:
        super().__init__()
        self.embeddings = VisionEmbeddings(config, class_by_frame)
        self.pre_layrnorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.encoder = Encoder([VideoLayer(config) for _ in range(config.num_hidden_layers)])
        self.post_layernorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, pixels: Tensor) -> Tensor:
        """(n, 3, frames, side, side) normalized pixels to (n, width): the class tokens' mean over frames."""
        n, _, frames = pixels.shape[:3]
        x = self.encoder(self.pre_layrnorm(self.embeddings(pixels.transpose(1, 2).flatten(0, 1))))
        out: Tensor = self.post_layernorm(x[:, 0]).view(n, frames, -1).mean(1)
        return out


class TextEmbeddings(nn.Module):
    def __init__(self, config: TextConfig) -> None:
        super().__init__()
        self.token_embedding = nn.Embedding(config.vocab_size, config.hidden_size)
        self.position_embedding = nn.Embedding(config.max_position_embeddings, config.hidden_size)

    def forward(self, ids: Tensor) -> Tensor:
        out: Tensor = self.token_embedding(ids) + self.position_embedding.weight[: ids.shape[1]]
        return out


class TextTower(nn.Module):
    def __init__(self, config: TextConfig) -> None:
        super().__init__()
        self.embeddings = TextEmbeddings(config)
        self.encoder = Encoder([Layer(config) for _ in range(config.num_hidden_layers)])
        self.final_layer_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def hidden(self, ids: Tensor) -> Tensor:
        """(n, length, width) hidden states, with causal attention."""
        out: Tensor = self.final_layer_norm(self.encoder(self.embeddings(ids), causal=True))
        return out

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """(n, width): the output at the end token of each text. Padding must be on the right, where causal
        attention ignores it."""
        return self.hidden(ids)[torch.arange(len(ids), device=ids.device), mask.sum(1) - 1]


class LanguageBindVideo(nn.Module):
    """Both towers, each projected into the shared space. Weights are initialized for training; loading a
    checkpoint replaces all of them."""

    def __init__(self, config: LanguageBindConfig) -> None:
        super().__init__()
        self.config = config
        self.vision_model = VisionTower(config.vision, config.class_by_frame)
        self.text_model = TextTower(config.text)
        self.visual_projection = nn.Linear(config.vision.hidden_size, config.projection_dim, bias=False)
        self.text_projection = nn.Linear(config.text.hidden_size, config.projection_dim, bias=False)
        self.logit_scale = nn.Parameter(torch.tensor(2.6592))  # log(1 / 0.07), as in CLIP

    def encode_video(self, pixels: Tensor) -> Tensor:
        """(n, 3, frames, side, side) normalized pixels to (n, projection_dim) unit rows."""
        return nn.functional.normalize(self.visual_projection(self.vision_model(pixels)), dim=-1)

    def encode_text(self, ids: Tensor, mask: Tensor) -> Tensor:
        """(n, length) token ids and their 0/1 mask to (n, projection_dim) unit rows."""
        return nn.functional.normalize(self.text_projection(self.text_model(ids, mask)), dim=-1)

    def load_checkpoint(self, state: Mapping[str, Tensor]) -> None:
        """Load a published state dict. Raises ValueError or RuntimeError for weights that do not fit."""
        if any("lora_" in key for key in state):
            raise ValueError(
                "these are LoRA weights; use the fully fine-tuned checkpoint, LanguageBind_Video_FT"
            )
        # Older transformers versions stored the positions 0, 1, 2 ... as buffers.
        self.load_state_dict(
            {key: weight for key, weight in state.items() if not key.endswith("embeddings.position_ids")}
        )
