"""Teaches the pocket model's vision layers to name what each cell of a picture shows.

The target of a cell is the sum of the embeddings of its words (`CodeTable`), so that the language layers can
then read pictures as they read words. `videopro.train.pocket.language` takes `state.pt` and `table.pt` (the
targets) from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch.nn import functional
from torch.utils.data import DataLoader, IterableDataset
from transformers import PreTrainedTokenizerFast
from transformers.models.qwen3_vl.modeling_qwen3_vl import (
    Qwen3VLVisionModel,
    apply_rotary_pos_emb_vision,
    get_vision_interpolation_indices_and_weights,
    get_vision_position_ids,
)

from videopro.pocket.drawing import HEIGHT, WIDTH
from videopro.pocket.script import make_script
from videopro.pocket.vocabulary import COLORS, PLACES, SHAPES, SIGNS, WEATHERS
from videopro.train.pocket import architecture as checkpoint
from videopro.train.pocket.architecture import FRAME_SIZE, FRAMES, mixed_precision
from videopro.train.pocket.batches import MERGE, PATCH, patches
from videopro.train.pocket.frames import HELD_OUT, drawn_frames
from videopro.train.pocket.qa_pairs import Rng
from videopro.train.pocket.tasks import VisionTasks, resized
from videopro.train.retrieval.training import steps_done, take_steps

PixelBox = Sequence[float]

GROUPS = {"place": PLACES, "weather": WEATHERS, "color": tuple(COLORS), "shape": SHAPES, "sign": SIGNS}
VOCABULARY = [word for group in GROUPS.values() for word in group]
INDEX = {word: i for i, word in enumerate(VOCABULARY)}
KNOTS = 21  # an edge between 0 and 1 is interpolated linearly between two knots
CODES = len(VOCABULARY) + 4 * KNOTS
GRID = (3, 5)  # cells of a frame of 96x160 pixels
FULL = (0.0, 0.0, float(WIDTH), float(HEIGHT))


def symbols(
    annotation: dict, actor_box: PixelBox | None, window: PixelBox = FULL, grid: tuple[int, int] = GRID
) -> np.ndarray:
    """The symbols, (h, w, CODES) float16, of a frame or of its part in `window` (x0, y0, x1, y1 in
    pixels)."""
    height, width = grid
    cells = np.zeros((height, width, CODES), np.float32)
    cells[:, :, INDEX[annotation["place"]]] = 1
    cells[:, :, INDEX[annotation["weather"]]] = 1
    objects: list[tuple[PixelBox, tuple[str, ...]]] = []
    if annotation["sign"]:
        objects.append((annotation["sign_box"], (annotation["sign"],)))
    if annotation["actor"] and actor_box is not None:
        objects.append((actor_box, (annotation["actor"]["color"], annotation["actor"]["shape"])))
    for box, labels in objects:
        x0, x1 = ((box[k] - window[0]) / (window[2] - window[0]) for k in (0, 2))
        y0, y1 = ((box[k] - window[1]) / (window[3] - window[1]) for k in (1, 3))
        seen = [min(1.0, max(0.0, v)) for v in (x0, y0, x1, y1)]
        # An object of which less than a third is visible is left out.
        if (seen[2] - seen[0]) * (seen[3] - seen[1]) < 0.34 * (x1 - x0) * (y1 - y0):
            continue
        columns = _overlap(seen[0] * width, seen[2] * width, width)
        rows = _overlap(seen[1] * height, seen[3] * height, height)
        shared = rows[:, None] * columns[None]
        # A cell shows an object if it has a quarter of a cell or 15 % of the object in it; the cell with most
        # of it always does.
        on = (shared > 0.25) | (shared > 0.15 * shared.sum()) | (shared == shared.max())
        cells[on, len(VOCABULARY) :] = _edges(seen)
        for word in labels:
            cells[on, INDEX[word]] = 1
    return cells.astype(np.float16)


def _overlap(low: float, high: float, count: int) -> np.ndarray:
    """The fraction of each of `count` unit cells that lies between low and high."""
    starts = np.arange(count)
    return np.clip(np.minimum(high, starts + 1) - np.maximum(low, starts), 0, None)


def _edges(values: Sequence[float]) -> np.ndarray:
    out = np.zeros((4, KNOTS), np.float32)
    for k, value in enumerate(values):
        at = value * (KNOTS - 1)
        low = min(int(at), KNOTS - 2)
        out[k, low], out[k, low + 1] = low + 1 - at, at - low
    return out.ravel()


def scene_symbols(annotation: dict) -> np.ndarray:
    """The symbols of the frames of a scene, (16, 3, 5, CODES)."""
    boxes = annotation["actor_boxes"] or [None] * FRAMES
    return np.stack([symbols(annotation, box) for box in boxes])


def video_symbols(length: str, seed: int) -> np.ndarray:
    """The symbols of 16 uniform frames of a video, (16, 3, 5, CODES)."""
    plan = make_script(length, seed)
    frames = []
    for _, at, inside in drawn_frames(plan):
        annotation = {
            "place": at.place,
            "weather": plan.weather,
            "actor": at.actor and {"color": at.actor.color, "shape": at.actor.shape},
            "sign": at.sign and at.sign.word,
            "sign_box": at.sign and at.sign.box(),
        }
        frames.append(symbols(annotation, None if at.actor is None else at.actor.box(inside)))
    return np.stack(frames)


class CodeTable:
    """The vectors of the codes: the embeddings of their words, and random vectors for the knots."""

    def __init__(self, width: int, tokenizer: PreTrainedTokenizerFast) -> None:
        ids = tokenizer.get_vocab()
        self.rows = torch.tensor([ids[f"\u0120{word}"] for word in VOCABULARY])
        knots = torch.randn(4 * KNOTS, width, generator=torch.Generator().manual_seed(1))
        self.knots = knots / knots.norm(dim=1, keepdim=True)

    def of(self, embeddings: torch.Tensor) -> torch.Tensor:
        """The table, (CODES, D), for the given embeddings."""
        return torch.cat([embeddings[self.rows], self.knots])


@torch.no_grad()
def translate(merger: torch.nn.Linear, learned: torch.Tensor, target: torch.Tensor) -> None:
    """Change a layer that outputs sums of the rows of `learned` (CODES, D) to output those of `target`."""
    change = torch.linalg.pinv(learned) @ target  # (D, D): x = codes @ learned becomes codes @ wanted
    merger.weight.copy_(change.T @ merger.weight)
    merger.bias.copy_(merger.bias @ change)


STEPS, SIZE, RATE, SEED = 6000, 48, 1e-3, 0
"""Of the training: steps, pictures in a step, the highest learning rate, and the random seed."""

CROP_SIZES = ((96, 160), (128, 96), (96, 128), (160, 96), (64, 224), (224, 64), (64, 192))


def encode_pictures(visual: Any, pixels: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """The features of n frame groups of one size, computed by `visual` in one batch instead of one by one.

    pixels: (n, h, w, 1536) normalized patches in the processor's order, h and w in patches. Returns the
    (n * cells, D) merged features, and the same for each DeepStack level. A test compares it with the model's
    own forward. `visual` is a `Qwen3VLVisionModel` (whose parts have no types).
    """
    count, height, width, _ = pixels.shape
    # All pictures have one size, so positions are computed for a grid of one.
    grid = torch.tensor([[1, height, width]])
    where, share = get_vision_interpolation_indices_and_weights(
        grid,
        num_grid_per_side=visual.num_grid_per_side,
        mode=visual.interpolation_mode,
        align_corners=visual.interpolation_align_corners,
        spatial_merge_size=MERGE,
        kwargs={},
    )
    patch = visual.patch_embed.proj
    states = functional.linear(pixels.flatten(1, 2), patch.weight.flatten(1), patch.bias)
    states = states + (visual.pos_embed(where) * share[:, :, None]).sum(1)
    positions = get_vision_position_ids(grid, MERGE, kwargs={})
    cos, sin = visual.rotary_pos_emb(states, positions)
    levels = []
    for number, block in enumerate(visual.blocks):
        normed, attention = block.norm1(states), block.attn
        query, key, value = (
            attention.qkv(normed).reshape(count, -1, 3, attention.num_heads, attention.head_dim).unbind(2)
        )
        query, key = apply_rotary_pos_emb_vision(query, key, cos, sin)
        mixed = functional.scaled_dot_product_attention(
            query.transpose(1, 2).to(value.dtype), key.transpose(1, 2).to(value.dtype), value.transpose(1, 2)
        )
        states = states + attention.proj(mixed.transpose(1, 2).flatten(2))
        states = states + block.mlp(block.norm2(states))
        if number in visual.deepstack_visual_indexes:
            merger = visual.deepstack_merger_list[visual.deepstack_visual_indexes.index(number)]
            levels.append(merger(states.flatten(0, 1)))
    return visual.merger(states.flatten(0, 1)), levels


def encode_sized_pictures(
    visual: Qwen3VLVisionModel, pixels: torch.Tensor, grid: torch.Tensor
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """The same for pictures or videos of several sizes: pixels (patches, 1536), grid (n, 3)."""
    parts = pixels.split(grid.prod(1).tolist())
    alike: dict[tuple[int, int], list[int]] = {}
    for number, (_, height, width) in enumerate(grid.tolist()):
        alike.setdefault((height, width), []).append(number)
    merged: dict[int, tuple[torch.Tensor, ...]] = {}
    for (height, width), numbers in alike.items():
        out, levels = encode_pictures(
            visual, torch.cat([parts[n] for n in numbers]).view(-1, height, width, pixels.shape[1])
        )
        sizes = [parts[n].shape[0] // MERGE**2 for n in numbers]
        merged |= zip(
            numbers,
            zip(out.split(sizes), *(level.split(sizes) for level in levels), strict=True),
            strict=True,
        )
    rows = [torch.cat(pieces) for pieces in zip(*(merged[n] for n in range(len(parts))), strict=True)]
    return rows[0], rows[1:]


def groups_of(frames: np.ndarray) -> np.ndarray:
    """Pairs of frames, (n, 2, H, W, 3), as (n, h, w, 1536) uint8 patches."""
    count, _, height, width, _ = frames.shape
    flat, _ = patches(frames.reshape(count * 2, height, width, 3))
    return flat.reshape(count, height // PATCH, width // PATCH, -1)


@torch.no_grad()
def whiten(visual: Qwen3VLVisionModel, samples: torch.Tensor) -> None:
    """Initialize the patch embedding with the principal components of patches, scaled to about equal size.

    Nearly all of the variance between patches is brightness and colour; outlines, which distinguish a ring
    from a ball, are a hundredth of it. With random filters, colours were learned within 500 steps and shapes
    hardly after 1,500. samples: (n, 1536) normalized patches.
    """
    mean = samples.mean(0)
    _, spread, parts = torch.linalg.svd(samples - mean, full_matrices=False)
    size = spread[: visual.patch_embed.proj.out_channels] / len(samples) ** 0.5
    # The smallest components are codec noise, so their amplification is limited.
    filters = parts[: len(size)] / (size + 0.1 * size[len(size) // 4])[:, None]
    patch: Any = visual.patch_embed.proj
    patch.weight.copy_(0.5 * filters.view_as(patch.weight))
    patch.bias.copy_(-0.5 * filters @ mean)
    visual.pos_embed.weight.mul_(10)


class PictureDataset(IterableDataset):
    """Endless batches of pictures of one size, with what each of their cells shows."""

    def __init__(self, frames: Path, start: int, steps: int, size: int, seed: int, held_out: bool) -> None:
        self.folder, self.start, self.steps, self.size, self.seed = frames, start, steps, size, seed
        self.held_out = held_out

    def __iter__(self) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
        pool = VisionTasks(self.folder)
        part = slice(-HELD_OUT, None) if self.held_out else slice(None, -HELD_OUT)
        pool.keep(part, part)
        scenes = [scene_symbols(annotation) for annotation in pool.annotations]
        videos = [
            video_symbols(annotation["length"], annotation["seed"]) for annotation in pool.video_annotations
        ]
        for step in range(self.start, self.steps):
            rng = np.random.default_rng([self.seed, step])
            # Half of all steps are crops: what fills the picture is learned first.
            make = (self._pairs, self._crops, self._crops, self._stills)[step % 4]
            pixels, codes = make(rng, pool, scenes, videos)
            yield step, torch.from_numpy(groups_of(pixels)), torch.from_numpy(codes.astype(np.float32))

    def _pairs(
        self, rng: Rng, pool: VisionTasks, scenes: list[np.ndarray], videos: list[np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Two frames of a scene, or two consecutive ones of a whole video, often from two scenes."""
        pixels, codes = [], []
        for _ in range(self.size):
            if rng.random() < 0.65:
                index = int(rng.choice(pool.acted)) if rng.random() < 0.9 else int(rng.integers(len(scenes)))
                pair = np.sort(rng.choice(16, 2, replace=False)) if rng.random() < 0.5 else None
                if pair is None:
                    first = int(rng.integers(15))
                    pair = np.array([first, first + 1])
                pixels.append(pool.scenes[index][pair])
                codes.append(scenes[index][pair].mean(0))
            else:
                index, first = int(rng.integers(len(videos))), 2 * int(rng.integers(8))
                pixels.append(pool.videos[index][first : first + 2])
                codes.append(videos[index][first : first + 2].mean(0))
        return np.stack(pixels), np.stack(codes)

    def _stills(
        self, rng: Rng, pool: VisionTasks, scenes: list[np.ndarray], videos: list[np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        pixels, codes = [], []
        for _ in range(self.size):
            index = int(rng.integers(len(pool.annotations)))
            picture = resized(pool.stills[index], FRAME_SIZE)
            pixels.append(np.stack([picture, picture]))
            codes.append(symbols(pool.annotations[index], pool.annotations[index]["actor_box"]))
        return np.stack(pixels), np.stack(codes)

    def _crops(
        self, rng: Rng, pool: VisionTasks, scenes: list[np.ndarray], videos: list[np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Tight or loose crops of stills around the actor or the sign, all resized to one size."""
        height, width = CROP_SIZES[int(rng.integers(len(CROP_SIZES)))]
        pixels, codes = [], []
        for _ in range(self.size):
            signed = rng.random() < 0.55
            index = int(rng.choice(pool.signed if signed else pool.acted))
            annotation = pool.annotations[index]
            window = crop_window(rng, annotation["sign_box" if signed else "actor_box"], width / height)
            x0, y0, x1, y1 = window
            picture = resized(pool.stills[index][y0:y1, x0:x1], (height, width))
            pixels.append(np.stack([picture, picture]))
            codes.append(symbols(annotation, annotation["actor_box"], window, (height // 32, width // 32)))
        return np.stack(pixels), np.stack(codes)


def crop_window(rng: Rng, box: list[float], aspect: float) -> tuple[int, int, int, int]:
    """A random window of about this aspect ratio (width / height) that contains the box."""
    x0, y0, x1, y1 = box
    room = 1 + 2 * float(rng.choice([0.03, 0.15, 0.4, 0.8]))
    width, height = (x1 - x0) * room, (y1 - y0) * room
    # The aspect ratio is kept approximately: a crop is stretched by up to a third.
    ratio = aspect * float(rng.uniform(0.8, 1.25))
    width, height = max(width, height * ratio), max(height, width / ratio)
    width, height = min(width, WIDTH), min(height, HEIGHT)
    left = float(np.clip(x0 - rng.random() * (width - (x1 - x0)), 0, WIDTH - width))
    top = float(np.clip(y0 - rng.random() * (height - (y1 - y0)), 0, HEIGHT - height))
    return int(left), int(top), int(np.ceil(left + width)), int(np.ceil(top + height))


def loss_of(out: torch.Tensor, codes: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """The distance to the target sum, plus, for each group of words, the cross-entropy of which word it is.

    out: (cells, D); codes: (cells, CODES); table: (CODES, D).
    """
    out, scale = out.float(), table.square().sum(1)
    target = codes @ table
    # A cell with an object counts four times, since most show the background alone.
    busy = 1 + 3 * (codes[:, len(VOCABULARY) :].sum(1) > 0).float()
    loss = ((out - target).square().sum(1) / scale.mean() * busy).mean()
    scores = 8 * (out @ table.T) / scale
    first = 0
    for name, group in GROUPS.items():
        part = slice(first, first + len(group))
        first += len(group)
        shares = codes[:, part]
        remainder = (1 - shares.sum(1, keepdim=True)).clamp(min=0)
        # Each cell has a place and a weather; it may have no object.
        none = torch.full_like(remainder, -1e4 if name in ("place", "weather") else 4.0)
        logs = torch.log_softmax(torch.cat([scores[:, part], none], 1), 1)
        truth = torch.cat([shares, remainder], 1)
        loss = loss - (truth * logs * busy[:, None]).sum(1).mean()
    edges = codes[:, len(VOCABULARY) :].reshape(-1, 4, KNOTS)
    logs = torch.log_softmax(scores[:, len(VOCABULARY) :].reshape(-1, 4, KNOTS), 2)
    return loss - 0.5 * (edges * logs).sum((1, 2)).sum() / edges.sum().clamp(min=1) * 4


@torch.no_grad()
def measure(visual: Qwen3VLVisionModel, folder: Path, table: torch.Tensor) -> dict[str, float]:
    """On held-out pictures: accuracy by group of words over cells with a single right word, and the median
    error of box edges as a fraction of the picture.
    """
    right: dict[str, list[float]] = {}
    scale = table.square().sum(1)
    names = ("pair", "crop", "crop", "still")
    for step, pixels, codes in PictureDataset(folder, 0, 12, 48, 7, True):
        out = encode_pictures(visual, pixels.float() / 127.5 - 1)[0].float()
        scores, flat = (out @ table.T) / scale, codes.flatten(0, 2)
        first = 0
        for name, group in GROUPS.items():
            part = slice(first, first + len(group))
            first += len(group)
            # At the border of two scenes or of an object, no single word is right.
            sure = flat[:, part].max(1).values > 0.9
            hits = scores[sure][:, part].argmax(1) == flat[sure][:, part].argmax(1)
            right.setdefault(f"{names[step % 4]}/{name}", []).append(float(hits.float().mean()))
        # Weights of all four edges: less if only one of two frames shows the object.
        there = flat[:, len(VOCABULARY) :].sum(1) > 3.9
        weight = scores[there][:, len(VOCABULARY) :].reshape(-1, 4, KNOTS).mul(8).softmax(2)
        knots = torch.arange(KNOTS) / (KNOTS - 1)
        truth = (flat[there][:, len(VOCABULARY) :].reshape(-1, 4, KNOTS) * knots).sum(2)
        off = ((weight * knots).sum(2) - truth).abs().median()
        right.setdefault(f"{names[step % 4]}/edge_off", []).append(float(off))
    return {name: round(float(np.nanmean(values)), 3) for name, values in sorted(right.items())}


def train_vision(frames: Path, output: Path) -> None:
    """Train on a pool of frames, and write the state and the targets. Resumes from the last state."""
    # Beside it a process of the loader draws the pictures.
    torch.set_num_threads(1)
    output.mkdir(parents=True, exist_ok=True)
    tokenizer = checkpoint.build_tokenizer()
    model = checkpoint.build_model(tokenizer, SEED)
    embeddings = cast(torch.nn.Embedding, model.get_input_embeddings()).weight.detach()
    table = CodeTable(embeddings.shape[1], tokenizer).of(embeddings)
    torch.save(table, output / "table.pt")
    visual = model.model.visual
    # DeepStack's features are no part of the target; `language` starts them at zero.
    trained = {n: w for n, w in visual.named_parameters() if not n.startswith("deepstack_merger_list")}
    patch = [weight for name, weight in trained.items() if name.startswith("patch_embed")]
    rest = [weight for name, weight in trained.items() if not name.startswith("patch_embed")]
    # The patches slower, for the reason in `language.optimizer_groups`.
    groups: list[dict[str, Any]] = [{"params": patch, "share": 0.1}, {"params": rest, "share": 1.0}]
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.95), weight_decay=0.02, fused=True)
    some = [pixels for _, pixels, _ in PictureDataset(frames, 0, 8, 48, SEED + 1, False)]
    whiten(visual, torch.cat([pixels.flatten(0, 2)[::2] for pixels in some]).float() / 127.5 - 1)
    start = steps_done(output)
    pictures = PictureDataset(frames, start, STEPS, SIZE, SEED, False)
    batches = iter(DataLoader(pictures, batch_size=None, num_workers=1, prefetch_factor=3))

    def losses(step: int) -> list[torch.Tensor]:
        _, pixels, codes = next(batches)
        with mixed_precision():
            out, _ = encode_pictures(visual, pixels.float() / 127.5 - 1)
        return [loss_of(out, codes.flatten(0, 2), table)]

    def rate(step: int) -> float:
        fall = min(1.0, (STEPS - step) / (0.25 * STEPS))
        return RATE * min(1.0, (step + 1) / 200) * max(0.02, fall)

    def measured() -> dict[str, float]:
        with mixed_precision():
            return measure(visual, frames, table)

    take_steps(visual, optimizer, STEPS, rate, output, losses, measured)
