"""Check whether a run may be resumed: the model and the questions must be the same as when it started."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any

from videopro.backbones import Backbone, identify, load_backbone, read_spec
from videopro.benchmarks import Benchmark
from videopro.cli import read_yaml
from videopro.errors import RunError, VideoProError
from videopro.question import without_own_labels
from videopro.runs.folder import RunFolder
from videopro.traces import Trace


def check_model(
    folder: RunFolder,
    identity: Mapping[str, Any],
    model: str,
    backbone: Mapping[str, Any],
    load: Callable[..., Backbone],
) -> None:
    """Compare the model with that of the folder's run, for a command that will not load it.

    A model that is no longer available is compared by name and settings only. Raises RunError if the model
    differs.
    """
    recorded = folder.recorded_identity() or {}
    try:
        # The identity of a model is read from its files; another loader, as of a test, has to make its model.
        if load is load_backbone:
            now = identify(read_spec(model, **backbone), recorded.get("model") or {})
        else:
            with closing(load(model, **backbone)) as loaded:
                now = dict(loaded.identity())
    except VideoProError as error:
        settings = read_yaml(folder.config)
        if (settings.get("model"), settings.get("backbone") or {}) != (model, dict(backbone)):
            raise RunError(
                f"{folder.path}: is a run of {settings.get('model')!r}, which cannot be compared with "
                f"{model!r} ({error}); fix this, or give --model and --backbone as in its config.yaml"
            ) from error
        print(f"{model!r} was compared with the run's model by name only: {error}", file=sys.stderr)
        return
    folder.check_same({**identity, "model": now})


def check_questions(recorded: Sequence[Trace], benchmark: Benchmark, folder: RunFolder) -> None:
    """Check that the benchmark's questions are the same as when the run started. Raises RunError."""
    items = {item.id: item for item in benchmark.items}
    for trace in recorded:
        item = items.get(trace.question_id)
        if item is None:
            raise RunError(
                f"{folder.traces}: question {trace.question_id!r} is no longer in {benchmark.name}, split "
                f"{benchmark.split!r}; give the --root of that run or another --output"
            )
        now = (item.question.text, item.question.choices, item.answer)
        # Earlier versions kept the labels that choices bring, and showed them twice.
        options = (trace.choices, without_own_labels(trace.choices))
        if now not in [(trace.question, choices, trace.gold) for choices in options]:
            raise RunError(
                f"{folder.traces}: question {trace.question_id!r} now has another text, options or answer in "
                f"{benchmark.name}; give the --root of that run or another --output"
            )
