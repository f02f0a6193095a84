"""Tensors of a checkpoint that its model's class does not have, such as the `mtp.*` of Qwen3.5 (a head that
guesses further tokens, for engines). transformers drops them on loading; a model that is saved again keeps
them.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from videopro.errors import BackboneError

_INDEX = "model.safetensors.index.json"


def note_beyond(model: Any, unexpected: Iterable[str]) -> None:
    """Remember what `from_pretrained` called unexpected, for `keep_beyond`."""
    model.unexpected_tensors = tuple(sorted(unexpected))


def keep_beyond(model: Any, base: Path, folder: Path) -> list[str]:
    """Copy what the checkpoint in `base` has beyond the model, unchanged, to the same model's files in
    `folder`, and list it in their index. Returns the names. Does nothing if `folder` has no safetensors of a
    whole model. Raises BackboneError if the base's weights are in another format, and OSError."""
    saved = _files(folder)
    if not saved:
        return []
    unexpected: tuple[str, ...] = getattr(model, "unexpected_tensors", ())
    # transformers drops what fits these without listing it as unexpected.
    patterns = [re.compile(pattern) for pattern in model._keys_to_ignore_on_load_unexpected or ()]
    stored = _files(base)
    if unexpected and not stored:
        raise BackboneError(
            f"{base}: has tensors beyond the model ({', '.join(unexpected[:3])}, ...) that are not in "
            "safetensors, so they cannot be kept; convert the checkpoint to safetensors first"
        )
    # transformers may name a tensor of a foreign part otherwise than its file does; its first word tells.
    modules = {name.partition(".")[0] for name in saved}
    foreign = {name.partition(".")[0] for name in unexpected} - modules
    beyond = sorted(
        name
        for name in stored.keys() - saved.keys()
        if name in unexpected
        or name.partition(".")[0] in foreign
        or any(pattern.search(name) for pattern in patterns)
    )
    if beyond:
        _add(folder, saved, {name: _read(base / stored[name], name) for name in beyond})
    return beyond


def _files(folder: Path) -> dict[str, str]:
    """The file of each tensor of a whole model in safetensors; empty without one."""
    index = folder / _INDEX
    if index.is_file():
        return dict(json.loads(index.read_text(encoding="utf-8"))["weight_map"])
    file = folder / "model.safetensors"
    if not file.is_file():
        return {}
    with safe_open(file, framework="pt") as content:
        return dict.fromkeys(content.keys(), file.name)


def _read(file: Path, name: str) -> torch.Tensor:
    with safe_open(file, framework="pt") as content:
        tensor: torch.Tensor = content.get_tensor(name)
        return tensor


def _add(folder: Path, saved: Mapping[str, str], tensors: Mapping[str, torch.Tensor]) -> None:
    """Add a file of tensors, number the files anew, and write the index."""
    before = sorted(set(saved.values()))
    count = len(before) + 1
    renamed = {name: f"model-{number:05}-of-{count:05}.safetensors" for number, name in enumerate(before, 1)}
    last = f"model-{count:05}-of-{count:05}.safetensors"
    index = folder / _INDEX
    metadata = json.loads(index.read_text(encoding="utf-8"))["metadata"] if index.is_file() else {}
    for name in before:
        os.replace(folder / name, folder / renamed[name])
    save_file(dict(tensors), folder / last, metadata={"format": "pt"})
    sizes = {"total_size": 0, "total_parameters": 0}
    for name in (*renamed.values(), last):
        _measure(folder / name, sizes)
    weight_map = {name: renamed[file] for name, file in saved.items()} | dict.fromkeys(tensors, last)
    written = {"metadata": {**metadata, **sizes}, "weight_map": dict(sorted(weight_map.items()))}
    index.write_text(json.dumps(written, indent=2) + "\n", encoding="utf-8")


def _measure(file: Path, sizes: dict[str, int]) -> None:
    """Add a file's tensors, in bytes and in numbers, as transformers counts them."""
    with file.open("rb") as content:
        header = int.from_bytes(content.read(8), "little")
    sizes["total_size"] += file.stat().st_size - 8 - header
    with safe_open(file, framework="pt") as tensors:
        for name in tensors.keys():  # noqa: SIM118
            sizes["total_parameters"] += math.prod(tensors.get_slice(name).get_shape())
