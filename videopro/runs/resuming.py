"""Check whether a run may be resumed: the model, the questions, and the films and texts that they are about
must be the same as when it started."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

from videopro.backbones import Backbone, identify, load_backbone, read_spec
from videopro.benchmarks import Benchmark, Item
from videopro.cli import read_yaml
from videopro.errors import RunError, VideoProError
from videopro.modules import stored_transcript_id
from videopro.question import without_own_labels
from videopro.runs.folder import RunFolder
from videopro.traces import NO_SUBTITLES, OTHER_FILES, Redo, Trace
from videopro.video import content_id


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
    content = cache(_content)
    others: defaultdict[str, list[Trace]] = defaultdict(list)
    for trace in recorded:
        if trace.video.key in films and (name := _other_file(trace, known[trace.question_id], content)):
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


def _other_file(trace: Trace, item: Item, content: Callable[[Path], str | None]) -> str | None:
    """The film or the text that is not the one that the answer is about; None if both are."""
    before = trace.video
    film = content(item.video)
    if film is None or not before.id:
        return None
    if film != before.id:
        return str(item.video)
    if before.text_id and not before.subtitles:
        made = {stored_transcript_id(each.key) for each in trace.prepared if each.kind == "transcript"}
        return f"the transcript of {item.video}" if made - {None, before.text_id} else None
    if item.subtitles is None:
        return f"{before.subtitles} (no subtitles are listed now)" if before.subtitles else None
    text = content(item.subtitles)
    was_read = before.text_id or NO_SUBTITLES in trace.notes
    return str(item.subtitles) if was_read and text not in (None, before.text_id) else None


def _content(path: Path) -> str | None:
    try:
        return content_id(path)
    except (VideoProError, OSError):
        return None
