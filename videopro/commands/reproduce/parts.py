"""The benchmarks of a reproduction, each with its settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from videopro.benchmarks import BENCHMARKS, PRESETS
from videopro.errors import ConfigError


@dataclass(frozen=True)
class Part:
    """A benchmark with its split, protocol, and frames per call."""

    name: str
    split: str
    protocol: str
    frames: int | None

    @property
    def has_files(self) -> bool:
        """Whether its videos are files, and not drawn."""
        return BENCHMARKS[self.name].needs_root

    @property
    def folder(self) -> str:
        """Its subfolder in the data folder and in a run folder."""
        return BENCHMARKS[self.name].name


def protocol(part: Part) -> tuple[str, ...]:
    """The flag for a benchmark's protocol, if it is not the default."""
    return ("--protocol", part.protocol) if part.protocol else ()


def parts_of(names: Sequence[str]) -> list[Part]:
    """The benchmarks with these names. A benchmark of a preset uses the preset's settings, also by its own
    name (Video-MME: its long group). Raises ConfigError for a benchmark named twice."""
    preset = {name: (split, protocol) for name, split, protocol in PRESETS["videopro"][0]}
    parts: dict[str, Part] = {}
    for argument in names:
        for name in preset if argument == "videopro" else (argument,):
            split, protocol = preset.get(name, (BENCHMARKS[name].splits[0], ""))
            frames = PRESETS["videopro"][1] if name in preset else None
            part = Part(name, split, protocol, frames)
            if part.folder in parts:
                raise ConfigError(f"benchmark {part.folder!r} is given twice; pass it once")
            parts[part.folder] = part
    return list(parts.values())
