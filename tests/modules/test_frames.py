"""Frames, clips and subtitle lines that modules give, what of them the model looks at, and hints of what is
said."""

from typing import Any

import numpy as np
import pytest

from tests.support.numbered import CHOICES, LINES, FixedIndex, ReadingBackbone, library, subtitles, video
from videopro.modules import ModuleLibrary
from videopro.modules.calls import MODULES
from videopro.modules.errors import NotFoundError
from videopro.modules.search import SubtitleSearch, search_tokens
from videopro.video import SubtitleLine, Subtitles

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


# ---- what is said -----------------------------------------------------------------------------------------

WHOLE = "\n".join(line.text for line in LINES)
ASKED = ("What breaks the bridge?", ["the storm", "a ship", "a fire"])


def hints(word_number: int = 300, asked: Any = ASKED, **models: Any) -> tuple[str, ReadingBackbone]:
    backbone = ReadingBackbone(writes=lambda request: "  In short.\n")
    lib = library(backbone, **models)
    return lib.functions()["get_subtitle_hints"](lib.video, *asked, word_number=word_number), backbone


def test_a_transcript_that_fits_is_given_as_it_is_and_a_longer_one_summarized() -> None:
    # The four lines have 7 + 4 + 5 + 5 words.
    text, backbone = hints(21)
    assert (text, backbone.prompts) == (WHOLE, [])
    text, backbone = hints(20)
    assert text == "In short."
    (prompt,) = backbone.prompts
    for part in (WHOLE, "What breaks the bridge?\nA. the storm\nB. a ship\nC. a fire", "20 words"):
        assert part in prompt
    assert backbone.seen == [[]]


def test_a_transcript_beyond_the_context_is_filtered_by_retrieval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("videopro.modules.context.TRANSCRIPT_WORDS", 11)
    _, backbone = hints(8)
    (prompt,) = backbone.prompts
    # The best line has 5 words, the next 4 (it has "a", which no other has); no other fits in the 2 left.
    assert "Anna buys a lantern.\nThe storm breaks the bridge.\n\n" in prompt
    assert "lighthouse" not in prompt


def test_the_lines_themselves_where_the_backbone_cannot_summarize() -> None:
    text, backbone = hints(12, can_summarize=False)
    assert backbone.prompts == []
    # Both lines that share words with the question, in order of time; no more fits in 12 words.
    assert text.splitlines()[-1] == "The storm breaks the bridge."
    assert len(search_tokens(text)) <= 12
    text, _ = hints(2, can_summarize=False)
    assert text == "The storm breaks the bridge."


def test_hints_of_the_beginning_and_of_silence() -> None:
    lib = library()
    hint = lib.functions()["get_subtitle_hints"]
    assert hint(lib.video, *ASKED, duration=20).splitlines() == [line.text for line in LINES[:2]]
    with pytest.raises(NotFoundError, match=r"0\.0-1\.5 s about 'What breaks"):
        hint(lib.video, *ASKED, 1.5)
    with pytest.raises(NotFoundError, match="'Xyz"):
        hints(3, ("Xyz?", ["qq", "rr"]), can_summarize=False)


# ---- search ----------------------------------------------------------------------------------------------


def test_lines_are_ranked_by_bm25() -> None:
    """Lucene's (Kamphuis et al. 2020, "Which BM25 do you mean?", Table 1), with k1 1.5 and b 0.75."""
    # Over words, the sum of log(1 + (n - having + 0.5) / (having + 0.5)) * count
    # / (count + k1 * (1 - b + b * length / mean)).
    scores = {0: 0.843958, 3: 0.429124, 2: 0.206982}
    ranked = SubtitleSearch(subtitles()).rank("the old lighthouse")
    assert [number for number, _ in ranked] == list(scores)
    assert dict(ranked) == pytest.approx(scores, rel=1e-5)


def lines_of(*texts: str) -> Subtitles:
    """Lines of a second each."""
    return Subtitles(tuple(SubtitleLine(i, i + 1, text) for i, text in enumerate(texts)), "test")


@pytest.mark.parametrize(
    ("query", "found"), [("CAT?", [0]), ("zebra", []), ("猫", [2]), ("...", []), ("I", [3]), ("niño", [4])]
)
def test_words_of_any_script(query: str, found: list[int]) -> None:
    texts = ("The cat sat.", "...", "猫が好き", "It is I!", "El Niño")
    assert [number for number, _ in SubtitleSearch(lines_of(*texts)).rank(query)] == found
    assert SubtitleSearch(lines_of("...")).rank(query) == SubtitleSearch(lines_of()).rank(query) == []


def test_lines_by_meaning() -> None:
    class Colours:
        """Knows red-like from sea-like, whatever the words."""

        calls: list[list[str]] = []

        def identity(self) -> object:
            return "colours"

        def encode_texts(self, texts: list[str]) -> np.ndarray:
            self.calls.append(texts)
            return np.array([[0.0, 1.0] if "sea" in text else [1.0, 0.0] for text in texts])

        def encode_queries(self, texts: list[str]) -> np.ndarray:
            return np.array([[0.6, 0.8] if "water" in text else [0.8, 0.6] for text in texts])

    encoder = Colours()
    search = SubtitleSearch(lines_of("a ruby", "the sea", "a rose"), encoder)  # type: ignore[arg-type]
    assert search.rank("something red") == [(0, 0.8), (2, 0.8), (1, 0.6)]
    assert search.rank("water") == [(1, 0.8), (0, 0.6), (2, 0.6)]
    assert encoder.calls == [["a ruby", "the sea", "a rose"]]
    assert search.identity() == "colours"
