"""Check whether a run may be resumed: the model, the questions, and the films and texts that they are about
must be the same as when it started."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import cache
from typing import Any

from videopro.backbones import Backbone, identify, load_backbone, read_spec
from videopro.benchmarks import Benchmark, Item
from videopro.cli import read_yaml
from videopro.errors import RunError, VideoProError
from videopro.methods import other_file
from videopro.runs.folder import RunFolder
from videopro.traces import OTHER_FILES, Redo, Trace
from videopro.video import content_if_readable


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
        if now != (trace.question, trace.choices, trace.gold):
            raise RunError(
                f"{folder.traces}: question {trace.question_id!r} now has another text, options or answer in "
                f"{benchmark.name}; give the --root of that run or another --output"
            )


def check_files(
    recorded: Sequence[Trace],
    benchmark: Benchmark,
    items: Sequence[Item],
    folder: RunFolder,
    *,
    errors: bool,
    changed: bool,
) -> Redo:
    """Compare the films, subtitles and transcripts of `items`, the questions of this command, with those that
    answers are about; a file that is not on this machine is not compared. Returns what is answered again:
    `errors`, and with `changed` the questions about another file. Raises RunError for these without
    `changed`, and for those that are not among `items`."""
    films, known = {item.video_key for item in items}, {item.id: item for item in benchmark.items}
    content = cache(content_if_readable)
    others: defaultdict[str, list[Trace]] = defaultdict(list)
    for trace in recorded:
        item = known[trace.question_id]
        if item.video_key in films and (name := other_file(trace, item, content)):
            others[name].append(trace)
    asked = {item.id for item in items} if changed else set()
    lines = [
        f"\n  {name}: another one when these were answered: {', '.join(left[:3])}"
        + (f" and {len(left) - 3} more" if len(left) > 3 else "")
        for name, traces in others.items()
        if (left := [trace.question_id for trace in traces if trace.question_id not in asked])
    ]
    if lines:
        fix = "--redo-changed has to ask these too: give no smaller --limit" if changed else OTHER_FILES
        raise RunError(f"{folder.path}: files are not those of its answers; {fix}{''.join(lines)}")
    stale = [trace for traces in others.values() for trace in traces]
    return Redo(errors, frozenset((each.question_id, each.video.id, each.video.text_id) for each in stale))
