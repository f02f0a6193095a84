"""Subjects, the schemas of calls, the times that are inspected, and the settings."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.support.adapting import adapted
from tests.support.reason_world import SceneBackbone
from videopro.backbones import BackboneConfig
from videopro.errors import ConfigError
from videopro.methods import create
from videopro.methods.agents import ModelLoader, ToolCall, UnparsedReply, parse_reply
from videopro.methods.dvd.database_file import (
    MergedSubject,
    MergeReply,
    Subject,
    SubjectRegistry,
    SubjectReply,
    merged,
)
from videopro.methods.dvd.settings import DvdSettings
from videopro.methods.dvd.tools import TOP_K, inspected_times, offered, one_call, sendable


def seen(name: str, start: float, *, actions: tuple[str, ...] = (), **facts: str) -> Subject:
    return Subject.seen(SubjectReply(name=name, actions=list(actions), **facts), start, start + 5)


# ---- subjects --------------------------------------------------------------------------------------------


def test_a_known_subject_gains_facts_and_spans() -> None:
    registry = SubjectRegistry()
    registry.add(seen("Anna", 0, appearance="green coat", actions=("runs",)))
    registry.add(seen("the dog", 5))
    registry.add(seen(" anna ", 5, appearance="a coat", identity="the baker", actions=("runs", "sings")))
    registry.add(seen("ANNA", 20))
    anna, dog = registry.subjects
    assert anna == Subject(
        name="Anna",
        appearance="green coat",
        identity="the baker",
        actions=["runs", "sings"],
        spans=[(0, 10), (20, 25)],
    )
    assert dog.spans == [(5, 10)]
    assert registry.describe() == (
        "Anna: green coat. the baker. runs; sings. 0-10 s, 20-25 s\nthe dog: 5-10 s"
    )


def test_merged_subjects_keep_what_was_seen_of_them() -> None:
    """Also of two with one name: numbers tell them apart."""
    mentions = [
        seen("man", 0, appearance="red hat", actions=("runs",)),
        seen("man", 5, appearance="blue hat"),
        seen("runner", 20, identity="Tom", actions=("falls",)),
        seen("dog", 30),
    ]
    reply = MergeReply(
        subjects=[
            MergedSubject(name="Tom", mentions=[0, 2], actions=["races"]),
            MergedSubject(name="man in blue", mentions=[1, 0, 7]),
            MergedSubject(name="nobody", mentions=[12]),
        ]
    )
    tom, blue, dog = merged(mentions, reply).subjects
    assert tom == Subject(
        name="Tom",
        appearance="red hat",
        identity="Tom",
        actions=["races", "runs", "falls"],
        spans=[(0, 5), (20, 25)],
    )
    assert (blue.name, blue.appearance, blue.spans) == ("man in blue", "blue hat", [(5, 10)])
    assert (dog.name, dog.spans) == ("dog", [(30, 35)])


# ---- calls -----------------------------------------------------------------------------------------------


def test_a_written_call_has_the_arguments_of_its_tool() -> None:
    schema = one_call(offered(DvdSettings()))
    text = '{"reason": "?", "tool": "frame_inspect", "arguments": {"question": "?", "time_ranges": [[1, 2]]}}'
    call = parse_reply(text, schema).root
    assert call.arguments.model_dump() == {"question": "?", "time_ranges": [[1.0, 2.0]]}
    with pytest.raises(UnparsedReply, match="time_ranges: Field required"):
        parse_reply('{"tool": "frame_inspect", "arguments": {"question": "?"}}', schema)
    with pytest.raises(UnparsedReply, match="'global_browse', 'clip_search', 'frame_inspect', 'answer'"):
        parse_reply('{"tool": "watch", "arguments": {}}', schema)


def test_answer_may_be_the_only_tool() -> None:
    schema = one_call(offered(DvdSettings(tools=())))
    assert parse_reply('{"tool": "answer", "arguments": {"text": "B"}}', schema).root.tool == "answer"
    with pytest.raises(UnparsedReply, match="Input should be 'answer'"):
        parse_reply('{"tool": "clip_search", "arguments": {"query": "B"}}', schema)


def test_a_sound_call_is_repeated_as_it_was_written() -> None:
    call = ToolCall("clip_search", '{"query":  "x"}', "7")
    assert sendable(call) == call
    assert sendable(ToolCall("a" * 65, "[]", "7")) == ToolCall("unknown_tool", "{}", "7")


# ---- times -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ranges", "most", "expected"),
    [
        ([(2.0, 4.0)], 50, [2.25, 2.75, 3.25, 3.75]),
        # At least one in each range, however short; the ranges in order of time, each moment once.
        ([(8.0, 8.2), (2.0, 3.0), (2.0, 3.0)], 50, [2.25, 2.75, 8.1]),
        # Spread evenly over all of them if there are too many: one of each four of the sixteen.
        ([(0.0, 4.0), (10.0, 14.0)], 4, [1.25, 3.25, 11.25, 13.25]),
    ],
)
def test_inspected_times(ranges: list[tuple[float, float]], most: int, expected: list[float]) -> None:
    assert inspected_times(ranges, 2.0, most) == pytest.approx(expected)


def test_an_hour_is_inspected_in_fifty_frames() -> None:
    """The limit of section 3.2.1, over the whole hour."""
    times = inspected_times([(0.0, 3600.0)], 2.0, 50)
    assert len(times) == 50
    assert {round(b - a, 3) for a, b in pairwise(times)} == {72.0}


# ---- settings --------------------------------------------------------------------------------------------


def test_the_defaults_are_the_papers() -> None:
    settings = DvdSettings()
    assert (settings.clip_seconds, settings.fps, TOP_K) == (5.0, 2.0, 16)
    assert settings.max_tool_steps == 15
    assert settings.registry == "progressive"
    assert settings.tools == ("global_browse", "clip_search", "frame_inspect")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clip_seconds": 0}, "clip_seconds is 0"),
        ({"max_tool_steps": 0}, "max_tool_steps is 0"),
        ({"tools": ["clip_serch"]}, "unknown tool 'clip_serch'.*clip_search"),
        ({"tools": ["clip_search", "clip_search"]}, "name each tool once"),
        ({"registry": "all"}, "registry is 'all'"),
        ({"captioner": ""}, "name a backbone"),
    ],
)
def test_impossible_settings_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        create("dvd", options)


def test_720p_is_asked_of_every_role_and_changes_no_other_run() -> None:
    """1280 x 720 pixels, for the run's own model by its setting, for the others by the loader."""
    sharp = adapted("dvd", {"resolution": "720p"}, backbone={"frames": 8})
    assert sharp.backbone == {"frames": 8, "pixels": 921_600}
    assert adapted("dvd", {}, backbone={"frames": 8}).backbone == {"frames": 8}
    with pytest.raises(ConfigError, match="backbone pixels is 50176, but resolution asks for 921600"):
        adapted("dvd", {"resolution": "720p"}, backbone={"pixels": 50_176})
    loaded: list[BackboneConfig] = []

    def load(config: BackboneConfig) -> SceneBackbone:
        loaded.append(config)
        return SceneBackbone()

    loader = ModelLoader(SceneBackbone(), pixels=921_600, load=load)
    loader["server:qwen@http://localhost:8000/v1"]
    assert [config.pixels for config in loaded] == [921_600]
    plain = create("dvd", {}).identity()
    assert create("dvd", {"resolution": "720p"}).identity() == {**plain, "resolution": "720p"}
