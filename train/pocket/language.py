"""Trains the shipped pocket model from scratch on two cores, in stages.

First, separately, the vision layers learn to name what each cell of a picture shows
(`videopro.train.pocket.vision`), and the language layers to pick options and to find facts in text. Then they
are joined. Later stages train mostly on boxes, then on copying what was read, and at the end on everything
once more. The model that ships is an average of the last two, which keeps most of what the last one gained
and forgets less.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset
from transformers import Qwen3VLForConditionalGeneration, Qwen3VLProcessor

from videopro.train.pocket import architecture as checkpoint
from videopro.train.pocket.architecture import FRAME_SIZE, mixed_precision
from videopro.train.pocket.batches import BatchEncoder, TokenBatch
from videopro.train.pocket.frames import HELD_OUT
from videopro.train.pocket.qa_pairs import PocketExample, Rng, copying_rows, pick_row, text_row, with_copying
from videopro.train.pocket.tasks import VisionTasks
from videopro.train.pocket.vision import CodeTable, encode_sized_pictures, translate
from videopro.train.retrieval.training import steps_done, take_steps

_WARMUP = 150


@dataclass(frozen=True)
class Stage:
    """A stage: what it starts from, what it trains on, and how long."""

    name: str
    """Its folder, with `log.jsonl`, the last state and, if it saw frames, `model/`."""
    rows: RowSampler
    steps: int
    state: str = ""
    """The stage whose last state (fp32) it starts from."""
    model: str = ""
    """The stage whose saved model (bf16) it starts from."""
    takes_vision: bool = False
    """Whether the vision layers come from `videopro.train.pocket.vision`."""
    hold_vision: int = 0
    """Steps during which the vision layers are frozen."""
    lr: float = 1e-3
    """The highest learning rate."""
    decay: float = 0.3
    """Share of the steps, at the end, over which the learning rate falls."""
    seed: int = 0

    def rate(self, step: int) -> float:
        """The learning rate at a step."""
        fall = 1.0 if self.decay == 0 else min(1.0, (self.steps - step) / (self.decay * self.steps))
        return self.lr * min(1.0, (step + 1) / _WARMUP) * max(0.02, fall)


RowSampler = Callable[[Stage, Rng, int, VisionTasks], list[list[PocketExample]]]
"""The rows of a step, in groups of one kind."""


def language_rows(stage: Stage, rng: Rng, step: int, _: VisionTasks) -> list[list[PocketExample]]:
    """Picking a named option from ever more words; then lines of text."""
    picking = stage.steps // 2
    if step < picking:
        at = step / picking
        # The levels of `pick`: colours, then visible things, then all words.
        return [[pick_row(rng, 0 if at < 0.15 else 1 if at < 0.75 else 2) for _ in range(4)]]
    done = (step - picking) / (stage.steps - picking)
    return [[text_row(rng, max(0.15, 0.5 - done)) for _ in range(3)]]


def pixel_rows(stage: Stage, rng: Rng, step: int, frames: VisionTasks) -> list[list[PocketExample]]:
    """Text and pixels: single scenes or crops first, then several scenes, then whole videos."""
    done, kind = step / stage.steps, step % 6
    groups = [[text_row(rng, 0.15) for _ in range(3)]] if step % 2 else []
    groups.append([frames.scene_row(rng) for _ in range(5)])
    if done < 0.15 and kind % 3:
        groups.append([frames.glance_row(rng, 0.3) for _ in range(6)])
    elif kind in (0, 3):
        groups.append([frames.picture_row(rng, FRAME_SIZE) for _ in range(6)])
    elif kind == 1:
        groups.append([frames.look_row(rng, FRAME_SIZE, 0.3) for _ in range(6)])
    elif kind == 2 or done < 0.4:
        groups.append([frames.joined_row(rng, 2 if done < 0.2 else 3 if done < 0.4 else 6) for _ in range(5)])
    else:
        groups.append([frames.video_row(rng) for _ in range(5)])
    return groups


def box_rows(stage: Stage, rng: Rng, step: int, frames: VisionTasks) -> list[list[PocketExample]]:
    """Boxes in every step; in every other step all else too, so that nothing is forgotten."""
    groups = [[frames.box_row(rng, FRAME_SIZE) for _ in range(16)]]
    # At steps=1 the share of steps done is past all limits: rows as at the end of that stage.
    return groups if step % 2 else groups + pixel_rows(replace(stage, steps=1), rng, step // 2, frames)


def writing_rows(stage: Stage, rng: Rng, step: int, frames: VisionTasks) -> list[list[PocketExample]]:
    """Words to copy, later also lines to fill in; boxes and everything else in turn, so that nothing is
    forgotten."""
    groups = [copying_rows(rng, 24, 0.0)]
    if step >= 0.3 * stage.steps:
        groups.append(copying_rows(rng, 10, 1.0))
    if step % 4 == 0:
        groups.append([frames.box_row(rng, FRAME_SIZE) for _ in range(16)])
    elif step % 2:
        # As in `box_rows`.
        repeated_rows = pixel_rows(replace(stage, steps=1), rng, step // 2, frames)
        groups += [[with_copying(rng, row) for row in group] for group in repeated_rows]
    return groups


class StageDataset(IterableDataset):
    """The endless batches of a stage; each is a pure function of the seed and the step."""

    def __init__(self, stage: Stage, pool: Path, start: int) -> None:
        self.stage, self.pool, self.start = stage, pool, start

    def __iter__(self) -> Iterator[list[TokenBatch]]:
        encoder = BatchEncoder(checkpoint.build_tokenizer())
        frames = VisionTasks(self.pool)
        # Those at the end of the pool are held out for `measure`.
        frames.keep(slice(None, -HELD_OUT), slice(None, -HELD_OUT))
        for step in range(self.start, self.stage.steps):
            rng = np.random.default_rng([self.stage.seed, step])
            yield [encoder.batch(rows) for rows in self.stage.rows(self.stage, rng, step, frames)]


def optimizer_groups(
    model: Qwen3VLForConditionalGeneration, weight_decay: float = 0.05
) -> list[dict[str, Any]]:
    """Parameter groups with their share of the learning rate and their weight decay.

    The 1,536 values of a patch are mostly equal, so a step of Adam moves the output of the patch embedding a
    thousand times as far as a weight. At the full learning rate the features grew to 200 times the size of
    word embeddings within a thousand steps, and nothing was learned from them.
    """
    rates = {"visual.patch_embed": 0.05, "visual.": 0.5, "": 1.0}
    groups: dict[tuple[str, bool], list[torch.nn.Parameter]] = defaultdict(list)
    for name, weight in model.named_parameters():
        # The first that is part of the name: from the special to the general.
        part = next(key for key in rates if key in name)
        groups[part, weight.ndim >= 2].append(weight)
    return [
        {"params": weights, "share": rates[part], "weight_decay": weight_decay if decayed else 0.0}
        for (part, decayed), weights in groups.items()
    ]


def hidden(model: Qwen3VLForConditionalGeneration, batch: TokenBatch) -> torch.Tensor:
    """The last hidden states of a batch, (B, L, D)."""
    inner = model.model
    embeds = inner.language_model.embed_tokens(batch.input_ids)
    seen, levels, where = None, None, None
    if batch.pixels is not None and batch.grid is not None:
        # Frozen vision layers need no graph, which is most of the memory of a step.
        with torch.set_grad_enabled(torch.is_grad_enabled() and inner.visual.pos_embed.weight.requires_grad):
            seen, levels = encode_sized_pictures(inner.visual, batch.pixels.float() / 127.5 - 1, batch.grid)
    if seen is not None:
        marks = (inner.config.image_token_id, inner.config.video_token_id)
        where = (batch.input_ids == marks[0]) | (batch.input_ids == marks[1])
        embeds = embeds.masked_scatter(where[..., None], seen.to(embeds.dtype))
    out: torch.Tensor = inner.language_model(
        inputs_embeds=embeds,
        attention_mask=batch.mask,
        position_ids=batch.position_ids,
        visual_pos_masks=where,
        deepstack_visual_embeds=levels,
        use_cache=False,
    ).last_hidden_state
    return out


def loss_of(model: Qwen3VLForConditionalGeneration, batch: TokenBatch) -> torch.Tensor:
    """The weighted cross-entropy of the replies, averaged over exchanges."""
    states = hidden(model, batch)
    weights = batch.weights[:, 1:]
    chosen = weights > 0
    logits = model.lm_head(states[:, :-1][chosen]).float()
    losses = torch.nn.functional.cross_entropy(logits, batch.input_ids[:, 1:][chosen], reduction="none")
    exchanges = sum(int(row.max()) for row in batch.exchange)
    return (losses * weights[chosen]).sum() / exchanges


@torch.no_grad()
def measure(
    model: Qwen3VLForConditionalGeneration, frames: VisionTasks | None, rows: int = 60
) -> dict[str, float]:
    """The accuracy of the replies' first tokens (of boxes: all tokens) on held-out rows, by kind of row and
    reply."""
    model.eval()
    encoder = BatchEncoder(checkpoint.build_tokenizer())
    # A fixed seed: all measurements of a log are of the same rows.
    rng = np.random.default_rng(99)
    makers: dict[str, Callable[[], PocketExample]] = {"text": lambda: text_row(rng, 0.0)}
    if frames is not None:
        makers |= {
            "scene": lambda: frames.scene_row(rng),
            "joined": lambda: frames.joined_row(rng, 3),
            "video": lambda: frames.video_row(rng),
            "picture": lambda: frames.picture_row(rng, FRAME_SIZE),
        }
    hits: dict[str, list[bool]] = defaultdict(list)
    for name, make in makers.items():
        for _ in range(rows // 6):
            group = [make() for _ in range(6)]
            batch = encoder.batch(group)
            states = hidden(model, batch)
            guesses = model.lm_head(states).argmax(-1)
            for i, row in enumerate(group):
                for number, (request, reply) in enumerate(row.exchanges, 1):
                    spots = ((batch.exchange[i] == number) & (batch.weights[i] > 0)).nonzero()[:, 0]
                    # The output at a token predicts the next one.
                    right = guesses[i, spots - 1] == batch.input_ids[i, spots]
                    hits[f"{name}/{_form(request, reply)}"].append(
                        bool(right.all() if "[" in reply else right[0])
                    )
    model.train()
    return {name: round(float(np.mean(values)), 3) for name, values in sorted(hits.items())}


def _form(request: str, reply: str) -> str:
    if reply in ("Yes", "No"):
        return "yes_no"
    if reply.startswith(("[", "{")):
        return "box"
    if "\nA. " in request:
        question = request.split("\nA. ")[0].lower()
        topics = (
            "color",
            "shape",
            "after",
            "before",
            "how many",
            "sign",
            "weather",
            "narrator",
            "story",
            "pick",
        )
        return next(
            (t for t in topics if t in question),
            "place" if "place" in question or "where" in question else "other",
        )
    return "words"


STAGES = (
    Stage("language", language_rows, 3000, decay=0.0),
    Stage("run", pixel_rows, 3500, "language", takes_vision=True, hold_vision=2900, lr=8e-4),
    Stage("boxes", box_rows, 1500, "run", hold_vision=1500, lr=7e-4, decay=0.4),
    Stage("boxes2", box_rows, 1500, model="boxes", hold_vision=500, lr=7e-4, decay=0.4),
    Stage("writing", writing_rows, 1800, model="boxes2", hold_vision=1800, decay=0.5),
    Stage("writing2", writing_rows, 1500, model="writing", hold_vision=1500, lr=8e-4, decay=0.5, seed=1),
    Stage("all", pixel_rows, 300, model="writing2", hold_vision=300, lr=4e-4, decay=0.6, seed=2),
)
LAST_SHARE = 0.75
"""Share of the last stage in the average of the last two; chosen on val."""


def train_model(folder: Path) -> None:
    """Train every stage in a folder that has `frames` and `vision`, and write `folder/model`. Stages that are
    done are not trained again."""
    torch.set_num_threads(2)
    for stage in STAGES:
        if steps_done(folder / stage.name) < stage.steps:
            train_stage(stage, folder)
    before, last = (folder / stage.name / "model" for stage in STAGES[-2:])
    average(before, last, LAST_SHARE, folder / "model")


def train_stage(stage: Stage, folder: Path) -> None:
    """Train a stage in its folder, from its last state if it has one, and write its model if it saw
    frames."""
    output, sees = folder / stage.name, stage.rows is not language_rows
    output.mkdir(parents=True, exist_ok=True)
    processor = checkpoint.build_processor()
    model = checkpoint.build_model(processor.tokenizer, stage.seed)
    if stage.model:
        trained = Qwen3VLForConditionalGeneration.from_pretrained(
            folder / stage.model / "model", dtype=torch.float32
        )
        model.load_state_dict(trained.state_dict())
    if stage.state:
        model.load_state_dict(torch.load(folder / stage.state / "state.pt", weights_only=True)["model"])
    if stage.takes_vision:
        join_vision(model, processor, folder / "vision")
    optimizer = torch.optim.AdamW(optimizer_groups(model), lr=stage.lr, betas=(0.9, 0.95), fused=True)
    held_out = VisionTasks(folder / "frames")
    held_out.keep(slice(-HELD_OUT, None), slice(-HELD_OUT, None))
    rows = StageDataset(stage, folder / "frames", steps_done(output))
    loader = iter(DataLoader(rows, batch_size=None, num_workers=1, prefetch_factor=4))

    def losses(step: int) -> Iterator[torch.Tensor]:
        # The vision layers are frozen while the language layers learn to read their output.
        model.model.visual.requires_grad_(step >= stage.hold_vision)
        batches = next(loader)
        for batch in batches:
            with mixed_precision():
                loss = loss_of(model, batch)
            yield loss / len(batches)

    def measured() -> dict[str, float]:
        with mixed_precision():
            return measure(model, held_out if sees else None)

    take_steps(model, optimizer, stage.steps, stage.rate, output, losses, measured)
    # Without frames the vision layers are untrained: such a stage leaves its state alone.
    if sees:
        checkpoint.save(model.bfloat16(), processor, output / "model")


@torch.no_grad()
def join_vision(model: Qwen3VLForConditionalGeneration, processor: Qwen3VLProcessor, vision: Path) -> None:
    """Give a model the vision layers of a folder, with their output translated to its own word embeddings."""
    embeddings = cast(torch.nn.Embedding, model.get_input_embeddings()).weight
    visual = model.model.visual
    visual.load_state_dict(torch.load(vision / "state.pt", weights_only=True)["model"])
    codes = CodeTable(embeddings.shape[1], processor.tokenizer).of(embeddings)
    translate(visual.merger.linear_fc2, torch.load(vision / "table.pt", weights_only=True), codes)
    # DeepStack was not trained: its contribution starts at zero.
    for merger in visual.deepstack_merger_list:
        merger.linear_fc2.weight.zero_()
        merger.linear_fc2.bias.zero_()


def average(first: Path, second: Path, share: float, output: Path) -> None:
    """Write the model whose weights are (1 - share) of `first`'s and `share` of `second`'s, in bf16."""
    # In fp32: in bf16, a small difference between the two would be lost in rounding.
    models: list[Any] = [
        Qwen3VLForConditionalGeneration.from_pretrained(folder, dtype=torch.float32)
        for folder in (first, second)
    ]
    theirs = models[1].state_dict()
    for name, weight in models[0].state_dict().items():
        # Buffers of integers are the same in both.
        if weight.is_floating_point():
            weight.lerp_(theirs[name], share)
    checkpoint.save(models[0].bfloat16(), checkpoint.build_processor(), output)
