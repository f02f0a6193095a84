"""Code shared by the pocket training stages: the precision, and the files on disk (a log and the last
state)."""

import json
from pathlib import Path

import torch

from videopro.errors import RunError
from videopro.storage import JsonLinesLog, non_finite

HELD_OUT = 200  # scenes and videos at the end of a pool that are used for evaluation only


def mixed_precision() -> torch.autocast:
    """bf16 if the CPU has hardware support for it; otherwise fp32, as bf16 was five times slower without."""
    capabilities = torch.cpu.get_capabilities()
    quick = bool(capabilities.get("amx_bf16") or capabilities.get("avx512_bf16"))
    return torch.autocast("cpu", torch.bfloat16, enabled=quick)


def append_log(folder: Path, record: dict[str, object]) -> None:
    """Append a line to `log.jsonl`, and print it."""
    print(json.dumps(record), flush=True)
    log = JsonLinesLog(folder / "log.jsonl")
    try:
        log.append(record)
    finally:
        log.close()


def save_state(
    folder: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer, step: int, seconds: float
) -> None:
    """Write `state.pt` atomically. Raises RunError for weights that are NaN or infinite."""
    damaged = non_finite(model.named_parameters())
    if damaged is not None:
        raise RunError(
            f"step {step}: weight {damaged} is NaN or infinite; nothing was saved. Lower the learning rate"
        )
    part = folder / "state.part"
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "step": step,
        "seconds": seconds,
    }
    # Renamed once it is complete: a kill while it is written leaves the last state.
    torch.save(state, part)
    part.replace(folder / "state.pt")


def resume(folder: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> tuple[int, float]:
    """Load `state.pt` if there is one. Returns the steps done and the seconds spent so far."""
    if not (folder / "state.pt").exists():
        return 0, 0.0
    state = torch.load(folder / "state.pt", weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return int(state["step"]), float(state["seconds"])
