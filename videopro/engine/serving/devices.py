"""Which GPUs engines run on: one each, of those that this process may use."""

from __future__ import annotations

import os

from videopro.errors import ConfigError


def engine_devices(gpus: int = 1) -> list[str | None]:
    """A value of CUDA_VISIBLE_DEVICES for each engine with so many GPUs; one None on a machine without any.

    Under accelerate launch or torchrun (LOCAL_RANK is set) it is the one of this rank. Raises ConfigError if
    there are fewer GPUs than one engine wants.
    """
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        visible = [device for device in named.split(",") if device]
    else:
        import torch

        visible = list(map(str, range(torch.cuda.device_count())))
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
    starts = range(0, len(visible) - gpus + 1, gpus)
    return [",".join(visible[start : start + gpus]) for start in starts]
