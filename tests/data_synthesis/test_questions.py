"""What is asked, in which order and with options in which places; CG-Bench's annotation files."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.support.synthesis_sources import cg, write_cg
from videopro.benchmarks import Benchmark, Item, Protocol, load
from videopro.benchmarks.base import ROBUST
from videopro.data_synthesis.questions import balance_letters, load_source, select_questions
from videopro.errors import BenchmarkError, ConfigError
from videopro.question import Question

WORDS = ("red", "green", "blue", "grey", "black", "white", "pink", "gold")


def item(number: int, options: int = 4, right: int = 0, **changes: Any) -> Item:
    question = Question(f"Question {number}?", WORDS[:options])
    made = Item(f"q{number}", Path(f"v{number // 3}.mp4"), f"v{number // 3}", question, "ABCDEFGH"[right])
    return replace(made, **changes)


def benchmark(*items: Item) -> Benchmark:
    return Benchmark("jsonl", "", items, Protocol(parser=ROBUST))


# ---- the positions of the right options -------------------------------------------------------------------


def test_right_letters_are_balanced_whatever_their_distribution() -> None:
    """All right options come first in the source, as in careless datasets."""
    asked = balance_letters([item(i) for i in range(400)], seed=1)
    assert Counter(item.answer for item in asked) == {"A": 100, "B": 100, "C": 100, "D": 100}
    # Also over any segment, to within one block at each end.
    counts = Counter(item.answer for item in asked[50:150])
    assert max(counts.values()) - min(counts.values()) <= 2


def test_questions_with_other_numbers_of_options_are_balanced_apart() -> None:
    asked = balance_letters([item(i, options=4 + i % 3) for i in range(360)], seed=0)
    for options in (4, 5, 6):
        letters = Counter(item.answer for item in asked if len(item.question.choices) == options)
        assert set(letters.values()) == {120 // options}


def test_shuffling_moves_options_and_keeps_which_is_right() -> None:
    before = [item(i, right=i % 4) for i in range(100)]
    after = balance_letters(before, seed=3)
    for old, new in zip(before, after, strict=True):
        assert old.answer is not None
        assert new.answer is not None
        assert sorted(new.question.choices) == sorted(old.question.choices)
        assert new.question.choice(new.answer) == old.question.choice(old.answer)
        assert (new.id, new.question.text) == (old.id, old.question.text)
    # The wrong options move too: over 100 questions they take many different orders.
    assert len({item.question.choices for item in after}) > 20


def test_the_letter_is_independent_of_the_order_in_the_source() -> None:
    """No cycle: what comes after a letter is not always the same one."""
    balanced = balance_letters([item(i) for i in range(400)], seed=1)
    letters = [item.answer for item in balanced]
    followers = Counter(pairwise(letters))
    assert len(followers) > 12


def test_the_seed_fixes_everything_and_changes_everything() -> None:
    items = [item(i) for i in range(40)]
    assert balance_letters(items, 1) == balance_letters(items, 1)
    assert balance_letters(items, 1) != balance_letters(items, 2)


@pytest.mark.parametrize(
    "option",
    [
        "None of the above",
        "all of the above",
        "Both A and B",
        "A and C",
        "(B) or (D)",
        "Neither A nor B",
        "option C",
    ],
)
def test_options_that_refer_to_their_positions_stay(option: str) -> None:
    original = replace(item(0, right=2), question=Question("Which?", ("red", "green", "blue", option)))
    assert balance_letters([original], 0) == [original]


@pytest.mark.parametrize("option", ["A man and a dog", "floating above them", "above", "a band and a choir"])
def test_options_that_only_seem_to_refer_to_positions_move(option: str) -> None:
    made = [
        replace(item(i), question=Question("Which?", ("red", "green", "blue", option))) for i in range(12)
    ]
    assert Counter(item.answer for item in balance_letters(made, 0)) == {"A": 3, "B": 3, "C": 3, "D": 3}


# ---- which questions ---------------------------------------------------------------------------------------


def test_a_larger_limit_only_adds() -> None:
    asked = select_questions(benchmark(*(item(i) for i in range(30))), seed=4)
    few, more = asked.select(limit=7), asked.select(limit=20)
    assert more[:7] == few
    assert asked.select()[:20] == more
    assert [item for item in asked.select() if item.id == "q3"] == asked.select(ids=("q3",))
    with pytest.raises(ConfigError, match="limit is 0"):
        asked.select(limit=0)
    with pytest.raises(ConfigError, match="no question 'q99'"):
        asked.select(ids=("q99",))


def test_held_out_families_and_unlabelled_questions_are_not_asked() -> None:
    items = [item(i, groups={"family": ("count", "sign", "gist")[i % 3]}) for i in range(9)]
    items.append(item(20, answer=None))
    asked = select_questions(benchmark(*items), seed=0, without_family=("sign",))
    assert {item.groups["family"] for item in asked.select()} == {"count", "gist"}
    assert asked.filters.removed() == {"family sign held out": 3, "no known answer": 1}
    with pytest.raises(ConfigError, match="did you mean 'count'"):
        select_questions(benchmark(*items), seed=0, without_family=("counts",))
    with pytest.raises(ConfigError, match="no question is left"):
        select_questions(benchmark(item(20, answer=None)), seed=0)


def test_pocket_is_asked_from_its_train_split(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("VIDEOPRO_CACHE", str(tmp_path))
    assert load_source("pocket", split=None, root=None, world_seed=None).split == "train"
    own = load_source("pocket", split=None, root=None, world_seed=3)
    assert (own.split, len(own.items)) == ("fresh", 726)


# ---- CG-Bench ----------------------------------------------------------------------------------------------


def test_cg_bench_is_read(tmp_path: Path) -> None:
    folder = write_cg(tmp_path, cg(), cg(qid=8, video_uid="other"))
    (folder / "cg_subtitles").mkdir()
    (folder / "cg_subtitles" / "other.srt").write_text("")
    read = load("cg_bench", root=folder)
    first, second = read.items
    assert first == Item(
        "7",
        folder / "cg_videos_720p" / "abcDEF-1_xy.mp4",
        "abcDEF-1_xy",
        Question("What does he lift?", ("a bag", "a crate", "a chair", "a box", "a bin")),
        "B",
        groups={"family": "Entity Perception", "domain": "Life Record", "duration": "10 ~ 20"},
        evidence=((10.0, 14.5), (60.0, 71.0)),
    )
    assert second.subtitles == folder / "cg_subtitles" / "other.srt"
    assert (read.name, read.split) == ("cg_bench", "full")
    # A file of another name, by itself.
    (folder / "part.json").write_text((folder / "cgbench.json").read_text())
    assert load("cg_bench", root=folder / "part.json").items == read.items


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"right_answer": "F"}, "'F' is not an option"),
        ({"choices": "a, b"}, "field 'choices' is 'a, b'; it must be a list of texts"),
        ({"choices": ["one"]}, "2 to 26 options"),
        ({"video_uid": "../up"}, "'video_uid' is '../up'"),
        ({"clue_intervals": [[5, 1]]}, "'clue_intervals' contains"),
        ({"qid": 6}, "duplicate id"),
    ],
)
def test_broken_records_of_cg_bench_are_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    folder = write_cg(tmp_path, cg(qid=6), cg(**change))
    with pytest.raises(BenchmarkError, match=message) as caught:
        load("cg_bench", root=folder)
    if "qid" not in change:
        assert "record 2" in str(caught.value)


@pytest.mark.parametrize(
    ("files", "split", "message"),
    [
        ({}, "full", "does not exist"),
        ({"cgbench.json": "{"}, "full", "cannot be read"),
        ({"cgbench.json": "{}"}, "full", "must contain a list"),
        ({"cgbench.json": "[]"}, "full", "has no questions"),
        ({"cgbench.json": '[{"qid": 1}]'}, "full", "'video_uid' is missing"),
        ({"cgbench.json": "[]"}, "ful", "did you mean 'full'"),
    ],
)
def test_broken_files_of_cg_bench_are_reported(
    tmp_path: Path, files: dict[str, str], split: str, message: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(BenchmarkError, match=message):
        load("cg_bench", root=tmp_path, split=split)
    with pytest.raises(BenchmarkError, match="needs --root"):
        load("cg_bench")
