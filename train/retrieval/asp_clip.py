"""Trains ASP-CLIP: a CLIP checkpoint with a temporal transformer over 16 frames, on caption-video pairs.

    videopro asp-clip --config configs/retrieval/asp_clip_longvr.yaml

The loss is CLIP's, in both directions, with the other clips of a batch as negatives. Re-run the same command
to resume. Writes `log.jsonl`, `unreadable.jsonl` (videos that could not be decoded; their pairs are left out)
and `model/`, which `load_encoder("asp-clip:OUTPUT/model")` loads.

The paper names CLIP, 95M trainable parameters and three hours, and no more. CLIP ViT-B/16, which the public
code uses, has 95.2M if the temporal transformer, the ends of both towers (last norms, projections,
temperature) and all but the first four layers of each tower are trained: the defaults here. That is an
inference from the counts, as are the learning rates, which are those of CLIP4Clip, on which the public code
is built."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize
from torch.utils.data import DataLoader, Dataset
from transformers import CLIPModel

from videopro.cli import exit_status
from videopro.errors import ConfigError, RunError, VideoError
from videopro.modules.models.encoders.asp_clip import (
    AspClipConfig,
    TemporalTransformer,
    pool_by_each,
    score_pooled,
    write_folder,
)
from videopro.modules.models.encoders.images import ImageTextEncoder
from videopro.storage import JsonLinesLog, sole_writer
from videopro.train.retrieval.pairs import CaptionPair, load_pairs
from videopro.train.retrieval.settings import ASP_CLIP, AspClipTraining
from videopro.train.retrieval.training import RetrieverRecipe, contrastive_loss, train
from videopro.video import Video, pad_picture, uniform_times

Batch: TypeAlias = tuple[Tensor, Tensor, Tensor]
"""(n, frames, 3, side, side) pixels, (n, length) token ids and their mask."""
Loaded: TypeAlias = tuple[CaptionPair, Tensor | str]
"""A pair with its (frames, 3, side, side) pixels, or why its video cannot be read."""


class _Decoded(Dataset):
    def __init__(self, pairs: Sequence[CaptionPair], encoder: ImageTextEncoder, frames: int) -> None:
        self.pairs, self.frames = pairs, frames
        self.processor, self.size = encoder.processor.image_processor, encoder.frame_size

    def __getitem__(self, number: int) -> Loaded:
        pair = self.pairs[number]
        try:
            video = Video.open(pair.video)
            end = video.duration if pair.end is None else min(pair.end, video.duration)
            if pair.start >= end:
                return pair, f"ends at {video.duration:.1f} s, before the caption's {pair.start:.1f} s"
            times = uniform_times(pair.start, end, self.frames)
            frames = video.frames(times, size=self.size(video.height, video.width))
        except VideoError as error:
            return pair, str(error)
        images = [pad_picture(frame.image) for frame in frames]
        return pair, self.processor(images, return_tensors="pt")["pixel_values"]


class PairBatches:
    """Reads batches. Pairs whose video cannot be read are left out of their batch and named in a log."""

    def __init__(self, encoder: ImageTextEncoder, frames: int, workers: int, unreadable: Path) -> None:
        self.encoder, self.frames, self.workers = encoder, frames, workers
        self.log, self.named = unreadable, set[CaptionPair]()
        self.device = next(encoder.model.parameters()).device

    def endless(
        self, pairs: Sequence[CaptionPair], size: int, seed: int, start: int, end: int
    ) -> Iterator[Batch]:
        """The batches of steps `start` to `end`: epoch after epoch, each in its own order, which depends on
        the seed alone, without a last, smaller batch. Raises RunError for a batch without two readable
        videos."""
        each = len(pairs) // size
        batches: list[list[int]] = []
        for step in range(start, end):
            epoch, place = divmod(step, each)
            if place == 0 or not batches:
                generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
                order = torch.randperm(len(pairs), generator=generator).tolist()
            batches.append(order[place * size : (place + 1) * size])
        return self._read(pairs, batches)

    def once(self, pairs: Sequence[CaptionPair], size: int) -> Iterator[Batch]:
        """All pairs, once."""
        numbers = list(range(len(pairs)))
        return self._read(pairs, [numbers[at : at + size] for at in range(0, len(pairs), size)])

    def _read(self, pairs: Sequence[CaptionPair], batches: list[list[int]]) -> Iterator[Batch]:
        loader = DataLoader(
            _Decoded(pairs, self.encoder, self.frames),
            batch_sampler=batches,
            num_workers=self.workers,
            collate_fn=list,
        )
        for loaded in loader:
            good = [(pair, pixels) for pair, pixels in loaded if isinstance(pixels, Tensor)]
            self._name([(pair, reason) for pair, reason in loaded if isinstance(reason, str)])
            # The other clips of a batch are its negatives, and one alone has none.
            if len(good) < 2:
                raise RunError(
                    f"{len(loaded) - len(good)} of {len(loaded)} videos in a batch cannot be read; see "
                    f"{self.log}"
                )
            tokens = self.encoder.tokens([pair.caption for pair, _ in good]).to(self.device)
            pixels = torch.stack([pixels for _, pixels in good]).to(self.device)
            yield pixels, tokens.input_ids, tokens.attention_mask

    def _name(self, unreadable: Sequence[tuple[CaptionPair, str]]) -> None:
        # Each pair comes again in every epoch.
        if new := [each for each in unreadable if each[0] not in self.named]:
            with closing(JsonLinesLog(self.log)) as log:
                for pair, reason in new:
                    log.append({"video": str(pair.video), "caption": pair.caption, "problem": reason})
                    self.named.add(pair)


class AspClip(nn.Module):
    """CLIP with its temporal transformer."""

    def __init__(self, clip: CLIPModel, temporal: TemporalTransformer) -> None:
        super().__init__()
        self.clip: Any = clip
        self.temporal = temporal

    def forward(self, pixels: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
        """(n_texts, n_clips) cosine similarities for (n_clips, frames, 3, side, side) pixels and (n_texts,
        length) token ids with their mask."""
        clips, frames = pixels.shape[:2]
        seen = self.clip.get_image_features(pixel_values=pixels.flatten(0, 1)).pooler_output
        texts = self.clip.get_text_features(input_ids=ids, attention_mask=mask).pooler_output
        seen = seen.view(clips, frames, -1)
        return score_pooled(normalize(texts, dim=-1), pool_by_each(seen, self.temporal(seen)))

    def scale(self) -> Tensor:
        """The factor of the similarities in the softmax."""
        # CLIP's own bound.
        scale: Tensor = self.clip.logit_scale.exp().clamp(max=100.0)
        return scale


def choose_trained(model: AspClip, trained: str, frozen_layers: int) -> int:
    """Let only these parts be trained; returns the number of their parameters."""
    ends = ("final_layer_norm.", "post_layernorm.", "_projection.", "logit_scale")
    for name, weight in model.named_parameters():
        part, _, inside = name.partition(".layers.")
        if name.startswith("temporal."):
            chosen = True
        elif trained == "upper":
            # CLIP's lower layers see edges and textures, which captions of videos do not change.
            in_layer = bool(inside) and int(inside.split(".")[0]) >= frozen_layers
            chosen = in_layer or (not inside and any(end in part for end in ends))
        else:
            chosen = trained == "all"
        weight.requires_grad_(chosen)
    return sum(weight.numel() for weight in model.parameters() if weight.requires_grad)


def build(settings: AspClipTraining) -> tuple[AspClip, ImageTextEncoder, AspClipConfig]:
    """The model before training, the encoder whose CLIP it is, and the temporal transformer's sizes. Raises
    ModelError for a checkpoint that cannot be loaded or does not fit."""
    encoder = ImageTextEncoder(settings.clip, kind="clip", device=settings.device)
    width = int(encoder.model.config.projection_dim)
    if width % settings.heads:
        raise ConfigError(f"heads is {settings.heads}; it must divide {width}, the width of the shared space")
    config = AspClipConfig(width, settings.heads, settings.layers, settings.frames)
    temporal = TemporalTransformer(config)
    temporal.initialize_from_text_tower(encoder.model.text_model)
    model = AspClip(encoder.model, temporal.to(next(encoder.model.parameters()).device))
    return model, encoder, config


def run(settings: AspClipTraining) -> None:
    """Train, or resume. Raises VideoProError."""
    pairs = load_pairs(
        {name: Path(folder).expanduser() for name, folder in settings.sources.items()},
        settings.units,
        limits=settings.limits,
        seed=settings.seed,
        skip_broken=settings.skip_broken,
    )
    train_pairs, unseen = split(pairs, settings.held_out, settings.seed)
    if len(train_pairs) < settings.batch:
        raise ConfigError(
            f"{len(train_pairs)} training pairs, fewer than a batch of {settings.batch}; lower batch or "
            "held_out, or add sources"
        )
    model, encoder, config = build(settings)
    count = choose_trained(model, settings.trained, settings.frozen_layers)
    total = sum(weight.numel() for weight in model.parameters())
    print(f"{count / 1e6:.1f}M of {total / 1e6:.1f}M parameters are trained", flush=True)
    recipe = RetrieverRecipe(settings.steps, settings.batch, settings.lr, settings.warmup, 0.2, settings.seed)
    load = PairBatches(encoder, settings.frames, settings.workers, settings.output / "unreadable.jsonl")
    # Made at the first step, since only the loop knows where a resumed run starts.
    stream: list[Iterator[tuple[Tensor, Tensor, Tensor]]] = []

    def loss_at(step: int) -> Tensor:
        if not stream:
            stream.append(load.endless(train_pairs, settings.batch, settings.seed, step, settings.steps))
        with torch.autocast(load.device.type, torch.bfloat16, enabled=settings.bf16):
            scores = model(*next(stream[0])).float()
        return contrastive_loss(model.scale() * scores, torch.eye(len(scores), device=scores.device))

    @torch.no_grad()
    def measure() -> dict[str, float]:
        model.eval()
        batches = list(load.once(unseen, settings.batch))
        scores = [model(*batch) for batch in batches]
        model.train()
        targets = [torch.eye(len(each), device=each.device) for each in scores]
        losses = [contrastive_loss(model.scale() * s, eye) for s, eye in zip(scores, targets, strict=True)]
        hits = torch.cat([s.argmax(1) == torch.arange(len(s), device=s.device) for s in scores])
        loss = float(torch.stack(losses).mean())
        return {"loss": round(loss, 4), "top1": round(float(hits.float().mean()), 4), "pairs": len(hits)}

    def share(name: str) -> float:
        return 1.0 if name.startswith("temporal.") else settings.clip_lr_share

    folder = settings.output / "model"
    with sole_writer(settings.output):
        train(model, recipe, settings.output, loss_at, measure, share)
        encoder.model.save_pretrained(folder)
        encoder.processor.save_pretrained(folder)
        write_folder(folder, config, model.temporal, {})
    print(f"{folder}: done; {asdict(recipe)}")


def split(
    pairs: Sequence[CaptionPair], held_out: int, seed: int
) -> tuple[list[CaptionPair], list[CaptionPair]]:
    """The pairs to train on, and `held_out` random pairs of other videos."""
    order = torch.randperm(len(pairs), generator=torch.Generator().manual_seed(seed)).tolist()
    videos = {pairs[i].video for i in order[:held_out]}
    unseen = [pairs[i] for i in order[:held_out]]
    return [pair for pair in pairs if pair.video not in videos], unseen


COMMAND = ASP_CLIP


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status: 0, 2 for errors the user can fix, 130 when interrupted."""
    with exit_status() as status:
        run(COMMAND.parse(argv))
    return status.code


if __name__ == "__main__":
    sys.exit(main())
