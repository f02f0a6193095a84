"""How much of a training step is signal: whether the gradients of different steps point the same way.

    python -m videopro.train.gradient_noise grpo --config configs/grpo/pocket.yaml --adapter runs/sft \\
        --train_data grpo.jsonl --output_dir runs/noise --max_steps 12
    python -m videopro.train.gradient_noise sft --config configs/sft/pocket.yaml --train_data sft.jsonl ...

Runs `train/grpo.py` or `train/sft.py` with its own flags at rate 0, so that every step is taken at the same
weights, and compares the steps' gradients of everything that is trained. Where the mean cosine of two steps
is c, the expected gradient G makes up a share c of a step's squared length, noise the rest; (1 - c) / c steps
together are a direction that is half signal. That is the "simple noise scale" tr(S) / |G|^2 of McCandlish et
al. (2018, "An Empirical Model of Large-Batch Training", section 2.2) in steps. Keeps a gradient a step in
memory (4 bytes for each weight that is trained). Writes `gradient_noise.json` in `output_dir`, beside what
such a run leaves of itself. One process. Knows trainers' callbacks; must not know rows, rewards or losses.
"""

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
from videopro.errors import ConfigError
from videopro.train import grpo, sft
from videopro.train.finetune.config import VideoSFTConfig
from videopro.train.rl.config import VideoGRPOConfig
from videopro.train.runtime.settings import read_settings

STAGES: dict[str, tuple[Any, Any]] = {
    "grpo": (VideoGRPOConfig, grpo.train),
    "sft": (VideoSFTConfig, sft.train),
}
RATES = ("learning_rate", "vision_lr", "projector_lr")
MIN_STEPS = 3
"""Steps that have a mean cosine with an error."""


@dataclasses.dataclass(frozen=True)
class GradientNoise:
    """What the gradients of a run's steps have in common."""

    steps: int
    without_gradient: int
    """Steps that taught nothing (in GRPO: no group had a spread); they have no direction, and are left
    out."""
    mean_cosine: float
    """Of two steps."""
    standard_error: float
    """Of the mean cosine, by leaving out one step at a time (jackknife)."""
    steps_to_half_signal: float | None
    """None where the mean cosine is not above 0."""


class GradientDirections(TrainerCallback):
    """Keeps the direction of each step's gradient, before the optimizer takes it."""

    def __init__(self) -> None:
        self.found: list[torch.Tensor] = []
        """Of length 1, float32, (trained weights,) on the CPU."""
        self.without_gradient = 0

    def on_pre_optimizer_step(
        self, args: Any, state: Any, control: Any, model: Any = None, **others: Any
    ) -> None:
        """Keep one."""
        trained = [one for one in model.parameters() if one.requires_grad]
        if all(one.grad is None for one in trained):
            raise ConfigError(
                "the step left no gradients on the weights, as with DeepSpeed, which keeps them itself; run "
                "without accelerate's DeepSpeed or FSDP settings"
            )
        whole = torch.cat(
            [
                (one.grad if one.grad is not None else torch.zeros_like(one)).flatten().float().cpu()
                for one in trained
            ]
        )
        length = whole.norm()
        if length == 0:
            self.without_gradient += 1
        else:
            self.found.append(whole / length)


def noise(directions: Sequence[torch.Tensor], without_gradient: int = 0) -> GradientNoise:
    """From vectors of length 1, (weights,) each. Raises ConfigError for fewer than three, which have no
    standard error."""
    count = len(directions)
    if count < MIN_STEPS:
        raise ConfigError(
            f"{count} steps with a gradient were taken, and at least {MIN_STEPS} are needed; give a higher "
            "max_steps"
        )
    # The cosine of each step with all others, summed: a sum over pairs without a loop over them, and without
    # the steps side by side, which would take their memory again.
    total = directions[0].double()
    for one in directions[1:]:
        total = total + one
    others = torch.stack([one.double() @ (total - one) for one in directions])
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
    """A run of `STAGES` at rate 0. Raises VideoProError for what the user can mend."""
    if PartialState().num_processes > 1:
        raise ConfigError("gradients are compared in one process; start it with python, not with accelerate")
    kind, train = STAGES[stage]
    training, model = read_settings(
        kind, f"videopro.train.gradient_noise {stage}", [*argv, "--save_strategy", "no"]
    )
    for name in RATES:
        if getattr(training, name, None) is not None:
            setattr(training, name, 0.0)
    if 0 < training.max_steps < MIN_STEPS:
        raise ConfigError(f"max_steps is {training.max_steps}; it must be at least {MIN_STEPS}")
    output = Path(str(training.output_dir))
    if output.is_dir() and get_last_checkpoint(str(output)) is not None:
        raise ConfigError(f"output_dir {output} has checkpoints of a training; give a folder of its own")
    directions = GradientDirections()
    train(training, model, callbacks=[directions])
    found = noise(directions.found, directions.without_gradient)
    text = json.dumps(dataclasses.asdict(found), indent=1) + "\n"
    (output / "gradient_noise.json").write_text(text, encoding="utf-8")
    return found


def noise_report(found: GradientNoise) -> str:
    """The figures as lines."""
    low, high = (found.mean_cosine + side * 1.96 * found.standard_error for side in (-1, 1))
    lines = [
        f"{found.steps} steps with a gradient, {found.without_gradient} without",
        f"mean cosine of two: {found.mean_cosine:.4f} (standard error {found.standard_error:.4f})",
    ]
    if high <= 0:
        lines.append("steps for a direction that is half signal: none would do")
    else:
        most = f"{(1 - low) / low:,.0f}" if low > 0 else "without limit"
        lines.append(
            f"steps for a direction that is half signal: {max((1 - high) / high, 0):,.0f} to {most} (95 %)"
        )
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status: 0, 2 for what the user can mend, 130 when interrupted."""
    words = list(sys.argv[1:] if argv is None else argv)
    with exit_status("stopped; nothing is kept") as status:
        if not words or words[0] not in STAGES:
            raise ConfigError(
                f"say first what is measured: {' or '.join(STAGES)}, then the flags of train/grpo.py or "
                "train/sft.py"
            )
        print(noise_report(measure(words[0], words[1:])))
    return status.code


if __name__ == "__main__":
    sys.exit(main())
