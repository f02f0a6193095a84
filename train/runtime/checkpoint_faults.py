"""Checks a checkpoint for damage before anything of it is loaded.

Compares its files with the manifest in it; an older checkpoint, which has no manifest, is checked by reading
its files.
"""

from __future__ import annotations

import json
import pickle
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from transformers.trainer_pt_utils import safe_globals

from videopro.storage import non_finite_in
from videopro.train.runtime.checkpoint_files import MANIFEST, file_identity, read_manifest, step_of

STATE = "trainer_state.json"
# What torch.load, zipfile and JSON raise for files that are truncated, emptied or overwritten.
_BROKEN = (
    *(OSError, ValueError, KeyError, EOFError, RuntimeError, TypeError, AttributeError, IndexError),
    *(NotImplementedError, RecursionError, MemoryError),
    *(pickle.UnpicklingError, zipfile.BadZipFile, SafetensorError),
)


def find_fault(folder: Path, *, weights_only: bool = False) -> str | None:
    """Why a run cannot resume from a checkpoint; None for a complete one. `weights_only`: the run saves no
    optimizer (save_only_model)."""
    try:
        manifest = read_manifest(folder)
    except (OSError, ValueError) as error:
        return f"{MANIFEST} cannot be read ({_first_line(error)})"
    checks = _by_reading(folder, weights_only) if manifest is None else _by_list(folder, manifest["files"])
    return next(checks, None) or next(_holding_nan(folder), None)


def _by_list(folder: Path, recorded: Any) -> Iterator[str]:
    for name, expected in recorded.items():
        file = folder / name
        try:
            actual = file_identity(file) if file.is_file() else None
        except OSError as error:
            yield f"{name} cannot be read ({error.strerror})"
            continue
        if actual is None:
            yield f"{name} is missing"
        elif not isinstance(expected, dict) or actual["size"] != expected.get("size"):
            yield f"{name} has {actual['size']:,} bytes, but {_size(expected)} were written"
        elif actual != expected:
            yield f"{name} has changed since it was written"


def _size(expected: Any) -> str:
    size = expected.get("size") if isinstance(expected, dict) else None
    return f"{size:,}" if isinstance(size, int) else "an unknown number"


def _by_reading(folder: Path, weights_only: bool) -> Iterator[str]:
    yield from _state(folder)
    weights = sorted((*folder.glob("*.safetensors"), *folder.glob("pytorch_model*.bin")))
    # DeepSpeed and FSDP keep their shards in folders.
    sharded = [entry for entry in folder.iterdir() if entry.is_dir()]
    if not weights and not sharded:
        yield "the weights (adapter_model.safetensors or model.safetensors) are missing"
    yield from _shards(folder)
    if not weights_only and not sharded:
        # With full state dicts, FSDP's optimizer file ends in .bin.
        lacking = [name for name in ("optimizer", "scheduler") if not list(folder.glob(f"{name}.*"))]
        if not list(folder.glob("rng_state*.pth")):
            lacking.append("rng_state")
        yield from (f"{name} is missing" for name in lacking)
    # DeepSpeed's pointer to the folder of its shards.
    latest = folder / "latest"
    if latest.is_file() and not (folder / latest.read_text(errors="replace").strip()).is_dir():
        yield "the folder named in its file 'latest' is missing"
    for file in sorted(folder.rglob("*")):
        reason = _unreadable(file)
        if reason is not None:
            yield f"{file.relative_to(folder)} cannot be read ({reason})"


def _state(folder: Path) -> Iterator[str]:
    try:
        state = json.loads((folder / STATE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        yield f"{STATE} is missing"
    except (OSError, ValueError, RecursionError) as error:
        yield f"{STATE} cannot be read ({_first_line(error)})"
    else:
        step = state.get("global_step") if isinstance(state, dict) else None
        if step != step_of(folder):
            yield f"{STATE} belongs to step {step!r}"


def _shards(folder: Path) -> Iterator[str]:
    for index in folder.glob("*.index.json"):
        try:
            named = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        except _BROKEN as error:
            yield f"{index.name} cannot be read ({_first_line(error)})"
            continue
        yield from (f"{name} is missing" for name in sorted(named) if not (folder / name).is_file())


def _unreadable(file: Path) -> str | None:
    """Why a file of tensors cannot be read; None for one that can, and for other files."""
    try:
        if file.suffix == ".safetensors":
            with safe_open(file, framework="pt"):
                return None
        if file.suffix not in (".pt", ".pth", ".bin") or not file.is_file():
            return None
        # torch.load does not verify checksums.
        with zipfile.ZipFile(file) as parts:
            damaged = parts.testzip()
        if damaged is not None:
            return f"{damaged} inside it is damaged"
        if file.name in ("optimizer.pt", "scheduler.pt") or file.name.startswith("rng_state"):
            with safe_globals():
                torch.load(file, map_location="cpu", weights_only=True, mmap=True)
    except _BROKEN as error:
        return _first_line(error)
    return None


def _holding_nan(folder: Path) -> Iterator[str]:
    for file in sorted(folder.rglob("*.safetensors")):
        try:
            name = non_finite_in(file)
        except _BROKEN as error:
            yield f"{file.relative_to(folder)} cannot be read ({_first_line(error)})"
            continue
        if name is not None:
            yield f"{file.relative_to(folder)} has weights that are NaN or infinite ({name})"


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0][:200] or type(error).__name__
