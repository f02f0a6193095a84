"""Which GPUs engines run on: one each, of those that this process may use, or GPUs of their own beside those
of a training."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import takewhile

from videopro.errors import ConfigError


def engine_devices(gpus: int = 1) -> list[str | None]:
    """A value of CUDA_VISIBLE_DEVICES for each engine with so many GPUs; one None on a machine without any.

    Under accelerate launch or torchrun (LOCAL_RANK is set) it is the one of this rank. Raises ConfigError if
    there are fewer GPUs than one engine wants.
    """
    visible = _visible()
    if not visible:
        return [None]
    if "LOCAL_RANK" in os.environ:
        # What the launcher placed alone on a GPU sees no other.
        visible = [visible[int(os.environ["LOCAL_RANK"]) % len(visible)]]
    if len(visible) < gpus:
        raise ConfigError(
            f"vllm: gpus is {gpus}, and this process has {len(visible)}; give fewer"
            + (", or start it without accelerate launch" if "LOCAL_RANK" in os.environ else "")
        )
    return [*_groups(visible, gpus)]


def dedicated_devices(named: Sequence[str], gpus: int, *, trains_on_gpu: bool) -> list[str]:
    """A value of CUDA_VISIBLE_DEVICES for each engine with so many of the named GPUs, which this process has
    to see. `trains_on_gpu`: the processes of a training are on the first GPUs, one each.
    Raises ConfigError where that is not possible."""
    setting = f"engine_gpus is {','.join(named)}"
    visible = _visible()
    absent = [name for name in named if name not in visible]
    if absent:
        seen = f"sees {', '.join(visible)}" if visible else "sees none"
        raise ConfigError(
            f"{setting}, but this process {seen}; name GPUs among those, or have CUDA_VISIBLE_DEVICES (with "
            "accelerate launch, --gpu_ids) name the GPUs of the training and then those of the engines"
        )
    repeated = next((name for name in named if named.count(name) > 1), None)
    if repeated is not None:
        raise ConfigError(f"{setting}, which names GPU {repeated} twice; name each once")
    if len(named) % gpus:
        raise ConfigError(
            f"{setting}: {len(named)} GPUs are no whole number of engines with {gpus} each (vllm: gpus); "
            f"name a multiple of {gpus}, or set another vllm: gpus"
        )
    # A process that no launcher has started trains on the first GPU.
    trained = visible[: int(os.environ.get("LOCAL_WORLD_SIZE", 1))]
    shared = [name for name in named if name in trained] if trains_on_gpu else []
    if shared:
        raise ConfigError(
            f"{setting}, but the training runs on {', '.join(trained)}; name others, or start fewer "
            "processes, which take the first GPUs (accelerate launch --multi_gpu --num_processes N)"
        )
    return _groups(named, gpus)


def _visible() -> list[str]:
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        # As CUDA: a negative number hides what follows it, and -1 alone hides all.
        parts = takewhile(lambda part: not part.strip().startswith("-"), named.split(","))
        return [device for part in parts if (device := part.strip())]
    import torch

    return list(map(str, range(torch.cuda.device_count())))


def _groups(devices: Sequence[str], gpus: int) -> list[str]:
    starts = range(0, len(devices) - gpus + 1, gpus)
    return [",".join(devices[start : start + gpus]) for start in starts]
