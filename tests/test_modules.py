"""The module library: what programs get, which frames are looked at, how wrong calls are told."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from modules.arguments import Count, Text
from modules.errors import ArgumentError, ModuleError, NotFoundError, UnavailableError
from modules.handles import FrameHandle
from modules.library import CallMemory, ModuleLibrary, module
from modules.registry import MODULES
from modules.video_context import Call
from tests.modules_world import CHOICES, LINES, FixedIndex, ReadingBackbone, context, library, video
from videopro.errors import BackboneError
from videopro.subtitles import Subtitles
from videopro.video import Video

# The runtime API of the public release, with its keywords and defaults (and the paper's, Listing 1).
RELEASE = {
    "query_native": "video, question, choices",
    "query_mc": "frames, question, choices",
    "query_frames": "frames, question",
    "query_yn": "frames, question",
    "get_informative_clips": "video, query, top_k=3, total_duration=None",
    "get_informative_subtitles": "video, query, top_k=1, total_duration=None",
    "get_subtitle_hints": "video, question, choices, duration=None, word_number=300",
    "extract_frames": "video, num_frames=32",
    "trim_frames": "video, start, end, num_frames=64",
    "trim_around": "video, timestamp, intervals=30, num_frames=64",
    "trim_before": "video, timestamp, intervals=30, num_frames=64",
    "trim_after": "video, timestamp, intervals=30, num_frames=64",
    "detect_object": "frame, text, box_threshold=0.5, text_threshold=0.25",
    "run_ocr": "frame",
    "crop": "frame, box",
    "make_result": "answer='', confidence=0.0, raw_output='', **metadata",
    **dict.fromkeys(
        [
            "crop_left",
            "crop_right",
            "crop_top",
            "crop_bottom",
            "crop_left_top",
            "crop_right_top",
            "crop_left_bottom",
            "crop_right_bottom",
        ],
        "frame",
    ),
}


def picture(time: float) -> int:
    """The number of the picture shown at a time: four a second."""
    return int(time * 4)


def numbers(*times: float) -> list[int]:
    return [picture(time) for time in times]


@pytest.mark.parametrize("name", RELEASE)
def test_every_call_of_the_release_fits(name: str) -> None:
    signature = MODULES[name].signature
    assert signature.startswith(f"{name}({RELEASE[name].split(', **')[0]}")


def test_nothing_else_is_registered_but_our_two() -> None:
    assert set(MODULES) == {*RELEASE, "query_count", "track_object"}


# ---- frames ----------------------------------------------------------------------------------------------


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
    shown: list[Any] = []

    class Keeping(ReadingBackbone):
        def _look(self, visual: Any, text: str) -> list[int]:
            shown.extend(visual)
            return [0]

    lib = library(Keeping())
    fns = lib.functions()
    (frame,) = fns["trim_frames"](lib.video, 10, 10.2, num_frames=1)
    part = fns["crop_right"](fns["crop"](frame, [10, 20, 110, 60]))
    assert (part.width, part.height, part.size) == (50, 40, (50, 40))
    fns["query_yn"](part, "Is it so?")
    (whole,) = video().frames([10.1])
    assert (shown[0].image == whole.image[20:60, 60:110]).all()
    assert shown[0].time == whole.time


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


# ---- retrieval -------------------------------------------------------------------------------------------


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


def test_a_line_is_a_stretch_of_the_video() -> None:
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


# ---- wrong calls -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "args", "keywords", "told"),
    [
        ("trim_frames", ("V", 70, 80), {}, "70-80 s lies outside the video, which goes from 0 to 60 s"),
        ("trim_frames", ("V", 20, 10), {}, "start is 20 and end is 10; start must come first"),
        ("trim_frames", ("V", "1:30", 95), {}, "start must be a time in seconds, as a number, not '1:30'"),
        ("trim_around", ("V", (10.0, 20.0)), {}, "timestamp must be a time in seconds, as a number"),
        ("trim_around", ("V", 90), {}, "75-105 s lies outside the video"),
        ("trim_around", ("V", float("nan")), {}, "timestamp must be a time in seconds"),
        ("trim_around", ("V", 5, 0), {}, "intervals must be a number of seconds above 0"),
        ("trim_before", ("V", 0), {}, "-30-0 s lies outside the video"),
        ("extract_frames", ("V",), {"num_frames": 0}, "must be a whole number of at least 1, not 0"),
        ("extract_frames", ("V",), {"num_frames": 10**9}, "at most 1024 frames"),
        ("extract_frames", ("V",), {"num_frames": True}, "not True (bool)"),
        ("extract_frames", ("V",), {"fps": 2}, "unexpected keyword argument 'fps'; call extract_"),
        ("extract_frames", (), {}, "is missing 'video'; call extract_frames(video, num_frames=32)"),
        ("extract_frames", ("V", 3, 4), {}, "got 3 arguments"),
        ("extract_frames", ("V",), {"video_path": "V"}, "got 'video' twice"),
        ("extract_frames", ("/videos/a.mp4",), {}, "video must be the video that the program was given"),
        ("extract_frames", (["F"],), {}, "video must be the video that the program was given"),
        ("query_mc", ([], "What?", CHOICES), {}, "frames is empty: no frame to look at"),
        ("query_mc", ([[]], "What?", CHOICES), {}, "frames is empty: no frame to look at"),
        ("query_mc", (None, "What?", CHOICES), {}, "frames must be a frame or a list of frames, not None"),
        ("query_mc", (["F", "x"], "What?", CHOICES), {}, "frames must hold frames only, not 'x' (str)"),
        ("query_mc", ("F", "", CHOICES), {}, "question is an empty text"),
        ("query_mc", ("F", "What?", "A. red B. blue"), {}, "choices must be a list of 2 to 10 texts"),
        ("query_mc", ("F", "What?", {"A": "red", "B": "blue"}), {}, "pass list(choices.values())"),
        ("query_mc", ("F", "What?", ["red"]), {}, "choices has 1 options; give 2 to 10"),
        ("query_mc", ("F", "What?", ["red", ""]), {}, "choices must hold texts that are not empty"),
        ("query_mc", ("F", "What?", ["red", None]), {}, "not None (NoneType)"),
        ("query_yn", ("F",), {}, "is missing 'question'"),
        ("query_count", ("F", "people"), {"most": 12}, "most is 12; it must be 1 to 9"),
        ("get_informative_clips", ("V", ""), {}, "query is an empty text"),
        ("get_informative_clips", ("V", ["a", "b"]), {}, "query must be a text, not ['a', 'b'] (list)"),
        ("get_informative_clips", ("V", "a"), {"top_k": 2.5}, "top_k must be a whole number of at least 1"),
        ("crop", ("F", [5, 5, 5, 9]), {}, "holds nothing of the frame, which is 128 wide and 64 high"),
        ("crop", ("F", [200, 0, 300, 10]), {}, "holds nothing of the frame"),
        ("crop", ("F", [1, 2, 3]), {}, "four numbers [x0, y0, x1, y1]"),
        ("crop", (["F"], [1, 2, 3, 4]), {}, "frame must be one frame, not a list of 1"),
        ("crop_left", ("V",), {}, "frame must be a frame"),
        ("make_result", (["B"],), {}, "answer must be a letter, not list"),
        ("make_result", ("B", "high"), {}, "confidence must be a number from 0 to 1, not str"),
    ],
)  # fmt: skip
def test_wrong_calls_say_how_to_mend_them(
    name: str, args: tuple[Any, ...], keywords: dict[str, Any], told: str
) -> None:
    lib = library(index=FixedIndex({}))
    fns = lib.functions()
    (frame,) = fns["extract_frames"](lib.video, 1)

    def real(value: Any) -> Any:
        if isinstance(value, list):
            return [real(one) for one in value]
        return lib.video if value == "V" else frame if value == "F" else value

    with pytest.raises(ArgumentError) as caught:
        fns[name](*map(real, args), **{key: real(value) for key, value in keywords.items()})
    assert told in str(caught.value)
    assert str(caught.value).startswith(f"{name}()")
    assert lib.calls[-1].result == f"ArgumentError: {caught.value}"


def test_a_program_cannot_bring_another_video() -> None:
    from modules.handles import VideoHandle

    other = Video.open(video().path)
    other.id = "another"
    lib = library()
    with pytest.raises(ArgumentError, match="another video"):
        lib.functions()["extract_frames"](VideoHandle(other))


def test_choices_that_carry_their_letters_do_not_get_two() -> None:
    backbone = ReadingBackbone()
    lib = library(backbone)
    fns = lib.functions()
    fns["query_native"](lib.video, "Which?", ["A. red", "B. A. Milne", "C. blue"])
    fns["query_native"](lib.video, "Which?", ["A. red", "blue"])
    assert "A. red\nB. A. Milne\nC. blue\n" in backbone.prompts[0]
    assert "A. A. red\nB. blue\n" in backbone.prompts[1]


def test_a_module_without_its_model_says_so_and_is_not_in_the_reference() -> None:
    lib = library(subtitles=None)
    fns = lib.functions()
    with pytest.raises(UnavailableError, match="this video has no subtitles"):
        fns["get_subtitle_hints"](lib.video, "What?", list(CHOICES))
    with pytest.raises(UnavailableError, match="no object detector"):
        fns["detect_object"](fns["extract_frames"](lib.video, 1)[0], "cat")
    reference = lib.reference()
    for name in ("get_subtitle_hints", "get_informative_subtitles", "get_informative_clips", "detect_object"):
        assert f"{name}(" not in reference.split("## What a program holds")[0].replace("query_mc(frames", "")
    assert "`query_native(video, question, choices)`" in reference
    assert "get_informative_subtitles" in library().reference()


# ---- records and memory ----------------------------------------------------------------------------------


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
    shared, memory = context(backbone), CallMemory[Any]()
    answers = []
    for _ in range(2):
        lib = ModuleLibrary(shared, memory=memory)
        fns = lib.functions()
        answers.append(fns["query_mc"](fns["trim_frames"](lib.video, 8, 12, 2), "Which?", list(CHOICES)))
        answers.append(fns["query_mc"](fns["trim_frames"](lib.video, 8, 12, 2), "Whose?", list(CHOICES)))
        answers.append(fns["query_mc"](fns["trim_frames"](lib.video, 8, 13, 2), "Which?", list(CHOICES)))
        answers.append(fns["query_mc"](frames=fns["trim_frames"](lib.video, 8, 12, 2), question="Which?",
                                       choices=CHOICES, context=""))  # fmt: skip
        assert len(lib.answers) == 4
        # What was remembered was looked at all the same.
        assert lib.frames == 8
        assert [len(call.frames) for call in lib.calls if call.fn == "query_mc"] == [2, 2, 2, 2]
    assert len(backbone.prompts) == 3
    assert [call.cached for call in lib.calls if call.fn == "query_mc"] == [True] * 4
    assert [answer.answer for answer in answers[:4]] == [answer.answer for answer in answers[4:]]


def test_another_model_or_other_subtitles_are_asked_anew() -> None:
    memory = CallMemory[Any]()
    one, two = ReadingBackbone(), ReadingBackbone()
    two.name = "another"
    for backbone in (one, two):
        lib = ModuleLibrary(context(backbone), memory=memory)
        lib.functions()["query_native"](lib.video, "Which?", list(CHOICES))
    assert (len(one.prompts), len(two.prompts)) == (1, 1)
    found = []
    for lines in (LINES, LINES[2:3]):
        lib = ModuleLibrary(context(one, subtitles=Subtitles(lines, "some")), memory=memory)
        found.append(len(lib.functions()["get_informative_subtitles"](lib.video, "the storm", 4)))
    assert found == [3, 1]


def test_what_is_done_to_a_result_is_not_remembered() -> None:
    lib = library(index=FixedIndex({"storm": (0.1, 0.3, 0.2, 0.9, 0.0, 0.5)}))
    search = lib.functions()["get_informative_clips"]
    intervals, clips = search(lib.video, "storm")
    intervals.clear()
    clips.clear()
    assert len(search(lib.video, "storm")[0]) == 3


def test_failures_are_not_remembered_and_two_at_once_compute_once() -> None:
    memory = CallMemory[int]()
    with pytest.raises(ZeroDivisionError):
        memory.get("key", lambda: 1 // 0)
    begun, release, made = threading.Event(), threading.Event(), []

    def slow() -> int:
        begun.set()
        assert release.wait(10)
        made.append(1)
        return 7

    results: list[tuple[int, bool]] = []
    first = threading.Thread(target=lambda: results.append(memory.get("key", slow)))
    first.start()
    assert begun.wait(10)
    second = threading.Thread(target=lambda: results.append(memory.get("key", slow)))
    second.start()
    release.set()
    first.join(10)
    second.join(10)
    assert (sorted(results), made) == ([(7, False), (7, True)], [1])


def test_the_memory_forgets_the_least_recently_used() -> None:
    memory = CallMemory[str](most=2)
    for key in ("a", "b", "a", "c"):
        memory.get(key, lambda: "made")
    assert [memory.get(key, lambda: "anew")[0] for key in ("a", "c", "b")] == ["made", "made", "anew"]


def test_frames_are_told_to_the_budget_before_they_are_decoded() -> None:
    class Breach(BaseException):
        pass

    told: list[int] = []

    def use(count: int) -> None:
        told.append(count)
        if sum(told) > 5:
            raise Breach

    backbone = ReadingBackbone()
    memory = CallMemory[Any]()
    lib = ModuleLibrary(context(backbone), memory=memory, use_frames=use)
    fns = lib.functions()
    two = fns["trim_frames"](lib.video, 0, 4, num_frames=2)
    fns["query_yn"](two, "Is it so?")
    fns["query_yn"](two, "Is it so?")
    with pytest.raises(Breach):
        fns["query_yn"](two, "Is it so?")
    assert (told, len(backbone.prompts)) == ([2, 2, 2], 1)


def test_a_fault_of_a_model_stays_what_it_is() -> None:
    lib = library()
    fns = lib.functions()
    with pytest.raises(BackboneError):
        fns["query_native"](lib.video, "(refuse)", list(CHOICES))
    assert lib.calls[-1].result == "BackboneError: cannot serve this request"
    assert lib.answers == []
    # What a program may mend is of another kind, so that a runner can tell the two apart.
    assert not issubclass(BackboneError, ModuleError)


# ---- registering -----------------------------------------------------------------------------------------


@pytest.fixture
def registered() -> Any:
    before = dict(MODULES)
    yield MODULES
    MODULES.clear()
    MODULES.update(before)


def test_one_registration_adds_a_module(registered: dict[str, Any]) -> None:
    @module(family="localization")
    def first_frames(call: Call, word: Text, count: Count = 2) -> list[FrameHandle]:
        """Give the first frames.

        Returns frames.
        """
        return [call.on.frame(float(i)) for i in range(count)]

    lib = library()
    assert [frame.time for frame in lib.functions()["first_frames"]("a", count=3)] == [0.0, 1.0, 2.0]
    with pytest.raises(ArgumentError, match="word is an empty text"):
        lib.functions()["first_frames"](" ")
    assert "`first_frames(word, count=2)`" in lib.reference()
    assert lib.calls[0].fn == "first_frames"


def test_a_registration_that_cannot_be_is_refused(registered: dict[str, Any]) -> None:
    def described(call: Call, word: Text) -> str:
        """Describe."""
        return word

    def silent(call: Call, word: Text) -> str:
        return word

    def loose(call: Call, word: str) -> str:
        """Do."""
        return word

    for function, options, told in (
        (described, {"family": "magic"}, "family 'magic'"),
        (described, {"family": "context", "needs": ("money",)}, "need 'money'"),
        (silent, {"family": "context"}, "needs a docstring"),
        (loose, {"family": "context"}, "'word' needs a kind"),
    ):
        with pytest.raises((ValueError, TypeError), match=told):
            module(**options)(function)  # type: ignore[arg-type]
    module(family="context")(described)
    with pytest.raises(ValueError, match="registered already"):
        module(family="context")(described)
