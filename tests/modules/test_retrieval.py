"""Clips and subtitle lines that retrieval gives a program: their order, limits and times."""

from __future__ import annotations

import pytest

from tests.support.modules_world import FixedIndex, library
from videopro.modules.errors import NotFoundError


def test_clips_come_in_order_of_time_with_what_is_said() -> None:
    index = FixedIndex({"storm": (0.1, 0.3, 0.2, 0.9, 0.0, 0.5)})
    lib = library(index=index)
    intervals, clips = lib.functions()["get_informative_clips"](lib.video, "storm", total_duration=60)
    assert intervals == [(10.0, 20.0), (30.0, 40.0), (50.0, 60.0)]
    assert [(clip.start, clip.end) for clip in clips] == intervals
    assert clips[1].subtitles == "The storm breaks the bridge."
    assert [clip.score for clip in clips] == [0.3, 0.9, 0.5]


def test_the_search_stays_within_the_duration_and_the_clip() -> None:
    index = FixedIndex({"storm": (0.1, 0.3, 0.2, 0.9, 0.0, 0.5)})
    lib = library(index=index)
    fns = lib.functions()
    intervals, clips = fns["get_informative_clips"](lib.video, "storm", top_k=6, total_duration=25)
    assert intervals == [(0.0, 10.0), (10.0, 20.0), (20.0, 25.0)]
    assert fns["get_informative_clips"](clips[1], "storm", top_k=6)[0] == [(10.0, 20.0)]


def test_both_spellings_of_keywords() -> None:
    lib = library(index=FixedIndex({"storm": (0.1, 0.3, 0.2, 0.9, 0.0, 0.5)}))
    fns = lib.functions()
    intervals, _ = fns["get_informative_clips"](video_path=lib.video, query="storm", k=1)
    assert intervals == [(30.0, 40.0)]
    assert [line.text for line in fns["get_informative_subtitles"](lib.video, "lighthouse", k=2)] == [
        "The old lighthouse stands on the cliff.",
        "They repair the lighthouse together.",
    ]


def test_a_line_is_a_segment_of_the_video() -> None:
    lib = library()
    fns = lib.functions()
    (line,) = fns["get_informative_subtitles"](lib.video, "Who will repair it?")
    assert (line.start, line.end, line.text) == (50.0, 52.0, "They repair the lighthouse together.")
    assert [frame.time for frame in fns["extract_frames"](line)] == [50.5, 51.5]


@pytest.mark.parametrize("name", ["get_informative_clips", "get_informative_subtitles"])
def test_an_empty_retrieval_names_the_query(name: str) -> None:
    lib = library(index=FixedIndex({}))
    with pytest.raises(NotFoundError, match="'purple zebra'"):
        lib.functions()[name](lib.video, "purple zebra")
