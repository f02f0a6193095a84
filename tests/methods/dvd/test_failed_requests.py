"""Requests that a captioner refuses while a database is built: what is kept, and what the user is told."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.dvd_world import builder, captioner, describe
from tests.support.scripted_model import ScriptedModel
from videopro.backbones.server import RequestRefused
from videopro.errors import BackboneError
from videopro.methods.dvd.database import is_too_long

LONG = RequestRefused("server http://x/v1 refused the request (status 400): maximum context length is 8", 400)


def limited(characters: int, error: Exception = LONG) -> ScriptedModel:
    """A captioner that refuses longer prompts."""

    def reply(prompt: str, frames: Any) -> Any:
        if len(prompt) > characters:
            raise error
        return describe(prompt, frames) if frames else {"subjects": []}

    return ScriptedModel([reply], forever=True)


def room(root: Path) -> int:
    """A limit that the first three captions keep: the fourth has the second subject in its registry."""
    model = captioner()
    builder(root, model).build()
    lengths = [len(request.prompt) for request in model.requests]
    assert lengths[3] > max(lengths[:3])
    return max(lengths[:3])


def test_a_registry_that_is_too_long_says_what_to_change(tmp_path: Path) -> None:
    """Three of six clips are captioned; the fourth is shown two subjects, which are one too many."""
    tight = limited(room(tmp_path / "measured"))
    first = builder(tmp_path, tight)
    with pytest.raises(BackboneError) as raised:
        first.build()
    message = str(raised.value)
    assert message.startswith("clip 3: server http://x/v1 refused the request (status 400): maximum context")
    assert "the registry so far (2 subjects, " in message
    for way_out in ("registry=parallel", "clip_seconds", "a captioner that takes more"):
        assert way_out in message
    assert len(first.path().read_text().splitlines()) == 3
    # The way out is one.
    database = builder(tmp_path, tight, registry="parallel").build()
    assert len(database.clips) == 6
    assert database.notes[0].startswith("the subjects of the database were joined by name only; ")


def test_other_refusals_are_as_they_were(tmp_path: Path) -> None:
    """No advice about the registry for a filter of contents, and none before there is a registry."""
    filtered = RequestRefused("refused (status 400): the content management policy of the service", 400)
    with pytest.raises(RequestRefused) as raised:
        builder(tmp_path / "filter", limited(room(tmp_path), filtered)).build()
    assert raised.value is filtered
    with pytest.raises(RequestRefused) as raised:
        builder(tmp_path / "first", limited(0)).build()
    assert raised.value is LONG


def test_a_merge_that_is_too_long_joins_equal_names(tmp_path: Path) -> None:
    """The captions are paid and good: the questions are answered, and each notes what happened."""

    def no_room_for_all(prompt: str, frames: Any) -> Any:
        if not frames:
            raise LONG
        return describe(prompt, frames)

    built = builder(tmp_path, ScriptedModel([no_room_for_all], forever=True), registry="parallel")
    database = built.build()
    names = [subject.name for subject in database.registry.subjects]
    assert names == ["grey place", "red place", "blue place", "green place"]
    assert database.notes == (
        "the subjects of the database were joined by name only; what failed in their merge: its request is "
        f"longer than the captioner takes ({LONG})",
    )
    # It is not asked for again.
    assert builder(tmp_path, ScriptedModel([]), registry="parallel").build().notes == database.notes


def test_a_merge_that_fails_otherwise_is_made_later(tmp_path: Path) -> None:
    def gone(prompt: str, frames: Any) -> Any:
        if not frames:
            raise BackboneError("the server is gone")
        return describe(prompt, frames)

    with pytest.raises(BackboneError, match="is gone"):
        builder(tmp_path, ScriptedModel([gone], forever=True), registry="parallel").build()
    later = ScriptedModel([{"subjects": []}])
    assert builder(tmp_path, later, registry="parallel").build().notes == ()
    assert len(later.requests) == 1


def test_clips_in_flight_are_kept_when_another_fails(tmp_path: Path) -> None:
    """They are paid: the first two are in flight together, and one fails before the other is done."""
    together = threading.Barrier(2)

    def fails_first(prompt: str, frames: Any) -> Any:
        number = next(n for n in range(6) if f"from {10 * n}.0 to" in prompt)
        if number < 2:
            together.wait(10)
        if number == 0:
            raise BackboneError("the filter refuses this clip")
        time.sleep(0.2)
        return describe(prompt, frames)

    built = builder(tmp_path, ScriptedModel([fails_first], forever=True), registry="parallel", max_parallel=2)
    with pytest.raises(BackboneError, match="the filter refuses this clip"):
        built.build()
    kept = {json.loads(line)["clip"] for line in built.path().read_text().splitlines()}
    # The third may have been begun in the moment of the failure, the last cannot.
    assert 1 in kept
    assert not kept & {0, 5}


@pytest.mark.parametrize(
    ("message", "status", "expected"),
    [
        ("This model's maximum context length is 32768 tokens. However, you requested 40000", 400, True),
        ("The input (40000 tokens) is longer than the model's context length (32768 tokens).", 400, True),
        ("the request exceeds the available context size", 400, True),
        ("Input validation error: `inputs` must have less than 1024 tokens", 422, True),
        ("Request Entity Too Large", 413, True),
        ("backbone 'qwen' ran out of memory on cuda:0", None, True),
        ("Rate limit exceeded", 429, False),
        ("internal error: context deadline", 503, False),
        ("the prompt triggered the content management policy", 400, False),
        ("unsupported parameter: 'max_tokens'", 400, False),
        ("server http://x/v1 gave no reply within 60 s", None, False),
    ],
)
def test_what_counts_as_too_long(message: str, status: int | None, expected: bool) -> None:
    error = BackboneError(message) if status is None else RequestRefused(message, status)
    assert is_too_long(error) is expected
