"""Measures how much of a training step is signal: whether the gradients of different steps agree.

    videopro gradient-noise grpo --config pocket --adapter runs/sft \\
        --train_data runs/synth/grpo.jsonl --output_dir runs/noise --max_steps 12
    videopro gradient-noise sft --config pocket --train_data runs/synth/sft.jsonl ...

Runs `train/grpo.py` or `train/sft.py` with its own flags at a learning rate of 0, so that every step is taken
at the same weights, and compares the steps' gradients of all trained weights. If the mean cosine of two steps
is c, the expected gradient G accounts for a share c of a step's squared length and noise for the rest; the
sum of (1 - c) / c steps is half signal. That is the "simple noise scale" tr(S) / |G|^2 of McCandlish et al.
(2018, "An Empirical Model of Large-Batch Training", section 2.2), counted in steps. Keeps one gradient per
step in memory (4 bytes per trained weight). Writes `gradient_noise.json` to `output_dir`, beside the usual
files of such a run. Single process only. """

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from transformers import TrainerCallback
from transformers.trainer_utils import get_last_checkpoint

from videopro.cli import exit_status
from videopro.commands import COMMANDS
from videopro.errors import ConfigError
from videopro.extras import needs_extra


def _print_help() -> None:
    about = COMMANDS["gradient-noise"]
    print(f"{about.summary} Takes the settings of videopro grpo or sft.\n\n{about.shown_examples()}")


with needs_extra("train", "videopro gradient-noise", __name__, _print_help):
    from videopro.train import grpo, sft
    from videopro.train.finetune import VideoSFTConfig
    from videopro.train.rl import VideoGRPOConfig
    from videopro.train.runtime import read_settings

STAGES: dict[str, tuple[Any, Any]] = {
    "grpo": (VideoGRPOConfig, grpo.train),
    "sft": (VideoSFTConfig, sft.train),
}
RATES = ("learning_rate", "vision_lr", "projector_lr")
MIN_STEPS = 3
"""The fewest steps whose mean cosine has a standard error."""


@dataclasses.dataclass(frozen=True)
class GradientNoise:
    """How far the gradients of a run's steps agree."""

    steps: int
    without_gradient: int
    """Steps with a zero gradient (in GRPO: no group's rewards differed); they have no direction and are left
    out."""
    mean_cosine: float
    """The mean over all pairs of steps."""
    standard_error: float
    """The standard error of the mean cosine, by leaving out one step at a time (jackknife)."""
    steps_to_half_signal: float | None
    """None if the mean cosine is not above 0."""


class GradientDirections(TrainerCallback):
    """Keeps the direction of each step's gradient, before the optimizer step."""

    def __init__(self) -> None:
        self.found: list[torch.Tensor] = []
        """Unit vectors, (trained weights,) float32, on the CPU."""
        self.without_gradient = 0

    def on_pre_optimizer_step(
        self, args: Any, state: Any, control: Any, model: Any = None, **others: Any
    ) -> None:
        """Keep the direction of this step's gradient."""
        trained = [weight for weight in model.parameters() if weight.requires_grad]
        if all(weight.grad is None for weight in trained):
            raise ConfigError(
                "the weights have no gradients after the step, as with DeepSpeed, which keeps them itself; "
                "run without accelerate's DeepSpeed or FSDP settings"
            )
        whole = torch.cat(
            [
                (torch.zeros_like(weight) if weight.grad is None else weight.grad).flatten().float().cpu()
                for weight in trained
            ]
        )
        length = whole.norm()
        if length == 0:
            self.without_gradient += 1
        else:
            self.found.append(whole / length)


def noise(directions: Sequence[torch.Tensor], without_gradient: int = 0) -> GradientNoise:
    """The gradient noise of unit vectors, (weights,) each. Raises ConfigError for fewer than three, which
    have no standard error."""
    count = len(directions)
    if count < MIN_STEPS:
        raise ConfigError(
            f"only {count} steps had a gradient, and at least {MIN_STEPS} are needed; give a higher max_steps"
        )
    # The sum of each step's cosines with all others: a sum over pairs without a loop over pairs, and without
    # stacking the steps, which would double the memory.
    total = directions[0].double()
    for direction in directions[1:]:
        total = total + direction
    others = torch.stack([direction.double() @ (total - direction) for direction in directions])
    pairs = float(others.sum())
    mean = pairs / (count * (count - 1))
    left_out = (pairs - 2 * others) / ((count - 1) * (count - 2))
    spread = float(((left_out - left_out.mean()) ** 2).sum())
    return GradientNoise(
        steps=count,
        without_gradient=without_gradient,
        mean_cosine=mean,
        standard_error=((count - 1) / count * spread) ** 0.5,
        steps_to_half_signal=(1 - mean) / mean if mean > 0 else None,
    )


def measure(stage: str, argv: Sequence[str]) -> GradientNoise:
    """Run one of `STAGES` at a learning rate of 0. Raises VideoProError for errors the user can fix."""
    if PartialState().num_processes > 1:
        raise ConfigError("gradients are compared in a single process; start it with python, not accelerate")
    kind, train = STAGES[stage]
    training, model = read_settings(kind, stage, [*argv, "--save_strategy", "no"])
    for name in RATES:
        if getattr(training, name, None) is not None:
            setattr(training, name, 0.0)
    if 0 < training.max_steps < MIN_STEPS:
        raise ConfigError(f"max_steps is {training.max_steps}; it must be at least {MIN_STEPS}")
    output = Path(str(training.output_dir))
    if output.is_dir() and get_last_checkpoint(str(output)) is not None:
        raise ConfigError(f"output_dir {output} has checkpoints of a training run; give another folder")
    directions = GradientDirections()
    train(training, model, callbacks=[directions])
    found = noise(directions.found, directions.without_gradient)
    text = json.dumps(dataclasses.asdict(found), indent=1) + "\n"
    (output / "gradient_noise.json").write_text(text, encoding="utf-8")
    return found


def noise_report(found: GradientNoise) -> str:
    """The figures as text, one per line."""
    low, high = (found.mean_cosine + side * 1.96 * found.standard_error for side in (-1, 1))
    lines = [
        f"{found.steps} steps with a gradient, {found.without_gradient} without",
        f"mean cosine of two steps: {found.mean_cosine:.4f} (standard error {found.standard_error:.4f})",
    ]
    if high <= 0:
        lines.append("steps whose sum is half signal: no number is enough")
    else:
        most = f"{(1 - low) / low:,.0f}" if low > 0 else "no upper limit"
        lines.append(f"steps whose sum is half signal: {max((1 - high) / high, 0):,.0f} to {most} (95 %)")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status: 0, 2 for errors the user can fix, 130 when interrupted."""
    words = list(sys.argv[1:] if argv is None else argv)
    with exit_status("stopped; nothing was written") as status:
        if words[:1] in (["--help"], ["-h"]):
            _print_help()
            raise SystemExit(0)
        if not words or words[0] not in STAGES:
            given = f"; it is {words[0]!r}" if words else ""
            raise ConfigError(
                f"videopro gradient-noise: the first argument must be {' or '.join(STAGES)}, followed by "
                f"that command's settings{given}"
            )
        print(noise_report(measure(words[0], words[1:])))
    return status.code


if __name__ == "__main__":
    sys.exit(main())
