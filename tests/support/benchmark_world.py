"""Small folders of the shape in which official benchmarks come, and traces of given replies about them.

Questions are ours; nothing is copied from a benchmark.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from videopro.benchmarks import Benchmark
from videopro.methods.tracing import make_trace
from videopro.question import Answer, extract_letter
from videopro.runs import summarize
from videopro.traces import Call, Execution, Failure, Result, Round, Trace, VideoRef

Intervals = Sequence[tuple[float, float]]


def write_json(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def touch(root: Path, *names: str) -> None:
    """Files that are there; nothing opens them."""
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"something")


def write_parquet(path: Path, rows: list[dict[str, Any]]) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pyarrow.Table.from_pylist(rows), path)


class Hub:
    """Stands in for `datasets.load_dataset`: the rows of each (repository, configuration, split), and what
    was asked for."""

    def __init__(self, patch: pytest.MonkeyPatch, rows: Mapping[tuple[str, Any, str], Any]) -> None:
        self.asked: list[tuple[str, str | None, str]] = []
        self._rows = rows
        patch.setattr(pytest.importorskip("datasets"), "load_dataset", self._load)

    def _load(self, repo: str, config: str | None = None, *, split: str) -> Any:
        self.asked.append((repo, config, split))
        try:
            return self._rows[repo, config, split]
        except KeyError:
            raise ValueError(f"BuilderConfig {config!r} not found") from None


def lvb(number: int, group: int, gold: int | None, **changes: Any) -> dict[str, Any]:
    name = f"vid{number}"
    about = {"video_id": name, "video_path": f"{name}.mp4", "subtitle_path": f"{name}_en.json"}
    asked = {"question": f"What happens then ({number})?"}
    choices = {"candidates": ["a man waves", "a dog runs", "a car stops", "it rains"]}
    kinds = {"question_category": "S2E", "topic_category": "NP-News-Programs", "level": "L1-Perception"}
    times = {"duration_group": group, "duration": group - 1.5, "starting_timestamp_for_subtitles": 12.5}
    right = {} if gold is None else {"correct_choice": gold}
    return {"id": f"{name}_0", **about, **asked, **choices, **right, **kinds, **times, **changes}


LVB = [lvb(1, 15, 1), lvb(2, 15, 2), lvb(3, 600, 2), lvb(4, 3600, 0)]


def mme(number: int, length: str, gold: str, **changes: Any) -> dict[str, Any]:
    name = f"video-id_{number:02}"
    about = {"video_id": f"{number:03}", "duration": length, "videoID": name}
    kinds = {"domain": "Knowledge", "sub_category": "Geography", "task_type": "Counting Problem"}
    asked = {"question_id": f"{number:03}-1", "question": f"How many ({number})?", "answer": gold}
    options = {"options": ["A. One.", "B. Two.", "C. Three.", "D. Four."]}
    url = f"https://www.youtube.com/watch?v={name}"
    return {**about, **kinds, "url": url, **asked, **options, **changes}


MME = [mme(1, "short", "A"), mme(2, "long", "D"), mme(3, "long", "B"), mme(4, "long", "C")]


def mlvu(video: str, candidates: list[str], answer: str, kind: str, **more: Any) -> dict[str, Any]:
    asked = {"question": "What is it?", "candidates": candidates, "answer": answer, "question_type": kind}
    return {"video": video, "duration": 300, **asked, **more}


MLVU_TASKS = ("1_plotQA", "2_needle", "3_ego", "4_count", "5_order", "6_anomaly_reco", "7_topic_reasoning")
"""The files of its dev split."""


def cg(qid: int, clues: list[list[float]], gold: str) -> dict[str, Any]:
    choices = ["a bag", "a crate", "a chair", "a box", "a bin"]
    asked = {"question": "What does he lift?", "answer": "a box", "choices": choices, "right_answer": gold}
    kinds = {"domain": "Life Record", "sub_category": "Entity Perception", "duration": 900}
    return {"qid": qid, "video_uid": f"uid{qid}", **asked, "clue_intervals": clues, **kinds}


def ego(tmp_path: Path) -> None:
    options = {f"option {k}": f"reason {k}" for k in range(5)}
    asked = {"google_drive_id": "x", "question": "Why?", **options}
    write_json(tmp_path / "questions.json", [{"q_uid": f"uid-{i}", **asked} for i in range(3)])
    write_json(tmp_path / "subset_answers.json", {"uid-0": 4, "uid-2": 1})
    touch(tmp_path, *(f"videos/uid-{i}.mp4" for i in range(3)))


TSV = """index\tvideo\tvideo_type\tquestion\tanswer\tdimensions\tvideo_path
0\tab_processed\tnews\tWhat is written?\tOPEN\t['OCR']\t./video/ab_processed.mp4
1\tab_processed\tnews\tHow many?\tThree\t['Counting', 'Common Sense Reasoning']\t./video/ab_processed.mp4
2\tcd_processed\tsport\tWho wins?\tThe red team\t['Identity Reasoning']\t./video/cd_processed.mp4
3\tlost\tsport\tWhy?\tRain\t['Causal Reasoning']\t./video/lost.mp4
"""


def traces_of(
    benchmark: Benchmark,
    replies: Mapping[str, str | None],
    found: Mapping[str, Intervals] | None = None,
    *,
    needs_videos: bool = True,
) -> list[Trace]:
    """Traces as the runner writes them when the model replies so; None: it fails. A question whose video is
    not there ends in VideoError, as a run would have it, if it `needs_videos`. `found`: what retrieval gave
    for a question."""
    traces = []
    for item in benchmark.items:
        video = VideoRef(str(item.video), item.video_key)
        is_there = not needs_videos or item.video.exists()
        raw = replies[item.id] if is_there else None
        if raw is None:
            result = Result(error=Failure("BackboneError" if is_there else "VideoError", "no reply"))
        else:
            letter = None if item.question.is_open else extract_letter(raw, item.question)
            reply = Answer(letter, 0.5 if letter else 0.0, {}, raw)
            intervals = (found or {}).get(item.id, ())
            calls = tuple(Call("get_informative_clips", {}, "", intervals=(each,)) for each in intervals)
            execution = Execution("ok" if letter else "empty", Answer(letter, raw=raw), calls=calls)
            only = Round("native", raw, execution=execution, mode="native")
            result = Result((only,), reply, reply, selected=0)
        trace = make_trace(
            item, result, video, run_key="key", protocol=benchmark.protocol, parser=benchmark.parser
        )
        # Through the file and back.
        traces.append(Trace.from_line(trace.to_line()))
    assert set(replies) <= {item.id for item in benchmark.items}
    return traces


def score(
    benchmark: Benchmark, replies: Mapping[str, str], found: Mapping[str, Intervals] | None = None
) -> dict[str, Any]:
    """The summary of a run with these replies."""
    return summarize(traces_of(benchmark, replies, found), benchmark.protocol, {})


def metrics(summary: Mapping[str, Any]) -> dict[str, tuple[float | None, float | None]]:
    """Robust and official numbers by name."""
    return {name: (value["robust"], value["official"]) for name, value in summary["metrics"].items()}
