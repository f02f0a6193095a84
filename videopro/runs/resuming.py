"""Whether a run may be resumed: is its model the one that is given now, are its questions what they were.

Knows run folders, backbones' identities and benchmarks; nothing of how a run is carried out.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any

from videopro.backbones import Backbone, load_backbone, read_spec
from videopro.backbones.identity import identify
from videopro.benchmarks import Benchmark
from videopro.errors import RunError, VideoProError
from videopro.runs.folder import RunFolder
from videopro.settings import read_yaml
from videopro.traces import Trace


def check_model(
    folder: RunFolder,
    identity: Mapping[str, Any],
    model: str,
    backbone: Mapping[str, Any],
    load: Callable[..., Backbone],
) -> None:
    """Compare the model with the one that a folder's run was made with, for a command that will not load it.

    A model that cannot be had any more is the run's if it is named as the run named it: there is nothing that
    it could be told by. Raises RunError for another one.
    """
    recorded = folder.recorded() or {}
    try:
        if load is load_backbone:
            now = identify(read_spec(model, **backbone), recorded.get("model") or {})
        else:
            with closing(load(model, **backbone)) as loaded:
                now = dict(loaded.identity())
    except VideoProError as error:
        settings = read_yaml(folder.config)
        if (settings.get("model"), settings.get("backbone") or {}) != (model, dict(backbone)):
            raise RunError(
                f"{folder.path}: is a run of {settings.get('model')!r}, and whether that is {model!r} cannot "
                f"be told ({error}); mend that, or give --model and --backbone as in its config.yaml"
            ) from error
        print(f"{model!r} was compared with the run's model by its name only: {error}", file=sys.stderr)
        return
    folder.check_same({**identity, "model": now})


def check_questions(recorded: Sequence[Trace], benchmark: Benchmark, folder: RunFolder) -> None:
    """Refuse to go on when the benchmark's files say something else than when the run began. Raises
    RunError."""
    items = {item.id: item for item in benchmark.items}
    for trace in recorded:
        item = items.get(trace.question_id)
        if item is None:
            raise RunError(
                f"{folder.traces}: question {trace.question_id!r} is no longer in {benchmark.name}, split "
                f"{benchmark.split!r}; give the --root of that run or another --output"
            )
        now = (item.question.text, item.question.choices, item.answer)
        if now != (trace.question, trace.choices, trace.gold):
            raise RunError(
                f"{folder.traces}: question {trace.question_id!r} has another text, options or answer in "
                f"{benchmark.name} now; give the --root of that run or another --output"
            )
