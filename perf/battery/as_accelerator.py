"""A script with this CPU in the place of a GPU, so that accelerate spreads weights over ranks of it, which it
does on GPUs alone: -m perf.battery.as_accelerator SCRIPT [settings]."""

import os
import runpy
import sys
from pathlib import Path
from typing import Any

from accelerate.state import PartialState
from accelerate.utils import DistributedType


def _backend(*_: Any) -> tuple[str, DistributedType]:
    return "gloo", DistributedType.MULTI_GPU


def take_cpu_for_gpu() -> None:
    """Have accelerate and DeepSpeed take this process's CPU for a GPU, before either is used."""
    os.environ |= {"ACCELERATE_TORCH_DEVICE": "cpu", "DS_ACCELERATOR": "cpu"}
    PartialState._prepare_backend = _backend


if __name__ == "__main__":
    take_cpu_for_gpu()
    sys.argv = sys.argv[1:]
    sys.path.insert(0, str(Path.cwd()))
    runpy.run_path(sys.argv[0], run_name="__main__")
