"""Runs that docs/results stores: their settings and traces, in the archive of each folder."""

from __future__ import annotations

import tarfile
from collections.abc import Mapping
from functools import cache
from typing import Any

import yaml

from perf import ROOT
from videopro.report.runs import sampling_of
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


def written(config: Mapping[str, Any]) -> str:
    """How a run's programs were written: "" for none, by the "teacher", or how they were decoded."""
    method = config["identity"]["method"]
    is_teachers = str(method.get("planner")).startswith("pocket-teacher")
    return "teacher" if is_teachers else sampling_of(method)


def is_right_at_first(trace: Trace) -> bool:
    """Whether the first program has the right answer."""
    execution = trace.rounds[0].execution
    answer = execution.answer if execution is not None else None
    return answer is not None and trace.is_right(answer.letter)
