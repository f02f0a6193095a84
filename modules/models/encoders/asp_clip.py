"""ASP-CLIP as an encoder of clips (LVAgent, Chen et al. 2025): an encoder of pictures and texts, and a
transformer over 16 frames.

From the paper: CLIP, a temporal transformer over 16 frames, the temporal feature most similar to the text
added to every frame feature before the mean over frames, a symmetric contrastive loss, 95M trainable
parameters. It gives no formula. From the authors' public code: four layers, as wide as CLIP's shared space,
with a learned position for each frame; frame features enter the sum unnormalized, with weight one; each sum
is normalized, averaged over the frames, and normalized again. The choice of the temporal feature passes no
gradient.

A clip is pooled by the text it is compared with, so it has no single vector: its embedding is the 32 rows of
`pool_by_each`, 32 times as much as another encoder's (98 kB per clip for a width of 768).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from pydantic import PositiveInt, TypeAdapter, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.functional import normalize

from videopro.backbones import folder_fingerprint
from videopro.modules.errors import ModelError
from videopro.modules.models.encoders.interfaces import VideoTextEncoder
from videopro.modules.models.encoders.languagebind_model import Encoder, Layer, TowerConfig
from videopro.modules.models.hub import check_finite, stop_between_layers

if TYPE_CHECKING:
    from videopro.modules.models.encoders.images import ImageTextEncoder
    from videopro.modules.models.encoders.languagebind import LanguageBindEncoder

CONFIG, WEIGHTS = "asp_clip.json", "asp_clip.safetensors"
TEMPORAL = "temporal."
"""Prefix of the temporal transformer's weights in a folder; weights without it replace the base's."""


@dataclass(frozen=True)
class AspClipConfig:
    """Sizes of the temporal transformer, as in asp_clip.json."""

    width: PositiveInt
    """d, of CLIP's shared space."""
    heads: PositiveInt
    layers: PositiveInt = 4
    frames: PositiveInt = 16
    base: str = "."
    """The encoder of frames and texts, as in `load_encoder`; ".": the CLIP checkpoint in the same folder."""

    @classmethod
    def read(cls, folder: Path) -> AspClipConfig:
        """Read a folder's asp_clip.json. Raises ModelError if it is missing or invalid."""
        path = folder / CONFIG
        try:
            config = TypeAdapter(cls).validate_json(path.read_bytes(), strict=True)
        except (OSError, ValidationError) as error:
            # The first of pydantic's errors, without what it appends.
            reason = " ".join(str(error).partition(" [type=")[0].split())
            raise ModelError(
                f"{folder} is not an ASP-CLIP folder: {CONFIG} cannot be read ({reason}); pass a folder "
                "written by videopro asp-clip"
            ) from error
        if config.width % config.heads:
            raise ModelError(f"{path}: width {config.width} is not a multiple of heads {config.heads}")
        return config


class TemporalTransformer(nn.Module):
    """Turns the features of a clip's frames into as many temporal features, each aware of all frames."""

    def __init__(self, config: AspClipConfig) -> None:
        super().__init__()
        sizes = TowerConfig(config.width, 4 * config.width, config.layers, config.heads, "quick_gelu", 1e-5)
        self.position_embedding = nn.Embedding(config.frames, config.width)
        self.encoder = Encoder([Layer(sizes) for _ in range(config.layers)])

    def forward(self, frames: Tensor) -> Tensor:
        """(n, frames, d) to (n, frames, d)."""
        out: Tensor = self.encoder(frames + self.position_embedding.weight)
        return out

    def initialize(self, seed: int) -> None:
        """Random weights, small enough that each temporal feature begins near its frame's feature."""
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for name, weight in self.named_parameters():
                if weight.ndim == 2:
                    # The layers that add to the residual stream, which start small.
                    last = name.endswith(("out_proj.weight", "fc2.weight"))
                    scale = 0.02 if "position" in name else (weight.shape[1] * (8 if last else 1)) ** -0.5
                    weight.normal_(0.0, scale, generator=generator)
                elif name.endswith("bias"):
                    weight.zero_()

    def initialize_from_text_tower(self, text_model: nn.Module) -> None:
        """The first layers and positions of a CLIP text tower (transformers), as in the public code. Raises
        ModelError if that is not as wide as the shared space or has too few layers."""
        state = text_model.state_dict()
        positions = state["embeddings.position_embedding.weight"]
        state_here = self.state_dict()
        matching = {name: state.get(name) for name in state_here if name.startswith("encoder.")}
        wrong = [name for name, w in matching.items() if w is None or w.shape != state_here[name].shape]
        if wrong or len(positions) < len(self.position_embedding.weight):
            raise ModelError(
                "the temporal transformer cannot start from this text tower: "
                f"{wrong[0] if wrong else 'the number of positions'} differs; use random weights"
            )
        layers = {name: cast(Tensor, weight) for name, weight in matching.items()}
        first = positions[: len(self.position_embedding.weight)]
        self.load_state_dict({**layers, "position_embedding.weight": first})


def pool_by_each(frames: Tensor, temporal: Tensor) -> Tensor:
    """All that a clip may be pooled to: (n, 2 * frames, d) unit rows for (n, frames, d) features.

    The first half are the directions of the temporal features, and row `frames + k` is the clip pooled with
    temporal feature k. A text needs no more: it chooses k by the first half, and is compared with the second.
    So a clip can be stored without knowing the text.
    """
    sums = frames[:, None] + temporal[:, :, None]
    pooled = normalize(sums, dim=-1).mean(2)
    return torch.cat([normalize(temporal, dim=-1), normalize(pooled, dim=-1)], dim=1)


def score_pooled(texts: Tensor, clips: Tensor) -> Tensor:
    """(n_texts, n_clips) cosine similarities of (n_texts, d) unit rows with clips as `pool_by_each` gives
    them. Of equally similar temporal features, the first is chosen."""
    both = torch.einsum("td,crd->tcr", texts, clips)
    choice, score = both.chunk(2, dim=2)
    return score.gather(2, choice.argmax(2, keepdim=True)).squeeze(2)


def load_weights(folder: Path, config: AspClipConfig, base: nn.Module) -> TemporalTransformer:
    """The temporal transformer in a folder; its other weights replace those of `base`. Raises ModelError if
    they do not fit."""
    path = folder / WEIGHTS
    try:
        state = load_file(path)
    except (OSError, SafetensorError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ModelError(f"{folder}: {WEIGHTS} cannot be read ({reason}); train or copy it again") from error
    check_finite(str(path), state.items())
    model = TemporalTransformer(config)
    temporal = {name.removeprefix(TEMPORAL): w for name, w in state.items() if name.startswith(TEMPORAL)}
    base_weights = {name: w for name, w in state.items() if not name.startswith(TEMPORAL)}
    _check_fit(path, CONFIG, model.state_dict(), temporal)
    replaced = {name: weight for name, weight in base.state_dict().items() if name in base_weights}
    _check_fit(path, f"its base {config.base!r}", replaced, base_weights)
    model.load_state_dict(temporal)
    # Not strict: a folder holds only what training changed of the base.
    base.load_state_dict(base_weights, strict=False)
    return model


def write_folder(
    folder: Path, config: AspClipConfig, temporal: TemporalTransformer, base_weights: Mapping[str, Tensor]
) -> None:
    """Write asp_clip.json and asp_clip.safetensors: the temporal transformer's weights and those that replace
    the base's, in bf16."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CONFIG).write_text(json.dumps(asdict(config), indent=1) + "\n", encoding="utf-8")
    state = {f"{TEMPORAL}{name}": weight for name, weight in temporal.state_dict().items()}
    state |= base_weights
    # Half the size of what was trained, and the precision in which a GPU encodes.
    stored = {name: weight.detach().to("cpu", torch.bfloat16).contiguous() for name, weight in state.items()}
    save_file(stored, folder / WEIGHTS)


def _check_fit(path: Path, owner: str, expected: Mapping[str, Tensor], weights: Mapping[str, Tensor]) -> None:
    wrong = sorted(expected.keys() ^ weights.keys()) or sorted(
        name for name in expected if expected[name].shape != weights[name].shape
    )
    if wrong:
        raise ModelError(
            f"{path} does not fit {owner}: {wrong[0]} is missing, unexpected or has another "
            f"shape{f' ({len(wrong)} such weights)' if len(wrong) > 1 else ''}"
        )


class AspClipEncoder(VideoTextEncoder):
    """A folder written by `train/retrieval/asp_clip.py`, on a base that is loaded already."""

    def __init__(
        self, folder: Path, base: ImageTextEncoder | LanguageBindEncoder, *, name: str, dtype: str = "float32"
    ) -> None:
        """Weights of the folder replace the base's, where it has them. Raises ModelError if the folder's
        files are damaged or do not fit the base."""
        super().__init__(name)
        config = AspClipConfig.read(folder)
        self._base, self._dtype, self.in_flight = base, dtype, base.in_flight
        temporal = load_weights(folder, config, base.model)
        parameter = next(base.model.parameters())
        # Where the base is, and in its precision: its features go straight in.
        self._temporal = temporal.to(parameter.device, parameter.dtype).eval()
        stop_between_layers(self._temporal)
        self.clip_frames = config.frames
        self._fingerprint = folder_fingerprint(folder)
        # Another base of the same width is not noticed: a folder names its base, and does not hash it.
        if self.width != config.width:
            raise ModelError(
                f"{name}: the base {config.base!r} has embeddings of width {self.width}, but the temporal "
                f"transformer in {folder} has {config.width}; use the base that it was trained on"
            )

    def identity(self) -> dict[str, object]:
        return {
            "encoder": "asp-clip",
            "weights": self._fingerprint,
            "base": self._base.identity(),
            "frames": self.clip_frames,
            "dtype": self._dtype,
        }

    @property
    def clip_shape(self) -> tuple[int, ...]:
        return (2 * self.clip_frames, self.width)

    def frame_size(self, height: int, width: int) -> tuple[int, int]:
        return self._base.frame_size(height, width)

    def similarities(self, texts: np.ndarray, clips: np.ndarray) -> np.ndarray:
        """As the base class; each clip is pooled by each text."""
        scores: np.ndarray = score_pooled(torch.from_numpy(texts), torch.from_numpy(clips)).numpy()
        return scores

    def _embed_clips(self, clips: Sequence[Sequence[np.ndarray]]) -> Tensor:
        pictures = [picture for clip in clips for picture in clip]
        frames = self._base.frame_features(pictures).view(len(clips), self.clip_frames, -1)
        return pool_by_each(frames, self._temporal(frames))

    def _embed_texts(self, texts: Sequence[str]) -> Tensor:
        return self._base.text_features(texts)
