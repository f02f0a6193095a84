"""Seconds and memory on whichever device there is, and what the device is."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

PACKAGES = ("torch", "transformers", "trl", "peft", "accelerate", "av")
# Dense bf16 matrix products, FLOP/s, as the vendors' data sheets state them.
PEAKS = {
    "H100": 989e12,
    "H200": 989e12,
    "A100": 312e12,
    "L40S": 362e12,
    "RTX 4090": 165e12,
    "RTX 5090": 210e12,
}


# What the memory delivers, bytes/s, from the same.
BANDWIDTHS = {"H100": 3.35e12, "H200": 4.8e12, "A100": 2.04e12, "L40S": 0.864e12}


def on_gpu() -> bool:
    """Whether there is a CUDA device."""
    return torch.cuda.is_available()


def conditions() -> dict[str, Any]:
    """The device and the versions that figures depend on."""
    record: dict[str, Any] = {
        "device": torch.cuda.get_device_name()
        if on_gpu()
        else f"{os.cpu_count()} cores of {platform.machine()}",
        "python": platform.python_version(),
        **{name: _version(name) for name in PACKAGES},
    }
    if on_gpu():
        record["memory_gib"] = round(torch.cuda.get_device_properties(0).total_memory / 2**30, 1)
        record["cuda"] = torch.version.cuda
    return record


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def peak_flops() -> float | None:
    """The device's dense bf16 FLOP/s by its data sheet; None for one that is not in PEAKS."""
    return _of_device(PEAKS)


def peak_bandwidth() -> float | None:
    """The bytes/s of the device's memory by its data sheet; None for one that is not in BANDWIDTHS."""
    return _of_device(BANDWIDTHS)


def _of_device(values: Mapping[str, float]) -> float | None:
    if not on_gpu():
        return None
    name = torch.cuda.get_device_name()
    return next((value for part, value in values.items() if part in name), None)


def now() -> float:
    """Seconds on a clock, after the device has finished what it was given."""
    if on_gpu():
        torch.cuda.synchronize()
    return time.perf_counter()


def kernel_ms(run: Callable[[], Any]) -> float | None:
    """Milliseconds of the kernels that `run` starts, without the time in which the device waits for others;
    None on a CPU, which is never idle while it computes."""
    if not on_gpu():
        return None
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        run()
        now()
    return float(sum(event.self_device_time_total for event in seen.key_averages())) / 1000


def reset_peak() -> None:
    """Let `peak_gib` count from here."""
    if on_gpu():
        torch.cuda.reset_peak_memory_stats()
    else:
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")


def peak_gib() -> float:
    """The peak of the device's memory that torch allocated since `reset_peak`; on a CPU, of the process's."""
    if on_gpu():
        return round(torch.cuda.max_memory_allocated() / 2**30, 2)
    lines = Path("/proc/self/status").read_text().splitlines()
    return round(int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 2**20, 2)


@dataclass
class Utilisation:
    """How busy a device was, read from outside."""

    busy: list[float] = field(default_factory=list)
    """Shares in 0..1, several a second."""

    @property
    def idle(self) -> float | None:
        """The mean idle share; None if nothing could be read."""
        return round(1 - sum(self.busy) / len(self.busy), 3) if self.busy else None


@contextlib.contextmanager
def watch_utilisation(interval: float = 0.25) -> Iterator[Utilisation]:
    """Reads how busy the device is inside the block: a GPU by nvidia-smi (the share of time in which a kernel
    ran), a CPU by /proc/stat (all cores)."""
    seen, ended = Utilisation(), threading.Event()
    thread = threading.Thread(target=_watch_gpu if on_gpu() else _watch_cpu, args=(seen, ended, interval))
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()


def _watch_gpu(seen: Utilisation, ended: threading.Event, interval: float) -> None:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return
    command = [tool, "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"]
    command += [f"--loop-ms={int(interval * 1000)}", "--id=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:

        def stop_when_ended() -> None:
            ended.wait()
            process.terminate()

        stop = threading.Thread(target=stop_when_ended)
        stop.start()
        assert process.stdout is not None
        for line in process.stdout:
            with contextlib.suppress(ValueError):
                seen.busy.append(float(line) / 100)
        ended.wait()
        stop.join()


def _watch_cpu(seen: Utilisation, ended: threading.Event, interval: float) -> None:
    def times() -> tuple[float, float]:
        numbers = [float(part) for part in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
        return sum(numbers), numbers[3] + numbers[4]

    total, idle = times()
    while not ended.wait(interval):
        later, resting = times()
        if later > total:
            seen.busy.append(1 - (resting - idle) / (later - total))
        total, idle = later, resting
