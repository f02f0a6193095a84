"""Runs that docs/results stores: their settings and traces, in the archive of each folder."""

from __future__ import annotations

import tarfile
from collections.abc import Mapping
from functools import cache
from typing import Any

import yaml

from perf import ROOT
from videopro.traces import Trace

RESULTS = ROOT / "docs" / "results"


@cache
def configs(results: str) -> Mapping[str, Any]:
    """The settings of the runs that a folder of docs/results stores, by the run's name."""
    with tarfile.open(RESULTS / results / "traces.tar.xz") as archive:
        return {
            member.name.removesuffix("/config.yaml"): yaml.safe_load(_content(archive, member))
            for member in archive
            if member.name.endswith("/config.yaml")
        }


@cache
def traces(results: str, run: str) -> tuple[Trace, ...]:
    """The traces of a stored run."""
    with tarfile.open(RESULTS / results / "traces.tar.xz") as archive:
        lines = _content(archive, archive.getmember(f"{run}/traces.jsonl")).splitlines()
    return tuple(map(Trace.from_line, lines))


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    assert file is not None, member.name
    return file.read()


def decoding(config: Mapping[str, Any]) -> str:
    """How a run's programs were written: "" for none, by the "teacher", "greedy", or "sampled at" its
    temperature."""
    method = config["identity"]["method"]
    planner = method.get("planner")
    if planner is None:
        return ""
    if planner.startswith("pocket-teacher"):
        return "teacher"
    if not method["temperature"]:
        return "greedy"
    nucleus = f", top-p {method['top_p']:g}" if method.get("top_p", 1.0) < 1 else ""
    return f"sampled at {method['temperature']:g}{nucleus}"
