"""Batches of caption-video pairs as CLIP's inputs, decoded by several processes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from videopro.errors import RunError, VideoError
from videopro.modules.models.encoders.images import ImageTextEncoder
from videopro.storage import JsonLinesLog
from videopro.train.retrieval.pairs import CaptionPair
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
        """The batches of steps `start` to `end`: epoch after epoch, each in an order of its own that depends
        on the seed alone, without a last, smaller batch. Raises RunError for a batch without two readable
        videos."""
        each, batches = len(pairs) // size, list[list[int]]()
        for epoch in range(start // each, -(-end // each)):
            generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
            order = torch.randperm(len(pairs), generator=generator).tolist()
            batches += [order[at : at + size] for at in range(0, each * size, size)]
        first = start - start // each * each
        return self._read(pairs, batches[first : first + end - start])

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
                    f"{len(loaded) - len(good)} of a batch's {len(loaded)} videos cannot be read; see "
                    f"{self.log}"
                )
            tokens = self.encoder.tokens([pair.caption for pair, _ in good]).to(self.device)
            pixels = torch.stack([pixels for _, pixels in good]).to(self.device)
            yield pixels, tokens.input_ids, tokens.attention_mask

    def _name(self, unreadable: Sequence[tuple[CaptionPair, str]]) -> None:
        new = [(pair, reason) for pair, reason in unreadable if pair not in self.named]
        if not new:
            return
        log = JsonLinesLog(self.log)
        try:
            for pair, reason in new:
                log.append({"video": str(pair.video), "caption": pair.caption, "problem": reason})
                self.named.add(pair)
        finally:
            log.close()
