"""(h) DeepSpeed: whether it imports without a CUDA toolkit, and an SFT step under ZeRO-2."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from perf.battery.cases import Bench, Case, Figures, Skip
from perf.battery.fine_tuning import recipe
from perf.battery.measuring import on_gpu

ROOT = Path(__file__).resolve().parents[2]
TITLE = "DeepSpeed on one device"


def cases(bench: Bench) -> list[Case]:
    return [
        Case("import without CUDA_HOME", import_alone),
        Case("ZeRO-2 step", lambda: zero2(bench)),
    ]


def _needs_deepspeed() -> None:
    if importlib.util.find_spec("deepspeed") is None:
        raise Skip("deepspeed is not installed: pip install -e '.[deepspeed]'")


def import_alone() -> Figures:
    """`import deepspeed` where nothing names a CUDA toolkit."""
    _needs_deepspeed()
    environment = {
        name: value for name, value in os.environ.items() if name not in ("CUDA_HOME", "CUDA_PATH")
    }
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", "import deepspeed; print(deepspeed.__version__)"],
        capture_output=True,
        text=True,
        env=environment,
    )
    lines = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
    return {
        "imports": done.returncode == 0,
        "said": lines[-1][:200] if lines else "",
        "nvcc": shutil.which("nvcc") is not None,
        "import_s": round(time.monotonic() - began, 1),
    }


def zero2(bench: Bench) -> Figures:
    """Two steps of train/sft.py under configs/accelerate/zero2.yaml with one process."""
    _needs_deepspeed()
    if not on_gpu() and shutil.which("g++") is None:
        raise Skip("DeepSpeed compiles what its ranks on a CPU talk with, and there is no g++")
    if not on_gpu() and bench.shapes.name != "tiny":
        raise Skip("DeepSpeed on a CPU keeps fp32 copies of all weights: run this part with SHAPES=tiny")
    output, batch = bench.path("zero2"), bench.shapes.batches[0]
    shutil.rmtree(output, ignore_errors=True)
    arguments = recipe(bench, batch, 2, output, dataloader_num_workers=0)
    launch = [sys.executable, "-m", "accelerate.commands.launch"]
    launch += ["--config_file", str(ROOT / "configs" / "accelerate" / "zero2.yaml")]
    launch += ["--num_processes", "1", "--main_process_port", "0"]
    if not on_gpu():
        launch += ["--mixed_precision", "no", "--module", "perf.battery.as_accelerator"]
    log = bench.path("zero2.log")
    began = time.monotonic()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    with log.open("w") as stream:
        status = subprocess.run(
            [*launch, "train/sft.py", *arguments], cwd=ROOT, env=environment, stdout=stream, stderr=stream
        ).returncode
    if status != 0:
        raise RuntimeError(f"accelerate launch ended with status {status}: {log.read_text()[-2000:]}")
    history = json.loads((output / "trainer_state.json").read_text())["log_history"]
    done = next(line for line in history if "train_runtime" in line)
    return {
        "steps": 2,
        "batch": batch,
        "train_s": round(done["train_runtime"], 1),
        "whole_s": round(time.monotonic() - began, 1),
        "loss": round(done["train_loss"], 3),
    }
