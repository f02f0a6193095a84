"""ASP-CLIP's pooling against mean pooling on the pocket world: the same frozen towers, pairs and steps.

Three ways to pool a chunk's 16 frames, each trained from several seeds: "mean" (of the frame features),
"temporal" (of the sums of each frame's feature and its temporal feature, whatever the text: CLIP4Clip's
sequential transformer) and "asp" (the temporal feature most similar to the text added to every frame). All
train the two projections into the shared space; the last two also a temporal transformer of the same size.

The base of it all is the pocket encoder, whose towers stay frozen. Writes `record.json`, with recall on val
and test, and `model/`, which `load_encoder("pocket-asp")` loads from its place in the repository: the "asp"
run of the first seed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from videopro.modules.models.encoders.asp_clip import (
    AspClipConfig,
    TemporalTransformer,
    pool_by_each,
    score_pooled,
    write_folder,
)
from videopro.modules.models.encoders.languagebind import LanguageBindEncoder
from videopro.pocket.encoders import ENCODER
from videopro.traces.scoring import t_interval
from videopro.train.pocket.chunk_features import CHUNKS, ChunkFeatures
from videopro.train.retrieval.training import RetrieverRecipe, contrastive_loss, train

# Each pooling with its learning rate: of 1e-3, 3e-3 and 1e-2 the one with the highest sum of the four figures
# on val, from seed 0.
POOLINGS = {"mean": 3e-3, "temporal": 1e-2, "asp": 1e-3}
TOPS = (1, 5, 10)
SIX = "1 of six"
SPLITS = ("val", "test")
RECIPE = RetrieverRecipe(steps=450, batch=64)


class PooledChunks(nn.Module):
    """The trained part: projections of both towers and, for "temporal" and "asp", a temporal transformer.

    `pooling`: one of `POOLINGS`, or "frame": a text is as similar to a chunk as to its most similar frame.
    """

    def __init__(self, pooling: str, config: AspClipConfig, seed: int) -> None:
        super().__init__()
        base = LanguageBindEncoder(ENCODER.checkpoint, device="cpu").model
        self.pooling = pooling
        self.visual_projection, self.text_projection = base.visual_projection, base.text_projection
        self.logit_scale = nn.Parameter(base.logit_scale.detach().clone())
        self.temporal: TemporalTransformer | None = None
        if pooling in ("temporal", "asp"):
            self.temporal = TemporalTransformer(config)
            self.temporal.initialize(seed)

    def forward(self, frames: Tensor, texts: Tensor) -> Tensor:
        """(n_texts, n_chunks) cosine similarities of (n_texts, h) texts with (n_chunks, 16, h) frames, h
        being the towers' width."""
        text_features = normalize(self.text_projection(texts), dim=-1)
        seen = self.visual_projection(frames)
        if self.pooling == "frame":
            return torch.einsum("td,cfd->tcf", text_features, normalize(seen, dim=-1)).amax(2)
        if self.temporal is None:
            return text_features @ _mean(seen).T
        temporal = self.temporal(seen)
        if self.pooling == "temporal":
            return text_features @ _mean(seen + temporal).T
        return score_pooled(text_features, pool_by_each(seen, temporal))

    def projections(self) -> dict[str, Tensor]:
        """The weights that replace those of the pocket encoder."""
        return {
            "visual_projection.weight": self.visual_projection.weight,
            "text_projection.weight": self.text_projection.weight,
        }


def _mean(frames: Tensor) -> Tensor:
    return normalize(normalize(frames, dim=-1).mean(1), dim=-1)


def batch_loss(
    model: PooledChunks, data: ChunkFeatures, candidates: np.ndarray, size: int, seed: list[int]
) -> Tensor:
    """The contrastive loss of `size` random captions among `candidates` with their chunks."""
    captions = np.random.default_rng(seed).choice(candidates, size, replace=False)
    chunks = data.own[captions]
    fit = torch.from_numpy(data.fit(captions, chunks).astype(np.float32))
    scores = model(torch.from_numpy(data.frames[chunks]), torch.from_numpy(data.captions[captions]))
    return contrastive_loss(model.logit_scale.exp().clamp(max=100.0) * scores, fit)


@torch.no_grad()
def hits(model: PooledChunks, data: ChunkFeatures) -> dict[str, np.ndarray]:
    """For each caption of a scene that its chunk's frames show: whether the best chunk of the six of its
    video fits, and whether a fitting chunk is among the best 1, 5 and 10 of all videos' chunks."""
    captions, chunks = np.flatnonzero(data.shown > 0), np.arange(len(data.frames))
    scores = model(torch.from_numpy(data.frames), torch.from_numpy(data.captions[captions])).numpy()
    fit = data.fit(captions, chunks)
    in_own_video = data.own[captions][:, None] // CHUNKS == chunks[None] // CHUNKS
    best = np.where(in_own_video, scores, -np.inf).argmax(1)
    # Stable: equal scores rank in the same order everywhere.
    ranked = np.take_along_axis(fit, np.argsort(-scores, axis=1, kind="stable"), 1)
    outcomes = {SIX: fit[np.arange(len(captions)), best]}
    return outcomes | {f"{top} of all": ranked[:, :top].any(1) for top in TOPS}


def recall(model: PooledChunks, data: ChunkFeatures) -> dict[str, float]:
    """The shares of hits."""
    return {name: round(float(each.mean()), 4) for name, each in hits(model, data).items()}


def with_interval(values: Sequence[float], names: str) -> dict[str, object]:
    """The mean of values over seeds or videos, with Student's 95 % interval."""
    interval = t_interval(values)
    ends = None if interval is None else [round(end, 4) for end in interval]
    every = [round(value, 4) for value in values] if names == "seeds" else len(values)
    return {"mean": round(float(np.mean(values)), 4), "ci95": ends, names: every}


def summarize(
    hits_of: Mapping[str, Sequence[dict[str, np.ndarray]]], videos: np.ndarray
) -> dict[str, object]:
    """For each figure: each pooling over seeds, and what "asp" has more than the others, paired by seed; for
    the first figure also over videos, with the mean over seeds. `hits_of`: the hits of each pooling and seed;
    `videos`: each caption's."""
    summary: dict[str, object] = {}
    for figure in hits_of["asp"][0]:
        values = {pooling: [float(run[figure].mean()) for run in runs] for pooling, runs in hits_of.items()}
        rows = {pooling: with_interval(shares, "seeds") for pooling, shares in values.items()}
        for other in ("mean", "temporal"):
            gaps = [a - b for a, b in zip(values["asp"], values[other], strict=True)]
            rows[f"asp - {other}"] = with_interval(gaps, "seeds")
            if figure == SIX:
                each = [np.mean([run[figure] for run in hits_of[name]], axis=0) for name in ("asp", other)]
                means = [float((each[0] - each[1])[videos == video].mean()) for video in np.unique(videos)]
                rows[f"asp - {other}, over videos"] = with_interval(means, "videos")
        summary[figure] = rows
    return summary


def compare_poolings(
    features: Path,
    output: Path,
    *,
    recipe: RetrieverRecipe = RECIPE,
    layers: int = 2,
    seeds: Sequence[int] = (1, 2, 3),
    splits: Sequence[str] = SPLITS,
) -> None:
    """Train every pooling from every seed on the features of `train`, measure recall on the splits, and write
    the record. Runs resume from their last state. `layers`: of the temporal transformer."""
    torch.set_num_threads(1)
    parts = {name: ChunkFeatures.load(features / f"{name}.npz") for name in ("train", *splits)}
    visible = np.flatnonzero(parts["train"].shown > 0)
    config = AspClipConfig(width=96, heads=4, layers=layers, base="pocket")
    # What the frozen towers find by themselves, as a floor for the trained poolings.
    untrained = {pooling: PooledChunks(pooling, config, 0) for pooling in ("mean", "frame")}
    hits_of: dict[str, dict[str, list[dict[str, np.ndarray]]]] = {name: {} for name in splits}
    trained: dict[str, dict[str, float]] = {}
    for pooling, rate in POOLINGS.items():
        for seed in seeds:
            model = PooledChunks(pooling, config, seed)
            folder = output / f"{pooling}-{seed}"
            folder.mkdir(parents=True, exist_ok=True)
            seconds = train(
                model,
                replace(recipe, lr=rate, seed=seed),
                folder,
                lambda step, model=model, seed=seed: batch_loss(  # type: ignore[misc]
                    model, parts["train"], visible, recipe.batch, [seed, step]
                ),
                lambda model=model: recall(model, parts[splits[0]]),  # type: ignore[misc]
            )
            for name in splits:
                hits_of[name].setdefault(pooling, []).append(hits(model, parts[name]))
            count = sum(weight.numel() for weight in model.parameters())
            trained[pooling] = {"parameters": count, "seconds of the last seed": round(seconds)}
            if pooling == "asp" and seed == seeds[0]:
                assert model.temporal is not None
                write_folder(output / "model", config, model.temporal, model.projections())
    record = {
        "recipe": {**asdict(recipe), "lr": POOLINGS, "seed": seeds, "layers": layers},
        "pairs": {
            name: {
                "videos": len(part.frames) // CHUNKS,
                "chunks": len(part.frames),
                "captions": int((part.shown > 0).sum()),
                "captions of scenes that no frame shows, left out": int((part.shown == 0).sum()),
                "frames that show the captioned scene, median of 16": float(
                    np.median(part.shown[part.shown > 0])
                ),
            }
            for name, part in parts.items()
        },
        "trained": trained,
        "untrained": {
            pooling: {name: recall(model, parts[name]) for name in splits}
            for pooling, model in untrained.items()
        },
        "recall": {
            name: summarize(hits_of[name], part.own[part.shown > 0] // CHUNKS)
            for name, part in parts.items()
            if name in hits_of
        },
    }
    for path in (output / "record.json", output / "model" / "training_record.json"):
        path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(record["recall"], indent=1))
