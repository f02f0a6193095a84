"""On PYTHONPATH: ranks of a training under DeepSpeed take this CPU for a GPU.

accelerate spreads a model over GPUs alone. Every Python imports this file, and ranks alone are changed.
"""

import os
import sys
from itertools import pairwise

_is_training = any(
    program == "videopro" and command in ("sft", "grpo") for program, command in pairwise(sys.orig_argv)
)
if os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true" and _is_training:
    from perf.battery.as_accelerator import take_cpu_for_gpu

    take_cpu_for_gpu()
