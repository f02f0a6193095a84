"""The precisions in which encoders of clips compute, and which of them a machine takes by itself."""

from __future__ import annotations

from pathlib import Path

from videopro.errors import ConfigError

DTYPES = ("float32", "bfloat16", "float16")
"""The precisions in which encoders compute."""
AUTO_DTYPE = "auto"
"""The setting that leaves the precision to the machine."""
# Names in /dev of what PyTorch's GPUs are reached through (NVIDIA, its boards, Windows' subsystem, AMD).
_DEVICE_FILES = ("nvidia*", "nvhost*", "nvmap", "dxg", "kfd")


def check_dtype(setting: str, dtype: str) -> None:
    """Raise ConfigError, naming the `setting`, for a precision that encoders do not have."""
    if dtype not in (AUTO_DTYPE, *DTYPES):
        raise ConfigError(
            f"{setting} is {dtype!r}; it must be {', '.join((AUTO_DTYPE, *DTYPES[:-1]))} or {DTYPES[-1]}"
        )


def resolve_dtype(dtype: str, device: str | None = None) -> str:
    """The precision, or what "auto" stands for on `device` (None: the machine's first GPU, if it has one):
    bfloat16 on a GPU, where float32 takes several times as long, and float32 on a CPU."""
    if dtype != AUTO_DTYPE:
        return dtype
    is_gpu = _has_gpu() if device is None else device.startswith("cuda")
    return "bfloat16" if is_gpu else "float32"


def _has_gpu() -> bool:
    # Commands ask before their workers start. To import PyTorch would take longer than all else that they do.
    if not any(True for name in _DEVICE_FILES for _ in Path("/dev").glob(name)):
        return False
    import torch

    # Unlike `is_available`, it does not open the device, after which no forked process could.
    return torch.cuda.device_count() > 0
