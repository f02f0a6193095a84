"""Which frames modules give, and which of them the model looks at: windows, thinning, crops."""

from __future__ import annotations

import pytest

from tests.support.modules_world import CHOICES, FixedIndex, ReadingBackbone, library, video


def picture(time: float) -> int:
    """The number of the picture shown at a time: four a second."""
    return int(time * 4)


def numbers(*times: float) -> list[int]:
    return [picture(time) for time in times]


def test_extracted_frames_are_at_most_one_a_second() -> None:
    lib = library()
    fns = lib.functions()
    frames = fns["extract_frames"](lib.video, num_frames=64)
    assert [frame.time for frame in frames] == [i + 0.5 for i in range(60)]
    assert [frame.time for frame in fns["extract_frames"](lib.video, num_frames=4)] == [7.5, 22.5, 37.5, 52.5]


def test_frames_of_a_clip_are_its_own() -> None:
    lib = library(index=FixedIndex({"bridge": (0, 1, 5, 0, 0, 0)}))
    fns = lib.functions()
    _, (clip,) = fns["get_informative_clips"](lib.video, "bridge", top_k=1)
    assert (clip.start, clip.end) == (20.0, 30.0)
    assert [frame.time for frame in fns["extract_frames"](clip)] == [20.5 + i for i in range(10)]


@pytest.mark.parametrize(
    ("name", "args", "start", "end"),
    [
        ("trim_frames", (10, 20), 10, 20),
        ("trim_frames", (-5, 5), 0, 5),
        ("trim_frames", (55, 75), 55, 60),
        ("trim_around", (30,), 15, 45),
        ("trim_around", (58, 8), 54, 60),
        ("trim_before", (40, 10), 30, 40),
        ("trim_before", (5,), 0, 5),
        ("trim_after", (40, 10), 40, 50),
    ],
)
def test_windows(name: str, args: tuple[float, ...], start: float, end: float) -> None:
    lib = library()
    frames = lib.functions()[name](lib.video, *args, num_frames=4)
    step = (end - start) / 4
    assert [frame.time for frame in frames] == [start + (i + 0.5) * step for i in range(4)]


def test_frames_carry_the_subtitles_on_at_their_time() -> None:
    lib = library()
    frames = lib.functions()["trim_frames"](lib.video, 0, 20, num_frames=20)
    said = {frame.time: frame.subtitles for frame in frames if frame.subtitles}
    assert said == {
        2.5: "The old lighthouse stands on the cliff.",
        3.5: "The old lighthouse stands on the cliff.",
        12.5: "Anna buys a lantern.",
        13.5: "Anna buys a lantern.",
    }


def test_the_model_sees_the_frames_that_were_named_in_order_of_time() -> None:
    backbone = ReadingBackbone(frames=8)
    lib = library(backbone)
    fns = lib.functions()
    late = fns["trim_frames"](lib.video, 40, 44, num_frames=2)
    early = fns["trim_frames"](lib.video, 8, 12, num_frames=2)
    fns["query_mc"](late + early + late, "Which?", list(CHOICES))
    assert backbone.seen == [numbers(9, 11, 41, 43)]
    assert lib.calls[-1].frames == tuple((time, 64.0, 128.0) for time in (9.0, 11.0, 41.0, 43.0))


def test_more_frames_than_the_model_takes_are_thinned_evenly() -> None:
    backbone = ReadingBackbone(frames=4)
    lib = library(backbone)
    fns = lib.functions()
    fns["query_mc"](fns["trim_frames"](lib.video, 0, 60, num_frames=60), "Which?", list(CHOICES))
    assert backbone.seen == [numbers(7.5, 22.5, 37.5, 52.5)]


def test_one_picture_is_looked_at_once() -> None:
    backbone = ReadingBackbone()
    lib = library(backbone)
    fns = lib.functions()
    fns["query_mc"](fns["trim_frames"](lib.video, 10, 10.5, num_frames=8), "Which?", list(CHOICES))
    assert backbone.seen == [[40, 41]]


def test_native_looks_over_the_whole_video() -> None:
    backbone = ReadingBackbone(frames=4)
    lib = library(backbone)
    lib.functions()["query_native"](lib.video, "Which?", list(CHOICES))
    assert backbone.seen == [numbers(7.5, 22.5, 37.5, 52.5)]


def test_clips_frames_and_nested_lists_may_be_asked_about() -> None:
    backbone = ReadingBackbone(frames=8)
    lib = library(backbone, index=FixedIndex({"x": (1, 0, 0, 0, 0, 0)}))
    fns = lib.functions()
    frame, other = fns["trim_frames"](lib.video, 0, 4, num_frames=2)
    _, (clip,) = fns["get_informative_clips"](lib.video, "x", 1)
    for frames in (frame, [[frame], [other]], clip):
        fns["query_yn"](frames, "Is it so?")
    assert backbone.seen == [numbers(1), numbers(1, 3), [picture((i + 0.5) * 10 / 8) for i in range(8)]]


def test_crops_of_crops_cut_the_very_pixels() -> None:
    backbone = ReadingBackbone()
    lib = library(backbone)
    fns = lib.functions()
    (frame,) = fns["trim_frames"](lib.video, 10, 10.2, num_frames=1)
    part = fns["crop_right"](fns["crop"](frame, [10, 20, 110, 60]))
    assert (part.width, part.height, part.size) == (50, 40, (50, 40))
    fns["query_yn"](part, "Is it so?")
    (whole,) = video().frames([10.1])
    ((shown,),) = backbone.shown
    assert (shown.image == whole.image[20:60, 60:110]).all()
    assert shown.time == whole.time


@pytest.mark.parametrize(
    ("name", "box"),
    [
        ("crop_left", (0, 0, 64, 64)),
        ("crop_right", (64, 0, 128, 64)),
        ("crop_top", (0, 0, 128, 32)),
        ("crop_bottom", (0, 32, 128, 64)),
        ("crop_left_top", (0, 0, 64, 32)),
        ("crop_right_top", (64, 0, 128, 32)),
        ("crop_left_bottom", (0, 32, 64, 64)),
        ("crop_right_bottom", (64, 32, 128, 64)),
    ],
)
def test_named_parts(name: str, box: tuple[int, int, int, int]) -> None:
    lib = library()
    (frame,) = lib.functions()["extract_frames"](lib.video, 1)
    assert lib.functions()[name](frame).box == box


def test_a_box_may_be_in_shares_and_reach_over_an_edge() -> None:
    lib = library()
    (frame,) = lib.functions()["extract_frames"](lib.video, 1)
    crop = lib.functions()["crop"]
    assert crop(frame, (0.25, 0, 0.75, 0.5)).box == (32, 0, 96, 32)
    assert crop(frame, (-20, 10, 500, 30)).box == (0, 10, 128, 30)
