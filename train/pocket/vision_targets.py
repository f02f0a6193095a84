"""The training targets of the pocket model's vision layers: what a frame shows, in symbols.

Each cell of a frame (32x32 pixels, one token of the language layers) is a vector over CODES: the words for
what the cell shows (place, weather, colour and shape of the actor in it, the sign's word) and the edges of
that object's box. The vision layers learn to output the sum of the words' embeddings, so that the language
layers can read pictures much as they read words. Used in training only.
"""

from collections.abc import Sequence

import numpy as np
import torch
from transformers import PreTrainedTokenizerFast

from videopro.pocket.drawing import HEIGHT, WIDTH
from videopro.pocket.script import make_script
from videopro.pocket.vocabulary import COLORS, PLACES, SHAPES, SIGNS, WEATHERS
from videopro.train.pocket.architecture import FRAMES
from videopro.train.pocket.frames import drawn_frames

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
