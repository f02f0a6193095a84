"""The example docs/examples/perception_test.py: rows of the hub's form, asked and read as in lmms-eval's task
`perceptiontest_val_mc`."""

from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT
from tests.support.benchmark_world import metrics, score, write_parquet
from tests.support.colours import make_video
from videopro import benchmarks

FILE = str(ROOT / "docs" / "examples" / "perception_test.py")
PARQUET = "mc_question_val/validation-00000-of-00001.parquet"


def row(video: str, number: int, answer: str, **changes: Any) -> dict[str, Any]:
    """A row with the columns of lmms-lab/PerceptionTest_Val."""
    return {
        "video_name": video,
        "question": "Which colour is it?",
        "question_id": str(number),
        "options": ["red", "green", "blue"],
        "answer_id": answer,
        "area": "physics",
        "reasoning": "descriptive",
        "tag": ["colour", "object"],
        **changes,
    }


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A red video and a green one, with three questions; the gold answer of the last is wrong."""
    folder = tmp_path / "perception_test"
    make_video(folder / "videos" / "video_1.mp4", "red")
    make_video(folder / "videos" / "video_2.mp4", "green")
    rows = [
        row("video_1", 0, "0"),
        row("video_2", 0, "1", area="memory", reasoning="explanatory"),
        row("video_2", 1, "2", area="memory"),
    ]
    write_parquet(folder / PARQUET, rows)
    return folder


def test_rows_of_the_hub_are_read(root: Path) -> None:
    items = benchmarks.load(FILE, root=root).items
    assert [(item.id, item.answer) for item in items] == [
        ("video_1/0", "A"), ("video_2/0", "B"), ("video_2/1", "C")
    ]  # fmt: skip
    assert items[1].video == root / "videos" / "video_2.mp4"
    assert items[1].question.choices == ("red", "green", "blue")
    assert items[1].groups == {"area": "memory", "reasoning": "explanatory"}


def test_the_prompt_is_lmms_evals(root: Path) -> None:
    """The question, a line for each option, and the request for a letter."""
    benchmark = benchmarks.load(FILE, root=root)
    asked = benchmark.protocol.answer_prompt
    assert asked.fill(benchmark.items[0].question) == (
        "Which colour is it?\nA. red\nB. green\nC. blue\n"
        "Answer with the option's letter from the given choices directly."
    )


@pytest.mark.parametrize(
    ("reply", "official"),
    [("A", 1), ("A\n\nIt is red.", 1), *((no, 0) for no in ("B", "A.", "a", " A", "red", "D", ""))],
)
def test_the_reader_takes_a_letter_alone(root: Path, reply: str, official: int) -> None:
    """As a mapping from "A", "B", "C" to numbers, which has nothing for any other reply."""
    benchmark = benchmarks.load(FILE, root=root)
    replies = {"video_1/0": reply, "video_2/0": "C", "video_2/1": "A"}
    assert metrics(score(benchmark, replies))["accuracy"][1] == pytest.approx(official / 3)
