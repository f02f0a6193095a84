"""The settings of `--engine ray`: how many workers, and what each of them needs of its node."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from videopro.cli import build_settings, check_extra, setting
from videopro.errors import ConfigError

ENGINE = setting(
    "where the work is done: local (processes of this machine), or ray (the cluster at $RAY_ADDRESS; unset: "
    "Ray is started here for the command)"
)
RAY = setting("with --engine ray: workers, and a worker's cpus, gpus and memory (GiB), such as cpus=8 gpus=1")
_GIB = 2**30


@dataclass(frozen=True)
class Share:
    """What one worker reserves of its node: numbers of CPUs and GPUs, bytes of memory (0: not reserved)."""

    cpus: float
    gpus: float
    memory: int

    def __str__(self) -> str:
        parts = [_count(self.cpus, "CPU"), _count(self.gpus, "GPU")]
        return " and ".join([", ".join(parts), f"{self.memory / _GIB:g} GiB"] if self.memory else parts)

    def workers_on(self, node: Mapping[str, float]) -> int:
        """How many workers have room on a node with these resources, which Ray calls CPU, GPU and memory."""
        amounts = {"CPU": self.cpus, "GPU": self.gpus, "memory": float(self.memory)}
        # Ray counts in units of 0.0001.
        fits = [
            math.floor(node.get(name, 0.0) / amount + 1e-9) for name, amount in amounts.items() if amount > 0
        ]
        return min(fits)


@dataclass(frozen=True)
class RaySettings:
    """The settings that follow `--ray`."""

    workers: int | None = field(
        default=None, metadata=setting("workers of the cluster; unset: as many as it has room for")
    )
    cpus: float | None = field(
        default=None,
        metadata=setting("CPUs of a worker; unset: 1, or a node's CPUs for each of its GPUs"),
    )
    gpus: float | None = field(
        default=None, metadata=setting("GPUs of a worker, such as 0.5; unset: 1 if the cluster has any")
    )
    memory: float | None = field(
        default=None, metadata=setting("memory that a worker reserves, in GiB; unset: none")
    )

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise ConfigError(f"ray: workers is {self.workers}; it must be at least 1")
        if self.cpus is not None and not self.cpus > 0:
            raise ConfigError(f"ray: cpus is {self.cpus:g}; it must be above 0")
        # As Ray wants it: a share of one GPU, or whole ones.
        if self.gpus is not None and (self.gpus < 0 or (self.gpus > 1 and self.gpus != int(self.gpus))):
            raise ConfigError(
                f"ray: gpus is {self.gpus:g}; it must be 0, a share of a GPU, or a whole number"
            )
        if self.memory is not None and not self.memory > 0:
            raise ConfigError(f"ray: memory is {self.memory:g}; it must be above 0 (GiB)")

    def share(self, nodes: Sequence[Mapping[str, float]]) -> Share:
        """What a worker reserves, on a cluster with these nodes (each by Ray's names of resources)."""
        all_gpus = sum(node.get("GPU", 0.0) for node in nodes)
        gpus = self.gpus if self.gpus is not None else float(all_gpus > 0)
        cpus = self.cpus
        if cpus is None:
            # The CPUs beside a GPU decode for its model. The smallest ratio fits on every node.
            ratios = [node.get("CPU", 0.0) * gpus / node["GPU"] for node in nodes if node.get("GPU", 0.0) > 0]
            cpus = max(1.0, float(math.floor(min(ratios)))) if gpus and ratios else 1.0
        return Share(cpus, gpus, round((self.memory or 0.0) * _GIB))

    def count(self, share: Share, nodes: Sequence[Mapping[str, float]]) -> int:
        """How many workers to start. Raises ConfigError if no node has room for one and no number was
        given: a cluster that grows needs one."""
        if self.workers is not None:
            return self.workers
        workers = sum(share.workers_on(node) for node in nodes)
        if not workers:
            largest = max(nodes, key=lambda node: (node.get("GPU", 0.0), node.get("CPU", 0.0)))
            raise ConfigError(
                f"ray: no node of the cluster has room for a worker of {share} (the largest has "
                f"{_count(largest.get('CPU', 0.0), 'CPU')}, {_count(largest.get('GPU', 0.0), 'GPU')} and "
                f"{largest.get('memory', 0.0) / _GIB:.0f} GiB); give smaller shares, such as --ray cpus=1 "
                "gpus=0, or --ray workers=N to wait for larger nodes"
            )
        return workers


def read_ray_settings(engine: str, mapping: Mapping[str, Any]) -> RaySettings:
    """The settings of `--ray`. Raises ConfigError for invalid ones, for settings of an engine that is not
    used, and MissingExtra if Ray is not installed."""
    if engine != "ray":
        if mapping:
            raise ConfigError("--ray: has no effect without --engine ray; add that, or leave --ray out")
        return RaySettings()
    check_extra("ray", "--engine ray", "ray")
    return build_settings(RaySettings, mapping, "ray")


def _count(number: float, unit: str) -> str:
    return f"{number:g} {unit}{'' if number == 1 else 's'}"
