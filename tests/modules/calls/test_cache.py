"""Calls as they are recorded, counted and cached: equal ones are made once, failures are not kept."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.numbered import CHOICES, LINES, FixedIndex, ReadingBackbone, context, library
from videopro.errors import BackboneError
from videopro.modules.library import CallCache, ModuleLibrary
from videopro.video import Subtitles


def test_calls_are_recorded_with_what_they_looked_at() -> None:
    lib = library()
    fns = lib.functions()
    frames = fns["trim_frames"](lib.video, 8, 12, num_frames=2)
    fns["query_yn"](frames, "Is 36 there?")
    first, second = lib.calls
    assert (first.fn, first.args["start"], first.args["num_frames"]) == ("trim_frames", 8, 2)
    assert (first.result, first.frames) == ("[Frame(9.00 s), Frame(11.00 s)]", ())
    assert second.args == {"frames": "[Frame(9.00 s), Frame(11.00 s)]", "question": "Is 36 there?"}
    assert second.result == "Answer('Yes', confidence 0.700)"
    assert second.frames == ((9.0, 64.0, 128.0), (11.0, 64.0, 128.0))
    assert lib.frames == 2


def test_equal_calls_of_several_programs_are_made_once() -> None:
    backbone = ReadingBackbone()
    shared, memory = context(backbone), CallCache[Any]()
    answers = []
    for _ in range(2):
        lib = ModuleLibrary(shared, cache=memory)
        trim, ask = lib.functions()["trim_frames"], lib.functions()["query_mc"]
        answers += [
            ask(trim(lib.video, 8, 12, 2), "Which?", list(CHOICES)),
            ask(trim(lib.video, 8, 12, 2), "Whose?", list(CHOICES)),
            ask(trim(lib.video, 8, 13, 2), "Which?", list(CHOICES)),
            ask(frames=trim(lib.video, 8, 12, 2), question="Which?", choices=CHOICES, context=""),
        ]
        assert len(lib.answers) == 4
        # Frames of a cached answer still count as looked at.
        assert lib.frames == 8
        asked = [call for call in lib.calls if call.fn == "query_mc"]
        assert [len(call.frames) for call in asked] == [2, 2, 2, 2]
    assert len(backbone.prompts) == 3
    assert [call.cached for call in asked] == [True] * 4
    assert [answer.answer for answer in answers[:4]] == [answer.answer for answer in answers[4:]]


def test_another_model_or_other_subtitles_are_not_cached() -> None:
    memory = CallCache[Any]()
    first, second = ReadingBackbone(), ReadingBackbone()
    second.name = "another"
    for backbone in (first, second):
        lib = ModuleLibrary(context(backbone), cache=memory)
        lib.functions()["query_native"](lib.video, "Which?", list(CHOICES))
    assert (len(first.prompts), len(second.prompts)) == (1, 1)
    found = []
    for lines in (LINES, LINES[2:3]):
        lib = ModuleLibrary(context(first, subtitles=Subtitles(lines, "some")), cache=memory)
        found.append(len(lib.functions()["get_informative_subtitles"](lib.video, "the storm", 4)))
    assert found == [3, 1]


def test_changes_to_a_result_do_not_reach_the_cache() -> None:
    lib = library(index=FixedIndex({"storm": (0.1, 0.3, 0.2, 0.9, 0.0, 0.5)}))
    search = lib.functions()["get_informative_clips"]
    intervals, clips = search(lib.video, "storm")
    intervals.clear()
    clips.clear()
    assert len(search(lib.video, "storm")[0]) == 3


def test_failures_are_not_cached_and_concurrent_calls_compute_once() -> None:
    memory = CallCache[int]()
    with pytest.raises(ZeroDivisionError):
        memory.get("key", lambda: 1 // 0)
    started, release, made = threading.Event(), threading.Event(), []

    def slow() -> int:
        started.set()
        assert release.wait(10)
        made.append(1)
        return 7

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(memory.get, "key", slow)
        assert started.wait(10)
        second = threads.submit(memory.get, "key", slow)
        release.set()
    assert (first.result(), second.result(), made) == ((7, False), (7, True), [1])


def test_the_cache_drops_the_least_recently_used() -> None:
    memory = CallCache[str](max_entries=2)
    for key in ("a", "b", "a", "c"):
        memory.get(key, lambda: "made")
    assert [memory.get(key, lambda: "anew")[0] for key in ("a", "c", "b")] == ["made", "made", "anew"]


def test_frames_are_charged_to_the_budget_before_they_are_decoded() -> None:
    class Breach(BaseException):
        pass

    counts: list[int] = []

    def use(count: int) -> None:
        counts.append(count)
        if sum(counts) > 5:
            raise Breach

    backbone = ReadingBackbone()
    memory = CallCache[Any]()
    lib = ModuleLibrary(context(backbone), cache=memory, use_frames=use)
    fns = lib.functions()
    two = fns["trim_frames"](lib.video, 0, 4, num_frames=2)
    fns["query_yn"](two, "Is it so?")
    fns["query_yn"](two, "Is it so?")
    with pytest.raises(Breach):
        fns["query_yn"](two, "Is it so?")
    assert (counts, len(backbone.prompts)) == ([2, 2, 2], 1)


def test_a_models_exception_keeps_its_type() -> None:
    lib = library()
    fns = lib.functions()
    with pytest.raises(BackboneError):
        fns["query_native"](lib.video, "(refuse)", list(CHOICES))
    assert lib.calls[-1].result == "BackboneError: cannot serve this request"
    assert lib.answers == []
