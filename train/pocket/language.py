"""Trains the shipped pocket model from scratch on two cores.

    python -m videopro.train.pocket.frames --output F/frames --scenes 5000 --videos 3000
    python -m videopro.train.pocket.vision --frames F/frames --output F/vision
    python -m videopro.train.pocket.language --output F/language --steps 3000 --pick-steps 1500 --decay 0
    python -m videopro.train.pocket.language --frames F/frames --vision-from F/vision \\
        --language-from F/language/state.pt --output F/run --steps 3500 --hold-vision 2900 --lr 8e-4
    python -m videopro.train.pocket.language --frames F/frames --language-from F/run/state.pt \\
        --output F/boxes --boxes --steps 1500 --hold-vision 1500 --lr 7e-4 --decay 0.4
    python -m videopro.train.pocket.language --frames F/frames --model-from F/boxes/model \\
        --output F/boxes2 --boxes --steps 1500 --hold-vision 500 --lr 7e-4 --decay 0.4
    python -m videopro.train.pocket.language --frames F/frames --model-from F/boxes2/model \\
        --output F/writing --writing --steps 1800 --hold-vision 1800 --lr 1e-3 --decay 0.5
    python -m videopro.train.pocket.language --frames F/frames --model-from F/writing/model \\
        --output F/writing2 --writing --steps 1500 --hold-vision 1500 --lr 8e-4 --decay 0.5 --seed 1
    python -m videopro.train.pocket.language --frames F/frames --model-from F/writing2/model --output F/all \\
        --steps 300 --hold-vision 300 --lr 4e-4 --decay 0.6 --seed 2
    python -m videopro.train.pocket.average F/writing2/model F/all/model --share 0.75 --output F/average

First, separately, the vision layers learn to name what each cell of a picture shows, and the language layers
to pick options and to find facts in text. Then they are joined. Later stages train mostly on boxes, then on
copying what was read, and at the end on everything once more.
Each stage resumes from its last checkpoint. Writes `log.jsonl` (losses and held-out accuracy by kind) and, at
the end, `model/`, the folder shipped as `videopro/pocket/model`.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset
from transformers import Qwen3VLForConditionalGeneration

from videopro.cli import CommandLine, exit_status, option, setting
from videopro.train.pocket import architecture as checkpoint
from videopro.train.pocket.architecture import FRAME_SIZE, mixed_precision
from videopro.train.pocket.batches import BatchEncoder, TokenBatch
from videopro.train.pocket.frames import HELD_OUT
from videopro.train.pocket.qa_pairs import PocketExample, Rng, copying_rows, pick_row, text_row, with_copying
from videopro.train.pocket.tasks import VisionTasks
from videopro.train.pocket.vision import CodeTable, encode_sized_pictures, translate
from videopro.train.retrieval.training import append_log, resume, save_state


@dataclass(frozen=True)
class LanguageSettings:
    """A stage: what it starts from, what it trains on, and how long."""

    output: Path = field(metadata=setting("folder for the checkpoints, the log and model/"))
    steps: int = field(metadata=setting("steps of the stage"))
    frames: Path | None = option(None, "pool of frames; without it, train on text only")
    boxes: bool = option(False, "train mostly on boxes")
    writing: bool = option(False, "train mostly on copying")
    vision_from: Path | None = option(None, "output of videopro.train.pocket.vision")
    language_from: Path | None = option(None, "state.pt of this command without --frames")
    model_from: Path | None = option(None, "folder of a saved model to start from")
    pick_steps: int = option(0, "steps of picking options only")
    hold_vision: int = option(0, "steps during which the vision layers are frozen")
    lr: float = option(1e-3, "the highest learning rate")
    decay: float = option(0.3, "share of the steps, at the end, over which the learning rate falls")
    seed: int = option(0, "random seed of the weights and the rows")

    def rate(self, step: int) -> float:
        """The learning rate at a step."""
        fall = 1.0 if self.decay == 0 else min(1.0, (self.steps - step) / (self.decay * self.steps))
        return self.lr * min(1.0, (step + 1) / _WARMUP) * max(0.02, fall)


COMMAND = CommandLine(
    "videopro.train.pocket.language",
    LanguageSettings,
    summary="Train the pocket model from scratch, stage by stage.",
)


_WARMUP = 150

RowSampler = Callable[[LanguageSettings, Rng, int, VisionTasks], list[list[PocketExample]]]


def language_rows(stage: LanguageSettings, rng: Rng, step: int) -> list[list[PocketExample]]:
    """Picking a named option from ever more words; then lines of text."""
    if step < stage.pick_steps:
        at = step / stage.pick_steps
        # The levels of `pick`: colours, then visible things, then all words.
        return [[pick_row(rng, 0 if at < 0.15 else 1 if at < 0.75 else 2) for _ in range(4)]]
    done = (step - stage.pick_steps) / (stage.steps - stage.pick_steps)
    return [[text_row(rng, max(0.15, 0.5 - done)) for _ in range(3)]]


def pixel_rows(
    stage: LanguageSettings, rng: Rng, step: int, frames: VisionTasks
) -> list[list[PocketExample]]:
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


def box_rows(stage: LanguageSettings, rng: Rng, step: int, frames: VisionTasks) -> list[list[PocketExample]]:
    """Boxes in every step; in every other step all else too, so that nothing is forgotten."""
    groups = [[frames.box_row(rng, FRAME_SIZE) for _ in range(16)]]
    # At steps=1 the share of steps done is past all limits: rows as at the end of that stage.
    return groups if step % 2 else groups + pixel_rows(replace(stage, steps=1), rng, step // 2, frames)


def writing_rows(
    stage: LanguageSettings, rng: Rng, step: int, frames: VisionTasks
) -> list[list[PocketExample]]:
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

    def __init__(self, stage: LanguageSettings, pool: Path | None, start: int, seen: RowSampler) -> None:
        """`seen` makes a step's rows if there is a pool."""
        self.stage, self.pool, self.start, self.seen = stage, pool, start, seen

    def __iter__(self) -> Iterator[tuple[int, list[TokenBatch]]]:
        encoder = BatchEncoder(checkpoint.build_tokenizer())
        frames = None if self.pool is None else VisionTasks(self.pool)
        if frames is not None:
            # Those at the end of the pool are held out for `measure`.
            frames.keep(slice(None, -HELD_OUT), slice(None, -HELD_OUT))
        for step in range(self.start, self.stage.steps):
            rng = np.random.default_rng([self.stage.seed, step])
            if frames is None:
                groups = language_rows(self.stage, rng, step)
            else:
                groups = self.seen(self.stage, rng, step, frames)
            yield step, [encoder.batch(rows) for rows in groups]


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


def train_stage(settings: LanguageSettings) -> None:
    """Train a stage, and write the model if it saw frames."""
    torch.set_num_threads(2)
    settings.output.mkdir(parents=True, exist_ok=True)

    processor = checkpoint.build_processor()
    model = checkpoint.build_model(processor.tokenizer, settings.seed)
    embeddings = cast(torch.nn.Embedding, model.get_input_embeddings()).weight
    codes = CodeTable(embeddings.shape[1], processor.tokenizer)
    # Later sources replace parts of earlier ones.
    if settings.model_from:
        trained = Qwen3VLForConditionalGeneration.from_pretrained(settings.model_from, dtype=torch.float32)
        model.load_state_dict(trained.state_dict())
    if settings.language_from:
        model.load_state_dict(torch.load(settings.language_from, weights_only=True)["model"])
    if settings.vision_from:
        seen = torch.load(settings.vision_from / "state.pt", weights_only=True)["model"]
        model.model.visual.load_state_dict(seen)
        targets = torch.load(settings.vision_from / "table.pt", weights_only=True)
        translate(model.model.visual.merger.linear_fc2, targets, codes.of(embeddings))
        with torch.no_grad():  # DeepStack was not trained: its contribution starts at zero
            for merger in model.model.visual.deepstack_merger_list:
                merger.linear_fc2.weight.zero_()
                merger.linear_fc2.bias.zero_()
    optimizer = torch.optim.AdamW(optimizer_groups(model), lr=settings.lr, betas=(0.9, 0.95), fused=True)
    start, spent = resume(settings.output, model, optimizer)
    held_out = VisionTasks(settings.frames) if settings.frames else None
    if held_out is not None:
        held_out.keep(slice(-HELD_OUT, None), slice(-HELD_OUT, None))

    seen_rows = box_rows if settings.boxes else writing_rows if settings.writing else pixel_rows
    loader = DataLoader(
        StageDataset(settings, settings.frames, start, seen_rows),
        batch_size=None,
        num_workers=1,
        prefetch_factor=4,
    )
    model.train()
    begun, recent = time.time() - spent, []
    for step, batches in loader:
        # The vision layers are frozen while the language layers learn to read their output.
        model.model.visual.requires_grad_(step >= settings.hold_vision)
        for group in optimizer.param_groups:
            group["lr"] = settings.rate(step) * group["share"]
        total = []
        for batch in batches:
            with mixed_precision():
                loss = loss_of(model, batch)
            # Backward after each batch, so that the graph of only one is in memory.
            (loss / len(batches)).backward()
            total.append(float(loss.detach()))
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        recent.append(float(np.mean(total)))
        if (step + 1) % 50 == 0:
            line = {"step": step + 1, "loss": round(float(np.mean(recent)), 4), "lr": settings.rate(step)}
            append_log(settings.output, {**line, "seconds": round(time.time() - begun)})
            recent = []
        if (step + 1) % 500 == 0 or step + 1 == settings.steps:
            with mixed_precision():
                figures = measure(model, held_out)
            append_log(settings.output, {"step": step + 1, "held_out": figures})
            save_state(settings.output, model, optimizer, step + 1, time.time() - begun)
    # Without frames the vision layers are untrained: such a stage leaves its state alone.
    if settings.frames:
        checkpoint.save(model.bfloat16(), processor, settings.output / "model")


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status."""
    with exit_status() as status:
        train_stage(COMMAND.parse(argv))
    return status.code


if __name__ == "__main__":
    sys.exit(main())
