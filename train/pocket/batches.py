"""Turns rows of exchanges into batches for the pocket model.

The exchanges of a row share its picture or video, and the text that all of them begin with. Each attends to
this and to itself, never to the others, and its positions continue from it, so that each exchange is
processed exactly as if it were alone. What is shared is encoded once for all of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from transformers import PreTrainedTokenizerFast

from videopro.train.pocket.architecture import PIXELS
from videopro.train.pocket.qa_pairs import PocketExample

PATCH, MERGE = 16, 2


@dataclass
class TokenBatch:
    """(B, L) ids, (3, B, L) M-RoPE positions, (B, 1, L, L) mask, and (B, L) loss weights of the tokens."""

    input_ids: torch.Tensor
    position_ids: torch.Tensor
    mask: torch.Tensor
    weights: torch.Tensor
    exchange: torch.Tensor  # (B, L): the exchange that a token belongs to; 0: shared by all, -1: padding
    pixels: torch.Tensor | None  # (patches, 1536) uint8
    grid: torch.Tensor | None  # (videos or images, 3)


def patches(frames: np.ndarray) -> tuple[np.ndarray, tuple[int, int, int]]:
    """(n, h, w, 3) frames, n even, as Qwen3-VL's flat patches and their grid. A test compares it with the
    processor.
    """
    count, height, width, _ = frames.shape
    t, h, w = count // 2, height // PATCH, width // PATCH
    split = frames.reshape(t, 2, h // MERGE, MERGE, PATCH, w // MERGE, MERGE, PATCH, 3)
    return split.transpose(0, 2, 5, 3, 6, 8, 1, 4, 7).reshape(t * h * w, -1), (t, h, w)


def still_size(height: int, width: int) -> tuple[int, int]:
    """The size to which the pocket image processor resizes a picture."""
    from transformers.models.qwen2_vl.image_processing_qwen2_vl import smart_resize

    size: tuple[int, int] = smart_resize(height, width, PATCH * MERGE, PIXELS * 9 // 10, PIXELS)
    return size


class BatchEncoder:
    """Encodes rows as batches."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        self.tokenizer = tokenizer
        self._pad = tokenizer.get_vocab()["<|endoftext|>"]
        self._cache: dict[str, list[int]] = {}

    def ids(self, text: str) -> list[int]:
        ids = self._cache.get(text)
        if ids is None:
            ids = self.tokenizer(text).input_ids
            # Bounded, as texts are drawn without end.
            if len(self._cache) < 200_000:
                self._cache[text] = ids
        return ids

    def _shared(self, row: PocketExample, grid: tuple[int, int, int] | None) -> tuple[list[int], np.ndarray]:
        """The ids of the part that all exchanges share, and their (3, n) positions."""
        ids, columns, at = list(self.ids("<|im_start|>user\n")), [], 0

        def text(length: int) -> None:
            nonlocal at
            columns.append(np.tile(np.arange(at, at + length), (3, 1)))
            at += length

        def vision(h: int, w: int) -> None:
            nonlocal at
            rows, cols = np.divmod(np.arange(h * w), w)
            columns.append(np.stack([np.full(h * w, at), at + rows, at + cols]))
            at += max(h, w)

        text(len(ids))
        if grid is not None:
            t, h, w = grid[0], grid[1] // MERGE, grid[2] // MERGE
            times = row.times
            for group in range(t):
                # Qwen3-VL writes the mean time of two frames before them; a picture has none.
                before = "<|vision_start|>"
                if row.frames is not None:
                    mean = (times[2 * group] + times[2 * group + 1]) / 2
                    before = f"<{mean:.1f} seconds>{before}"
                pad = "<|video_pad|>" if row.frames is not None else "<|image_pad|>"
                opened = self.ids(before)
                ids += [*opened, *self.ids(pad) * (h * w), *self.ids("<|vision_end|>")]
                text(len(opened))
                vision(h, w)
                text(1)
        return ids, np.concatenate(columns, 1)

    def batch(self, rows: Sequence[PocketExample]) -> TokenBatch:
        """Encode a batch of rows: all with videos, all with pictures, or all text only."""
        encoded, pixels, grids = [], [], []
        for row in rows:
            grid = None
            if row.frames is not None:
                flat, grid = patches(np.asarray(row.frames))
            elif row.picture is not None:
                flat, grid = patches(_still(row.picture))
            if grid is not None:
                pixels.append(flat)
                grids.append(grid)
            encoded.append(self._row(row, grid))
        length = max(len(ids) for ids, *_ in encoded)
        count = len(rows)
        input_ids = np.full((count, length), self._pad)
        positions = np.zeros((3, count, length), dtype=np.int64)
        exchange = np.full((count, length), -1)
        weights = np.zeros((count, length), dtype=np.float32)
        for i, (ids, row_positions, parts, weight) in enumerate(encoded):
            n = len(ids)
            input_ids[i, :n], positions[:, i, :n] = ids, row_positions
            exchange[i, :n], weights[i, :n] = parts, weight
        part = torch.from_numpy(exchange)
        same = part[:, :, None] == part[:, None, :]
        shared = part[:, None, :] == 0
        # Shared tokens attend to no exchange: only so are they the same for all.
        mask = (same | (shared & (part[:, :, None] > 0))) & torch.ones(
            length, length, dtype=torch.bool
        ).tril()
        return TokenBatch(
            torch.from_numpy(input_ids),
            torch.from_numpy(positions),
            mask[:, None],
            torch.from_numpy(weights),
            part,
            torch.from_numpy(np.concatenate(pixels)) if pixels else None,
            torch.tensor(grids) if grids else None,
        )

    def _row(
        self, row: PocketExample, grid: tuple[int, int, int] | None
    ) -> tuple[list[int], np.ndarray, np.ndarray, np.ndarray]:
        ids, positions = self._shared(row, grid)
        heads = [self.ids(f"{request}<|im_end|>\n<|im_start|>assistant\n") for request, _ in row.exchanges]
        common = _shared_start(heads)
        ids = [*ids, *heads[0][:common]]
        start = int(positions.max()) + 1
        columns = [positions, np.tile(np.arange(start, start + common), (3, 1))]
        start += common
        parts, weights = [0] * len(ids), [0.0] * len(ids)
        for number, (ids_of_head, (_, reply)) in enumerate(zip(heads, row.exchanges, strict=True), 1):
            head = ids_of_head[common:]
            tail = self.ids(f"{reply}<|im_end|>")
            ids = [*ids, *head, *tail]
            n = len(head) + len(tail)
            columns.append(np.tile(np.arange(start, start + n), (3, 1)))
            parts += [number] * n
            # Exchanges have about the same weight; long replies count a little more.
            weights += [0.0] * len(head) + [len(tail) ** -0.5] * len(tail)
        return ids, np.concatenate(columns, 1), np.array(parts), np.array(weights, dtype=np.float32)


def _shared_start(texts: Sequence[Sequence[int]]) -> int:
    """How many ids all texts begin with; 0 for a single text, which shares nothing."""
    # A single exchange would share all of its text, and leave nothing to be its own.
    if len(texts) == 1:
        return 0
    columns = zip(*texts, strict=False)
    return next((i for i, column in enumerate(columns) if len({*column}) > 1), min(map(len, texts)))


def _still(picture: np.ndarray) -> np.ndarray:
    """A picture at the processor's size, twice, since Qwen's image processor repeats it in time."""
    from videopro.train.pocket.tasks import resized

    size = still_size(*picture.shape[:2])
    if picture.shape[:2] != size:
        picture = resized(picture, size)
    return np.stack([picture, picture])
