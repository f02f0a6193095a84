"""What is asked, in which order and with options in which places; CG-Bench's annotation files."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.support.synthesis import cg, write_cg
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


def letters(items: Sequence[Item], options: int | None = None) -> Counter[str | None]:
    return Counter(item.answer for item in items if options in (None, len(item.question.choices)))


def test_right_letters_are_balanced_whatever_their_distribution() -> None:
    """All right options come first in the source, as in careless datasets."""
    items = [item(i) for i in range(400)]
    asked = balance_letters(items, seed=1)
    assert letters(asked) == {"A": 100, "B": 100, "C": 100, "D": 100}
    # Also over any segment, to within one block at each end; and in no cycle.
    counts = letters(asked[50:150])
    assert max(counts.values()) - min(counts.values()) <= 2
    assert len(Counter(pairwise(item.answer for item in asked))) > 12
    assert asked == balance_letters(items, 1) != balance_letters(items, 2)
    # Those with other numbers of options apart.
    asked = balance_letters([item(i, options=4 + i % 3) for i in range(360)], seed=0)
    for options in (4, 5, 6):
        assert set(letters(asked, options).values()) == {120 // options}


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


@pytest.mark.parametrize(
    "option",
    [
        *("None of the above", "all of the above", "Both A and B", "A and C", "(B) or (D)"),
        *("Neither A nor B", "option C"),
    ],
)
def test_options_that_refer_to_their_positions_stay(option: str) -> None:
    original = replace(item(0, right=2), question=Question("Which?", ("red", "green", "blue", option)))
    assert balance_letters([original], 0) == [original]


@pytest.mark.parametrize("option", ["A man and a dog", "floating above them", "above", "a band and a choir"])
def test_options_that_only_seem_to_refer_to_positions_move(option: str) -> None:
    choices = ("red", "green", "blue", option)
    made = [replace(item(i), question=Question("Which?", choices)) for i in range(12)]
    assert letters(balance_letters(made, 0)) == {"A": 3, "B": 3, "C": 3, "D": 3}


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


def test_unlabelled_questions_are_not_asked() -> None:
    asked = select_questions(benchmark(*(item(i) for i in range(9)), item(20, answer=None)), seed=0)
    assert "q20" not in {item.id for item in asked.select()}
    assert asked.filters.removed() == {"no known answer": 1}
    with pytest.raises(ConfigError, match="no question is left"):
        select_questions(benchmark(item(20, answer=None)), seed=0)


def test_pocket_is_asked_from_its_train_split(pocket_cache: None) -> None:
    assert load_source("pocket", split=None, root=None, world_seed=None).split == "train"
    own = load_source("pocket", split=None, root=None, world_seed=3)
    assert (own.split, len(own.items)) == ("fresh", 726)


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
    ("change", "named"),
    [
        ({"right_answer": "F"}, "record 2: .*'F' is not an option"),
        ({"choices": "a, b"}, "record 2: .*'choices' is 'a, b'"),
        ({"video_uid": "../up"}, "record 2: .*'video_uid'"),
        ({"clue_intervals": [[5, 1]]}, "record 2: .*'clue_intervals'"),
    ],
)
def test_broken_records_of_cg_bench_are_named(tmp_path: Path, change: dict[str, Any], named: str) -> None:
    with pytest.raises(BenchmarkError, match=named):
        load("cg_bench", root=write_cg(tmp_path, cg(qid=6), cg(**change)))
