"""Calls of modules: errors for wrong ones, what a returned value says to an open question, and equal calls.
The library: the calls of the public release fit, and docs/reference/modules.md is what the code makes now."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support import ROOT
from tests.support.numbered import CHOICES, LINES, FixedIndex, ReadingBackbone, context, library
from videopro.errors import ConfigError
from videopro.modules import ModuleLibrary, api_reference, available_modules
from videopro.modules.__main__ import main as print_docs
from videopro.modules.calls import (
    MODULES,
    AnswerHandle,
    CallContext,
    Text,
    module,
    modules_for,
    read_open_answer,
)
from videopro.modules.errors import ArgumentError
from videopro.modules.library import CallCache
from videopro.modules.reference import named_modules, reference_text
from videopro.question import Answer, Question
from videopro.video import Subtitles


def test_the_error_of_a_wrong_call_is_its_result() -> None:
    """What it says of every kind of mistake, tests/golden/errors has."""
    lib = library()
    with pytest.raises(ArgumentError) as caught:
        lib.functions()["crop_left"](lib.video)
    assert lib.calls[-1].result == f"ArgumentError: {caught.value}"


def test_choices_that_carry_their_letters_do_not_get_two() -> None:
    backbone = ReadingBackbone()
    lib = library(backbone)
    fns = lib.functions()
    fns["query_native"](lib.video, "Which?", ["A. red", "B. A. Milne", "C. blue"])
    fns["query_native"](lib.video, "Which?", ["A. red", "blue"])
    assert "A. red\nB. A. Milne\nC. blue\n" in backbone.prompts[0]
    assert "A. A. red\nB. blue\n" in backbone.prompts[1]


# ---- an open question --------------------------------------------------------------------------------------


OPEN = Question.open("What is it?")


def words(text: str, confidence: float = 0.7, mode: str = "frames", **more: Any) -> AnswerHandle:
    return AnswerHandle(Answer(None, confidence, {}, text), mode, **more)


RED, BOAT = words("a red lantern"), words("A boat.", 0.4)
CHOSEN = AnswerHandle(Answer("B", 0.9, {"A": 0.05, "B": 0.9}, "B"), "mc", ("a cup", "a book"))
COUNTED = AnswerHandle(Answer("3", 0.6, {"3": 0.6}, "D"), "count")
YES = AnswerHandle(Answer("Yes", 0.8, {"Yes": 0.8, "No": 0.1}, "Yes"), "yes_no", ("Yes", "No"))


@pytest.mark.parametrize(
    ("value", "text", "confidence", "claim"),
    [
        (RED, "a red lantern", 0.7, None),
        ((RED, 0.99), "a red lantern", 0.7, 0.99),
        ("a red lantern", "a red lantern", 0.7, None),
        ("A red lantern.", "a red lantern", 0.7, None),  # the call's own words count
        (("a green kite", 0.99), "a green kite", 0.0, 0.99),  # from no call
        (CHOSEN, "a book", 0.9, None),
        ("B", "a book", 0.9, None),
        (COUNTED, "3", 0.6, None),
        (3, "3", 0.6, None),
        (4, "4", 0.0, None),
        (YES, "Yes", 0.8, None),
        (True, "Yes", 0.8, None),
        (["a cup", "", "a kite"], "a cup, a kite", 0.0, None),
        (None, "", 0.0, None),
        ("  ", "", 0.0, None),
        (AnswerHandle(Answer("a cup", 0.99, raw="a cup"), "result"), "a cup", 0.0, 0.99),
        (AnswerHandle(Answer("x", 0.99, raw="x"), "result", source=RED), "a red lantern", 0.7, 0.99),
    ],
)
def test_a_returned_value(value: Any, text: str, confidence: float, claim: float | None) -> None:
    answer, claimed = read_open_answer(value, [RED, BOAT, CHOSEN, COUNTED, YES])
    assert (answer.raw, answer.letter, answer.letters) == (text, None, {})
    assert answer.confidence == pytest.approx(confidence)
    assert claimed == claim


def test_the_last_call_with_these_words_counts_and_long_ones_are_cut() -> None:
    answer, _ = read_open_answer("a kite", [words("a kite", 0.2), words("A kite", 0.6)])
    assert answer.confidence == 0.6
    answer, _ = read_open_answer("x" * 1_000_000)
    assert len(answer.raw) == 4000


def test_query_mc_chooses_among_a_programs_own_options_or_answers_in_words() -> None:
    backbone = ReadingBackbone(writes=lambda request: "a kite")
    library = ModuleLibrary(context(backbone), question=OPEN)
    query = library.functions()["query_mc"]
    frames = library.functions()["extract_frames"](library.video, num_frames=2)
    assert query(frames, "What is it?").answer == "a kite"
    assert query(frames, "What is it?", [], context="A line.").answer == "a kite"
    assert query(frames, "What is it?", ["red", "green"]).choices == ("red", "green")
    with pytest.raises(ArgumentError, match="has 1 options; give 2 to 10"):
        query(frames, "What is it?", ["red"])


def test_modules_need_no_options_for_an_open_question_alone() -> None:
    made = context(ReadingBackbone())
    opened, closed = ModuleLibrary(made, question=OPEN), ModuleLibrary(made)
    hints = opened.functions()["get_subtitle_hints"]
    assert "Anna buys a lantern." in hints(opened.video, "What does Anna buy?")
    with pytest.raises(ArgumentError, match="missing 'choices'"):
        closed.functions()["query_native"](closed.video, "What is it?")
    text = api_reference(available_modules(made, is_open=True))
    assert "- `query_native(video, question)`: " in text
    assert "query_mc(frames, question, choices=(), context='')" in text
    assert "`query_native(video, question, choices)`" in api_reference(available_modules(made))
    assert list(modules_for(is_open=True)) == list(modules_for(is_open=False))


# ---- equal calls -------------------------------------------------------------------------------------------


def test_equal_calls_of_several_programs_are_made_once() -> None:
    backbone = ReadingBackbone()
    shared, memory = context(backbone), CallCache[Any]()
    answers = []
    for _ in range(2):
        used: list[int] = []
        lib = ModuleLibrary(shared, cache=memory, use_frames=used.append)
        trim, ask = lib.functions()["trim_frames"], lib.functions()["query_mc"]
        answers += [
            ask(trim(lib.video, 8, 12, 2), "Which?", list(CHOICES)),
            ask(trim(lib.video, 8, 12, 2), "Whose?", list(CHOICES)),
            ask(trim(lib.video, 8, 13, 2), "Which?", list(CHOICES)),
            ask(frames=trim(lib.video, 8, 12, 2), question="Which?", choices=CHOICES, context=""),
        ]
        assert len(lib.answers) == 4
        # Frames of a cached answer still count as looked at, and against the budget.
        assert (lib.frames, used) == (8, [2, 2, 2, 2])
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


# ---- the library and its reference ------------------------------------------------------------------------


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
    "make_result": "answer='', confidence=0.0, raw_output=''",
    "finalize_result": "answer='', confidence=0.0, raw_output=''",
    "normalize_model_result": "result, choices=None, metadata=None",
    **{f"crop_{part}": "frame" for part in ("left", "right", "top", "bottom")},
    **{f"crop_{part}": "frame" for part in ("left_top", "right_top", "left_bottom", "right_bottom")},
}


def test_every_call_of_the_release_fits_and_only_two_modules_are_beyond_it() -> None:
    for name, signature in RELEASE.items():
        assert MODULES[name].signature.startswith(f"{name}({signature}")
    assert set(MODULES) == {*RELEASE, "query_count", "track_object"}
    # Planners read of one way to state an answer.
    reference = library().reference()
    assert "make_result" in reference
    assert not {"finalize_result", "normalize_model_result"} & set(re.findall(r"\w+", reference))


def test_an_invalid_registration_is_refused() -> None:
    def described(call: CallContext, word: Text) -> str:
        """Describe."""
        return word

    def silent(call: CallContext, word: Text) -> str:
        return word

    def loose(call: CallContext, word: str) -> str:
        """Do."""
        return word

    def taken(call: CallContext, word: Text) -> str:
        """Do."""
        return word

    taken.__name__ = "extract_frames"
    for function, options, named in (
        (described, {"family": "magic"}, "'magic'"),
        (described, {"family": "context", "needs": ("money",)}, "'money'"),
        (silent, {"family": "context"}, "'silent'"),
        (loose, {"family": "context"}, "'word'"),
        (taken, {"family": "context"}, r"'extract_frames' .* videopro\.modules\.\w+$"),
    ):
        with pytest.raises((ValueError, TypeError), match=named):
            module(**options)(function)  # type: ignore[arg-type]


# ---- the reference -----------------------------------------------------------------------------------------


def test_the_docs_are_current(capsys: pytest.CaptureFixture[str]) -> None:
    print_docs()
    made = capsys.readouterr().out
    assert (ROOT / "docs" / "reference" / "modules.md").read_text() == made, (
        "run: python -m videopro.modules > docs/reference/modules.md"
    )


def test_the_compact_reference_has_a_line_for_each_module_that_is_there() -> None:
    modules = [MODULES[name] for name in ("run_ocr", "get_informative_clips", "finalize_result")]
    assert reference_text("signatures", modules).splitlines() == [
        "- `get_informative_clips(video, query, top_k=3, total_duration=None)`",
        "- `run_ocr(frame)`",
    ]
    assert reference_text("compact", modules).splitlines() == [
        "- `get_informative_clips(video, query, top_k=3, total_duration=None)`: Find the clips (10 seconds "
        "each) that show what `query` describes -> (intervals, clips)",
        "- `run_ocr(frame)`: Read the text that is written in one frame -> the text, one piece a line from "
        'top to bottom, or "" if there is none',
    ]
    assert reference_text("none", modules) == ""
    assert reference_text("full", modules) == api_reference(modules)


def test_times_that_count_from_a_clip_are_told_in_every_form() -> None:
    said = "Times in the trims of a clip are seconds from the start of that clip."
    for form in ("signatures", "compact", "full"):
        assert said in reference_text(form, [MODULES["trim_frames"]], "clip")  # type: ignore[arg-type]
        assert said not in reference_text(form, [MODULES["trim_frames"]])  # type: ignore[arg-type]
        assert said not in reference_text(form, [MODULES["run_ocr"]], "clip")  # type: ignore[arg-type]


def test_a_module_that_is_gone_is_named() -> None:
    assert named_modules(["run_ocr"]) == [MODULES["run_ocr"]]
    with pytest.raises(ConfigError, match="'read_signs'"):
        named_modules(["run_ocr", "read_signs"])
