"""Trains an adapter of the pocket model for the prompts of an agent.

    python -m videopro.train.pocket.agents.adapter vca --output runs/pocket-vca --steps 300
    python -m videopro.train.pocket.agents.adapter dvd --output runs/pocket-dvd --steps 370 --draws 1 \
        --adapter videopro/pocket/planners/sft
    python -m videopro.train.pocket.agents.adapter lvagent --output runs/pocket-lv --steps 300 --rank 8
    python -m videopro.train.pocket.agents.adapter lvagent-looks --output runs/pocket-lv-looks --steps 100 \
        --adapter runs/pocket-lv/adapter --seed 1

Rows are drawn without end from videos of their own seeds, never from a split. The command resumes from its
last checkpoint. Writes `log.jsonl` (losses) and `adapter/`, which `adapter=FOLDER` loads, with the record of
its training.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import cast

import numpy as np
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from torch.utils.data import DataLoader, IterableDataset
from transformers import Qwen3VLForConditionalGeneration

from videopro.backbones import (
    BaseRecord,
    ModelRecord,
    folder_fingerprint,
    library_versions,
    write_model_record,
)
from videopro.backbones.qwen import attach_adapter
from videopro.cli import CommandLine, did_you_mean, exit_status, setting
from videopro.errors import ConfigError
from videopro.pocket import model_dir
from videopro.train.pocket import architecture as checkpoint
from videopro.train.pocket.agents.dvd import tool_rows
from videopro.train.pocket.agents.lvagent import FOCUS, discussion_rows
from videopro.train.pocket.agents.vca import search_rows
from videopro.train.pocket.agents.videoagent import state_rows
from videopro.train.pocket.batches import BatchEncoder, TokenBatch
from videopro.train.pocket.checkpoints import append_log, mixed_precision, resume, save_state
from videopro.train.pocket.exchange_attention import NAME as EXCHANGES
from videopro.train.pocket.language import loss_of
from videopro.train.pocket.qa_pairs import PocketExample, Rng


@dataclass(frozen=True)
class AdapterSettings:
    """What is trained, and where it is written."""

    agent: str = field(metadata=setting("the agent whose prompts are learned", positional=True))
    output: Path = field(metadata=setting("folder for the checkpoints, the log and adapter/"))
    steps: int = field(default=300, metadata=setting("steps of training"))
    seed: int = field(default=0, metadata=setting("random seed of the weights and the rows"))
    draws: int = field(default=2, metadata=setting("videos in a step"))
    rank: int = field(default=16, metadata=setting("rank of the adapter"))
    lr: float = field(default=2e-3, metadata=setting("the highest learning rate"))
    adapter: Path | None = field(default=None, metadata=setting("folder of an adapter to continue from"))
    threads: int = field(default=1, metadata=setting("torch's threads"))


COMMAND = CommandLine(
    "videopro.train.pocket.agents.adapter",
    AdapterSettings,
    summary="Train an adapter of the pocket model for the prompts of an agent.",
)


# All linear layers of the language model; a server can load such an adapter, unlike one of the head.
_LAYERS = r".*language_model\.layers\.\d+\.(self_attn\.(q|k|v|o)_proj|mlp\.(gate|up|down)_proj)"

MAKERS: Mapping[str, Callable[[Rng], list[PocketExample]]] = {
    "vca": search_rows,
    "dvd": tool_rows,
    "videoagent": state_rows,
    **{name: partial(discussion_rows, focus=name) for name in FOCUS},
}
"""What makes the rows of one video, by the name of the agent."""


@dataclass(frozen=True)
class AdapterRecipe:
    """How an adapter is trained."""

    agent: str
    steps: int
    seed: int = 0
    draws: int = 2
    """Videos in a step."""
    rank: int = 16
    lr: float = 2e-3
    warmup: int = 50
    """Steps; at most a fifth of all."""
    adapter: Path | None = None
    """An adapter to continue from; its rank counts."""

    def rate(self, step: int) -> float:
        """The learning rate: a warm-up, then a cosine down to a fiftieth."""
        fall = 0.02 + 0.98 * (1 + np.cos(np.pi * step / self.steps)) / 2
        rise = min(1.0, (step + 1) / max(1, min(self.warmup, self.steps // 5)))
        return float(self.lr * rise * fall)


class AgentRows(IterableDataset):
    """The endless batches; each is a pure function of the seed and the step."""

    def __init__(self, recipe: AdapterRecipe, start: int) -> None:
        self.recipe, self.start = recipe, start

    def __iter__(self) -> Iterator[tuple[int, list[TokenBatch]]]:
        # In the loader's process: the cores belong to the training.
        torch.set_num_threads(1)
        encoder = BatchEncoder(checkpoint.build_tokenizer())
        make = MAKERS[self.recipe.agent]
        for step in range(self.start, self.recipe.steps):
            rng = np.random.default_rng([self.recipe.seed, step])
            rows = [row for _ in range(self.recipe.draws) for row in make(rng)]
            # One row a batch: nothing is padded, and exchanges attend to their own row alone.
            yield step, [encoder.batch([row]) for row in rows]


def build_adapter(recipe: AdapterRecipe) -> PeftModel:
    """The shipped pocket model with a new LoRA adapter, or with one to continue from."""
    torch.manual_seed(recipe.seed)
    # In fp32 (autocast lowers the products): in bf16, small updates would be lost in rounding.
    base = Qwen3VLForConditionalGeneration.from_pretrained(model_dir(), dtype=torch.float32)
    base.model.language_model.config._attn_implementation = EXCHANGES
    if recipe.adapter is not None:
        return attach_adapter(base, str(recipe.adapter), "pocket", trained=True)
    config = LoraConfig(
        r=recipe.rank, lora_alpha=2 * recipe.rank, target_modules=_LAYERS, task_type="CAUSAL_LM"
    )
    return cast(PeftModel, get_peft_model(base, config))


def train_adapter(settings: AdapterSettings) -> None:
    """Train, and write the adapter. Raises ConfigError for an unknown agent, or fewer steps than are done."""
    if settings.agent not in MAKERS:
        raise ConfigError(f"unknown agent {settings.agent!r}; {did_you_mean(settings.agent, list(MAKERS))}")
    torch.set_num_threads(settings.threads)
    settings.output.mkdir(parents=True, exist_ok=True)
    recipe = AdapterRecipe(
        settings.agent,
        settings.steps,
        settings.seed,
        draws=settings.draws,
        rank=settings.rank,
        lr=settings.lr,
        adapter=settings.adapter,
    )
    adapted = build_adapter(recipe)
    model = cast(Qwen3VLForConditionalGeneration, adapted.get_base_model())
    weights = [weight for weight in adapted.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=recipe.lr, betas=(0.9, 0.95), weight_decay=0.01)
    start, spent = resume(settings.output, adapted, optimizer)
    if start > recipe.steps:
        raise ConfigError(
            f"{settings.output} has been trained for {start} steps, and {recipe.steps} are asked for; give "
            f"--steps {start} or more, or another --output"
        )
    loader = DataLoader(AgentRows(recipe, start), batch_size=None, num_workers=1, prefetch_factor=4)
    adapted.train()
    begun, recent = time.time() - spent, []
    for step, batches in loader:
        for group in optimizer.param_groups:
            group["lr"] = recipe.rate(step)
        total = []
        for batch in batches:
            with mixed_precision():
                loss = loss_of(model, batch)
            # After each batch, so that the graph of only one is in memory.
            (loss / len(batches)).backward()
            total.append(float(loss.detach()))
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        recent.append(float(np.mean(total)))
        if (step + 1) % 25 == 0 or step + 1 == recipe.steps:
            line = {"step": step + 1, "loss": round(float(np.mean(recent)), 4), "lr": recipe.rate(step)}
            append_log(settings.output, {**line, "seconds": round(time.time() - begun)})
            recent = []
        if (step + 1) % 100 == 0 or step + 1 == recipe.steps:
            save_state(settings.output, adapted, optimizer, step + 1, time.time() - begun)
    save_adapter(adapted, recipe, settings.output)


def save_adapter(adapted: PeftModel, recipe: AdapterRecipe, output: Path) -> None:
    """Write the adapter in bf16, named after the base as a user names it, with its record."""
    folder = output / "adapter"
    state = {name: weight.bfloat16() for name, weight in adapted.state_dict().items() if "lora_" in name}
    for config in adapted.peft_config.values():
        config.base_model_name_or_path = "pocket"
    adapted.save_pretrained(str(folder), state_dict=state)
    # PEFT's model card: a form with nothing filled in.
    (folder / "README.md").unlink(missing_ok=True)
    # No planner: it writes the replies of an agent.
    base = BaseRecord("pocket", folder_fingerprint(model_dir()))
    budgets = ModelRecord(checkpoint.FRAMES, checkpoint.PIXELS, base, versions=library_versions())
    write_model_record(folder, budgets)
    recipe_record = {name: value for name, value in asdict(recipe).items() if name != "adapter"}
    record = {
        "recipe": recipe_record,
        # Not the path: the file's record beside it says how that one was made.
        "continued": recipe.adapter is not None,
        "weights": sum(weight.numel() for weight in state.values()),
        "log": [json.loads(line) for line in (output / "log.jsonl").read_text().splitlines()],
        "versions": {name: version(name) for name in ("torch", "transformers", "peft")},
    }
    (folder / "training_record.json").write_text(json.dumps(record, indent=1) + "\n")


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status."""
    with exit_status() as status:
        train_adapter(COMMAND.parse(argv))
    return status.code


if __name__ == "__main__":
    sys.exit(main())
