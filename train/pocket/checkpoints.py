"""What the pocket trainings share: the precision they compute in, and what they keep on disk: a log and the
last state. Knows no task.
"""

import json
from pathlib import Path

import torch

from videopro.errors import RunError
from videopro.storage.finite_weights import non_finite

HELD_OUT = 200  # scenes and videos at the end of a pool that are only measured on


def mixed_precision() -> torch.autocast:
    """bf16 where the CPU multiplies it in hardware; elsewhere it was five times slower than fp32, which then
    stays."""
    known = torch.cpu.get_capabilities()
    quick = bool(known.get("amx_bf16") or known.get("avx512_bf16"))
    return torch.autocast("cpu", torch.bfloat16, enabled=quick)


def append_log(folder: Path, record: dict[str, object]) -> None:
    """One line in `log.jsonl`, and on screen."""
    line = json.dumps(record)
    print(line, flush=True)
    with (folder / "log.jsonl").open("a") as log:
        print(line, file=log)


def save_state(
    folder: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer, step: int, seconds: float
) -> None:
    """`state.pt`, whole or not at all. Raises RunError for weights that are no numbers any more."""
    damaged = non_finite(model.named_parameters())
    if damaged is not None:
        raise RunError(f"step {step}: weight {damaged} is NaN or infinite and is not saved; lower the rate")
    part = folder / "state.part"
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "step": step,
        "seconds": seconds,
    }
    torch.save(state, part)
    part.replace(folder / "state.pt")


def resume(folder: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> tuple[int, float]:
    """Steps done and seconds spent; both are taken from `state.pt` if there is one."""
    if not (folder / "state.pt").exists():
        return 0, 0.0
    state = torch.load(folder / "state.pt", weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return int(state["step"]), float(state["seconds"])
