"""Runs the cases of a part one after another, and keeps what came of each in a file, so that a part that was
interrupted continues with the case that it was at."""

from __future__ import annotations

import gc
import hashlib
import json
import os
import re
import resource
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from perf.battery.measuring import conditions, on_gpu
from perf.battery.shapes import Shapes, make_checkpoint, make_ending_checkpoint
from perf.timing import timed
from videopro.storage import JsonLinesLog, read_json_lines

Figures = dict[str, Any]


class Skip(Exception):
    """A case that cannot run here; its message says why, and what it needs."""


@dataclass(frozen=True)
class Bench:
    """Where a part runs: the shapes, and the folder that keeps what is made once."""

    shapes: Shapes
    folder: Path

    def checkpoint(self) -> Path:
        """The model with random weights."""
        return make_checkpoint(self.shapes, self.folder)

    def ending_checkpoint(self) -> Path:
        """The same, whose replies end by themselves."""
        return make_ending_checkpoint(self.shapes, self.folder)

    def path(self, name: str) -> Path:
        """A path in the folder."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.folder / name


@dataclass(frozen=True)
class Case:
    """One measurement of a part."""

    name: str
    run: Callable[[], Figures]
    """Returns JSON-able figures. Raises Skip."""


class Record:
    """What came of the cases of one device, in `cases.jsonl`.

    Lines of another device or of other versions stay in the file and do not count.
    """

    def __init__(self, path: Path) -> None:
        self.conditions = conditions()
        self._key = hashlib.sha256(json.dumps(self.conditions, sort_keys=True).encode()).hexdigest()[:12]
        self._path = path

    def append(self, part: str, case: str, **content: Any) -> None:
        """Add a line: `began`, `figures`, `skipped` or `failed`."""
        log = JsonLinesLog(self._path, make_folder=True)
        try:
            log.append({"key": self._key, "part": part, "case": case, **content})
        finally:
            log.close()

    def read(self) -> dict[str, dict[str, dict[str, Any]]]:
        """The latest line of each case that ended, by part and case."""
        cases: dict[str, dict[str, dict[str, Any]]] = {}
        for line in self._lines():
            if "forgotten" in line:
                cases.pop(line["part"], None)
            elif "began" not in line:
                content = {name: value for name, value in line.items() if name not in ("key", "part", "case")}
                cases.setdefault(line["part"], {})[line["case"]] = content
        return cases

    def unfinished(self, part: str) -> str | None:
        """The case that began last, if nothing came of it: its process ended."""
        latest = None
        for line in self._lines():
            if line["part"] == part:
                latest = line["case"] if "began" in line else None
        return latest

    def forget(self, part: str) -> None:
        """Let the part's cases run again."""
        self.append(part, "", forgotten=True)

    def _lines(self) -> list[dict[str, Any]]:
        if not self._path.exists():
            return []
        log = JsonLinesLog(self._path)
        try:
            with log.locked():
                log.cut_torn_tail()
        finally:
            log.close()
        lines = [record for _, _, record in read_json_lines(self._path, "a record of the GPU check")]
        return [record for record in lines if record.get("key") == self._key]


def run_cases(part: str, cases: Sequence[Case], record: Record) -> None:
    """Run the cases that have not ended yet. A case that runs out of memory, or raises another error, ends
    there with a message; the others go on."""
    done: Mapping[str, Any] = record.read().get(part, {})
    for case in cases:
        if case.name in done:
            continue
        record.append(part, case.name, began=time.time())
        print(f"{part} {case.name} ...", flush=True)
        load = round(os.getloadavg()[0], 1)
        content: dict[str, Any]
        with timed() as spent:
            try:
                content = {"figures": case.run()}
            except Skip as reason:
                content = {"skipped": str(reason)}
            except Exception as error:
                if ran_out_of_memory(error):
                    content = {"failed": memory_message(part, error)}
                else:
                    traceback.print_exc()
                    first_line = (str(error).splitlines() or [""])[0]
                    content = {"failed": f"{type(error).__name__}: {first_line[:300]}"}
        spent_time = {"seconds": round(spent.wall_s, 1), "cpu_s": round(spent.cpu_s, 1)}
        record.append(part, case.name, **content, **spent_time, load=load)
        gc.collect()
        if on_gpu():
            torch.cuda.empty_cache()


# What torch says on a CPU and in older CUDA builds, as a plain RuntimeError, and what the system says.
_NO_MEMORY = re.compile(r"(can't|cannot) allocate memory|not enough memory|out of memory", re.IGNORECASE)


def ran_out_of_memory(error: BaseException | None) -> bool:
    """Whether an error, or one that it came from, is a lack of memory on the device or the host."""
    while error is not None:
        is_typed = isinstance(error, (torch.OutOfMemoryError, MemoryError))
        if is_typed or _NO_MEMORY.search(str(error)):
            return True
        error = error.__cause__ or error.__context__
    return False


def memory_message(part: str, error: BaseException) -> str:
    """What a user reads when a case of a part lacked memory."""
    request = re.search(r"ried to allocate ([\d.]+ ?\w+)", str(error))
    more = f" for {request[1]} more" if request else ""
    if on_gpu():
        free, total = (size / 2**30 for size in torch.cuda.mem_get_info())
        had = f"{torch.cuda.get_device_name()} has {total:.1f} GiB, of which {total - free:.1f} were in use"
        peak = torch.cuda.max_memory_allocated() / 2**30
        had += f"; this process had allocated {peak:.1f} GiB at its peak"
    else:
        lines = Path("/proc/meminfo").read_text().splitlines()[:3]
        sizes = {line.split(":")[0]: int(line.split()[1]) / 2**20 for line in lines}
        had = f"this machine has {sizes['MemTotal']:.1f} GiB, of which {sizes['MemAvailable']:.1f} are free"
        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            had += f", and this process may have {limit / 2**30:.1f} (ulimit -v)"
    return (
        f"out of memory{more}: {had}. The other cases go on. To run this one, free memory that other "
        f"processes hold, or use a device with more, and give the same command with --redo {part}"
    )
