"""Trains the shipped pocket model from nothing, on two cores.

    python -m train.pocket_frames --output FOLDER/frames
    python -m train.pocket --frames FOLDER/frames --output FOLDER/run --steps 9000

A curriculum: picking an option by name, in text alone; facts in text; then scenes, stills, several scenes,
and whole videos. The same command resumes from the last checkpoint. Writes `log.jsonl` (losses and held-out
accuracy by kind) and `model/`, the folder that `videopro/pocket/model` ships.
"""

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset
from transformers import Qwen3VLForConditionalGeneration

from train.pocket_batches import Batch, Encoder
from train.pocket_tasks import Frames, Row, pick_row, text_row
from videopro.pocket import checkpoint
from videopro.pocket.checkpoint import FRAME_SIZE

HELD_OUT = 200  # scenes and videos at the end of the pool that are only measured on


@dataclass(frozen=True)
class Recipe:
    """What is taught when, in shares of all steps."""

    steps: int
    text_until: int  # steps of text alone
    look_until: int  # steps up to which one thing is looked at, from near to far
    seed: int = 0
    lr: float = 1e-3
    warmup: int = 150
    decay: float = 0.25  # the last share of the steps, over which the rate falls to a fiftieth
    weight_decay: float = 0.05

    def rate(self, step: int) -> float:
        rise = min(1.0, (step + 1) / self.warmup)
        # Pictures are new to the model: the rate rises again when they come.
        if step >= self.text_until:
            rise = min(rise, 0.3 + 0.7 * (step - self.text_until) / self.warmup)
        fall = max(0.02, min(1.0, (self.steps - step) / (self.decay * self.steps)))
        return self.lr * rise * fall


class Lessons(IterableDataset):
    """Endless batches: of each step the text one first, then the pictures that the step is for."""

    def __init__(self, recipe: Recipe, frames: Path, start: int) -> None:
        self.recipe, self.frames, self.start = recipe, frames, start

    def __iter__(self) -> Iterator[tuple[int, list[Batch]]]:
        encoder = Encoder(checkpoint.build_tokenizer())
        frames = Frames(self.frames)
        frames.acted = [i for i in frames.acted if i < len(frames.facts) - HELD_OUT]
        frames.signed = [i for i in frames.signed if i < len(frames.facts) - HELD_OUT]
        frames.facts, frames.video_facts = frames.facts[:-HELD_OUT], frames.video_facts[:-HELD_OUT]
        for step in range(self.start, self.recipe.steps):
            rng = np.random.default_rng([self.recipe.seed, step])
            yield step, [encoder.batch(rows) for rows in self.rows(rng, step, frames)]

    def rows(self, rng: np.random.Generator, step: int, frames: Frames) -> list[list[Row]]:
        before = self.recipe.text_until
        if step < before:
            at = step / before
            if at < 0.75:
                level = 0 if at < 0.125 else 1 if at < 0.55 else 2
                return [[pick_row(rng, level) for _ in range(4)]]
            return [[text_row(rng, max(0.15, 2.0 - 2.0 * at)) for _ in range(3)]]
        if step < self.recipe.look_until:
            words = 0.7 if step - before < 0.6 * (self.recipe.look_until - before) else 0.4
            groups = [[frames.look_row(rng, FRAME_SIZE, words) for _ in range(8)]]
            if step % 3 == 0:
                groups.append([text_row(rng, 0.3)])
            elif step % 3 == 1:
                groups.append([frames.glance_row(rng, words) for _ in range(3)])
            return groups
        done = (step - before) / (self.recipe.steps - before)
        groups = [[text_row(rng, 0.1) for _ in range(2)]]
        groups.append([frames.scene_row(rng) for _ in range(6 if done < 0.35 else 4)])
        kinds = ["joined", "video", "picture"]
        kind = kinds[step % 3] if done > 0.12 else ("scene", "picture")[step % 2]
        if kind == "joined":
            most = 2 if done < 0.25 else 3 if done < 0.4 else 4 if done < 0.6 else 6
            groups.append([frames.joined_row(rng, most) for _ in range(5)])
        elif kind == "video":
            groups.append([frames.video_row(rng) for _ in range(5)])
        elif kind == "picture":
            groups.append([frames.picture_row(rng, FRAME_SIZE) for _ in range(8)])
        else:
            groups.append([frames.scene_row(rng) for _ in range(4)])
        return groups


def groups_of(model: Qwen3VLForConditionalGeneration, recipe: Recipe) -> list[dict[str, Any]]:
    """Parameter groups with their share of the rate and their weight decay.

    A patch is 1,536 numbers that mostly agree, so a step of Adam moves what comes out of the patch
    embedding a thousand times as far as it moves a weight: at the full rate the features grew to 200 times
    the size of word embeddings within a thousand steps, and nothing was learned from them. It gets a
    twentieth.
    """
    shares = {"visual.patch_embed": 0.05, "visual.": 0.3, "": 1.0}
    groups: dict[tuple[str, bool], list[torch.nn.Parameter]] = defaultdict(list)
    for name, weight in model.named_parameters():
        part = next(key for key in shares if key in name)
        groups[part, weight.ndim >= 2].append(weight)
    return [
        {"params": weights, "share": shares[part], "weight_decay": recipe.weight_decay if decayed else 0.0}
        for (part, decayed), weights in groups.items()
    ]


def hidden(model: Qwen3VLForConditionalGeneration, batch: Batch) -> torch.Tensor:
    """(B, L, D) last hidden states of a batch."""
    seen = {}
    if batch.pixels is not None and batch.grid is not None:
        name, grid = (
            ("pixel_values_videos", "video_grid_thw")
            if batch.is_video
            else ("pixel_values", "image_grid_thw")
        )
        seen = {name: batch.pixels.float() / 127.5 - 1, grid: batch.grid}
    out: torch.Tensor = model.model(
        input_ids=batch.input_ids,
        attention_mask=batch.mask,
        position_ids=batch.position_ids,
        use_cache=False,
        **seen,
    ).last_hidden_state
    return out


def loss_of(model: Qwen3VLForConditionalGeneration, batch: Batch) -> torch.Tensor:
    """Mean over exchanges of the weighted cross-entropy of the replies."""
    states = hidden(model, batch)
    weights = batch.weights[:, 1:]
    chosen = weights > 0
    logits = model.lm_head(states[:, :-1][chosen]).float()
    losses = torch.nn.functional.cross_entropy(logits, batch.input_ids[:, 1:][chosen], reduction="none")
    exchanges = sum(int(row.max()) for row in batch.exchange)
    return (losses * weights[chosen]).sum() / exchanges


@torch.no_grad()
def measure(model: Qwen3VLForConditionalGeneration, pool: Path, rows: int = 60) -> dict[str, float]:
    """Share of first reply tokens that are right on held-out rows, by kind of row and of reply."""
    model.eval()
    encoder, frames = Encoder(checkpoint.build_tokenizer()), Frames(pool)
    first = len(frames.facts) - HELD_OUT
    frames.facts, frames.scenes, frames.stills = (
        frames.facts[first:],
        frames.scenes[first:],
        frames.stills[first:],
    )
    frames.acted = [i for i, f in enumerate(frames.facts) if f["actor"]]
    frames.signed = [i for i, f in enumerate(frames.facts) if f["sign"]]
    first = len(frames.video_facts) - HELD_OUT
    frames.video_facts, frames.videos = frames.video_facts[first:], frames.videos[first:]
    rng = np.random.default_rng(99)
    makers = {
        "text": lambda: text_row(rng, 0.0),
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
                for number, (said, reply) in enumerate(row.exchanges, 1):
                    spots = ((batch.exchange[i] == number) & (batch.weights[i] > 0)).nonzero()[:, 0]
                    right = guesses[i, spots - 1] == batch.input_ids[i, spots]
                    hits[f"{name}/{_form(said, reply)}"].append(
                        bool(right.all() if "[" in reply else right[0])
                    )
    model.train()
    return {name: round(float(np.mean(values)), 3) for name, values in sorted(hits.items())}


def _form(said: str, reply: str) -> str:
    if reply in ("Yes", "No"):
        return "yes_no"
    if reply.startswith(("[", "{")):
        return "box"
    if "\nA. " in said:
        asked = said.split("\nA. ")[0].lower()
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
            (t for t in topics if t in asked), "place" if "place" in asked or "where" in asked else "other"
        )
    return "words"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--frames", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=9000)
    parser.add_argument("--text-steps", type=int, default=1500)
    parser.add_argument("--language-from", type=Path, help="state.pt of a run to take language layers from")
    parser.add_argument("--look-until", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    args.output.mkdir(parents=True, exist_ok=True)
    recipe = Recipe(args.steps, args.text_steps, args.look_until, args.seed)

    processor = checkpoint.build_processor()
    model = checkpoint.build_model(processor.tokenizer, args.seed)
    optimizer = torch.optim.AdamW(groups_of(model, recipe), lr=recipe.lr, betas=(0.9, 0.95), fused=True)
    saved, start, spent = args.output / "state.pt", 0, 0.0
    if args.language_from and not saved.exists():
        known = torch.load(args.language_from, weights_only=True)["model"]
        model.load_state_dict({k: v for k, v in known.items() if ".visual." not in k}, strict=False)
    if saved.exists():
        state = torch.load(saved, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        start, spent = state["step"], state["seconds"]

    log = (args.output / "log.jsonl").open("a")
    loader = DataLoader(
        Lessons(recipe, args.frames, start), batch_size=None, num_workers=1, prefetch_factor=4
    )
    model.train()
    begun, recent = time.time() - spent, []
    for step, batches in loader:
        for group in optimizer.param_groups:
            group["lr"] = recipe.rate(step) * group["share"]
        total = []
        for batch in batches:
            with torch.autocast("cpu", torch.bfloat16):
                loss = loss_of(model, batch)
            (loss / len(batches)).backward()
            total.append(float(loss.detach()))
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        recent.append(total)
        if (step + 1) % 50 == 0:
            means = [
                round(float(np.mean([r[k] for r in recent if len(r) > k])), 4) for k in range(len(total))
            ]
            _note(
                log,
                {
                    "step": step + 1,
                    "loss": means,
                    "lr": recipe.rate(step),
                    "seconds": round(time.time() - begun),
                },
            )
            recent = []
        if (step + 1) % 500 == 0 or step + 1 == recipe.steps:
            with torch.autocast("cpu", torch.bfloat16):
                _note(log, {"step": step + 1, "held_out": measure(model, args.frames)})
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            part = saved.with_suffix(".part")
            torch.save({**state, "step": step + 1, "seconds": time.time() - begun}, part)
            part.replace(saved)
    checkpoint.save(model.bfloat16(), processor, args.output / "model")


def _note(log: object, record: dict[str, object]) -> None:
    line = json.dumps(record)
    print(line, flush=True)
    print(line, file=log, flush=True)  # type: ignore[call-overload]


if __name__ == "__main__":
    main()
