"""Frames, clips and subtitle lines that modules give, and what of them the model looks at."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.numbered import CHOICES, FixedIndex, ReadingBackbone, library, video
from videopro.modules import ModuleLibrary
from videopro.modules.calls import MODULES
from videopro.modules.errors import NotFoundError

STORM = {"storm": (0.1, 0.3, 0.2, 0.9, 0.0, 0.5), "bridge": (0, 1, 5, 0, 0, 0)}


def numbers(*times: float) -> list[int]:
    """The pictures shown at these times: four a second."""
    return [int(time * 4) for time in times]


@pytest.fixture
def backbone() -> ReadingBackbone:
    return ReadingBackbone(frames=8)


@pytest.fixture
def lib(backbone: ReadingBackbone) -> ModuleLibrary:
    return library(backbone, index=FixedIndex(STORM))


@pytest.fixture
def fns(lib: ModuleLibrary) -> dict[str, Any]:
    return dict(lib.functions())


# ---- frames ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "args", "start", "end"),
    [
        ("extract_frames", (), 0, 60),
        ("trim_frames", (10, 20), 10, 20),
        ("trim_frames", (-5, 5), 0, 5),
        ("trim_around", (30,), 15, 45),
        ("trim_around", (58, 8), 54, 60),
        ("trim_before", (40, 10), 30, 40),
        ("trim_after", (40, 10), 40, 50),
    ],
)
def test_windows(
    name: str, args: tuple[float, ...], start: float, end: float, lib: ModuleLibrary, fns: dict[str, Any]
) -> None:
    frames = fns[name](lib.video, *args, num_frames=4)
    step = (end - start) / 4
    assert [frame.time for frame in frames] == [start + (i + 0.5) * step for i in range(4)]


def test_extracted_frames_are_at_most_one_a_second_and_carry_what_is_said(
    lib: ModuleLibrary, fns: dict[str, Any]
) -> None:
    frames = fns["extract_frames"](lib.video, num_frames=1024)  # the most that a call may ask for
    assert [frame.time for frame in frames] == [i + 0.5 for i in range(60)]
    assert {frame.time: frame.subtitles for frame in frames[:20] if frame.subtitles} == {
        **dict.fromkeys((2.5, 3.5), "The old lighthouse stands on the cliff."),
        **dict.fromkeys((12.5, 13.5), "Anna buys a lantern."),
    }


def test_the_model_sees_the_frames_that_were_named_in_order_of_time(
    lib: ModuleLibrary, fns: dict[str, Any], backbone: ReadingBackbone
) -> None:
    late = fns["trim_frames"](lib.video, 40, 44, num_frames=2)
    early = fns["trim_frames"](lib.video, 8, 12, num_frames=2)
    fns["query_mc"](late + early + late, "Which?", list(CHOICES))
    assert lib.calls[-1].frames == tuple((time, 64.0, 128.0) for time in (9.0, 11.0, 41.0, 43.0))
    # A frame, nested lists of them, or a clip.
    _, (clip,) = fns["get_informative_clips"](lib.video, "bridge", 1)
    for frames in (early[0], [[late[1]], [early[0]]], clip):
        fns["query_yn"](frames, "Is it so?")
    of_clip = numbers(*(20 + (i + 0.5) * 10 / 8 for i in range(8)))
    assert backbone.seen == [numbers(9, 11, 41, 43), numbers(9), numbers(9, 43), of_clip]


def test_more_frames_than_the_model_takes_are_thinned_evenly_and_a_picture_is_shown_once() -> None:
    backbone = ReadingBackbone(frames=4)
    lib = library(backbone)
    fns = lib.functions()
    for start, end, count in ((0, 60, 60), (10, 10.5, 8)):
        fns["query_yn"](fns["trim_frames"](lib.video, start, end, num_frames=count), "Is it so?")
    fns["query_native"](lib.video, "Which?", list(CHOICES))
    whole = numbers(7.5, 22.5, 37.5, 52.5)
    assert backbone.seen == [whole, [40, 41], whole]


def test_crops_of_crops_cut_the_very_pixels(
    lib: ModuleLibrary, fns: dict[str, Any], backbone: ReadingBackbone
) -> None:
    (frame,) = fns["trim_frames"](lib.video, 10, 10.2, num_frames=1)
    part = fns["crop_right"](fns["crop"](frame, [10, 20, 110, 60]))
    assert (part.width, part.height, part.size) == (50, 40, (50, 40))
    fns["query_yn"](part, "Is it so?")
    (whole,) = video().frames([10.1])
    ((shown,),) = backbone.shown
    assert (shown.image == whole.image[20:60, 60:110]).all()
    assert shown.time == whole.time


def test_named_parts_and_boxes_in_shares_or_over_an_edge(lib: ModuleLibrary, fns: dict[str, Any]) -> None:
    (frame,) = fns["extract_frames"](lib.video, 1)
    parts = {name: fns[name](frame).box for name in MODULES if name.startswith("crop_")}
    assert len(parts) == 8
    for name, box in parts.items():
        left, right = ("right" in name) * 64, 128 - ("left" in name) * 64
        assert box == (left, ("bottom" in name) * 32, right, 64 - ("top" in name) * 32), name
    assert fns["crop"](frame, (0.25, 0, 1, 0.5)).box == (32, 0, 128, 32)
    assert fns["crop"](frame, (-20, 10, 500, 30)).box == (0, 10, 128, 30)


# ---- retrieval -------------------------------------------------------------------------------------------


def test_clips_come_in_order_of_time_with_what_is_said_within_the_duration_and_the_clip(
    lib: ModuleLibrary, fns: dict[str, Any]
) -> None:
    find = fns["get_informative_clips"]
    intervals, clips = find(lib.video, "storm", total_duration=60)
    assert intervals == [(10.0, 20.0), (30.0, 40.0), (50.0, 60.0)]
    assert [(clip.start, clip.end) for clip in clips] == intervals
    assert clips[1].subtitles == "The storm breaks the bridge."
    assert [clip.score for clip in clips] == [0.3, 0.9, 0.5]
    intervals, clips = find(lib.video, "storm", top_k=6, total_duration=25)
    assert intervals == [(0.0, 10.0), (10.0, 20.0), (20.0, 25.0)]
    assert find(clips[1], "storm", top_k=6)[0] == [(10.0, 20.0)]
    assert [frame.time for frame in fns["extract_frames"](clips[1])] == [10.5 + i for i in range(10)]
    # Another spelling of the keywords.
    assert find(video_path=lib.video, query="storm", k=1)[0] == [(30.0, 40.0)]


def test_a_line_is_a_segment_of_the_video(lib: ModuleLibrary, fns: dict[str, Any]) -> None:
    (line,) = fns["get_informative_subtitles"](lib.video, "Who will repair it?")
    assert (line.start, line.end, line.text) == (50.0, 52.0, "They repair the lighthouse together.")
    assert [frame.time for frame in fns["extract_frames"](line)] == [50.5, 51.5]
    assert len(fns["get_informative_subtitles"](lib.video, "lighthouse", k=2)) == 2


@pytest.mark.parametrize("name", ["get_informative_clips", "get_informative_subtitles"])
def test_an_empty_retrieval_names_the_query(name: str) -> None:
    lib = library(index=FixedIndex({}))
    with pytest.raises(NotFoundError, match="'purple zebra'"):
        lib.functions()[name](lib.video, "purple zebra")
