"""Runs of official benchmarks in this process, for tests of runs and of what is made of them."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import pytest

from tests.support.benchmark_world import MME, lvb, write_json, write_parquet
from tests.support.colours import load_fake, make_video
from videopro.commands.infer import main
from videopro.methods import create
from videopro.runs.making import run_worker


class InProcessSupervisor:
    """Replaces the supervisor: one worker in this process (`tests.runner` has the real one)."""

    def __init__(self, placement: Any, load: Any, method: Any) -> None:
        self._method = method
        self._backbone = (load if callable(load) else load[0])()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._backbone.close()

    def answering(self, ids: Any) -> None:
        pass

    def doing(self, counts: Any) -> None:
        pass

    def now(self) -> str:
        return ""

    def model_identity(self) -> Any:
        return self._backbone.identity()

    def run(self, job: Any, answered: Callable[[], int]) -> Iterator[int]:
        # One video at a time unless a test says otherwise: it may know the order of what is asked.
        job = replace(job, in_flight=job.in_flight or 1)
        run_worker(job, create(*self._method), self._backbone, self)
        yield answered()


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("videopro.commands.infer.Supervisor", InProcessSupervisor)


def coloured(root: Path) -> None:
    """LongVideoBench with three videos, one of them missing, and subtitles whose last line has no end."""
    colours = ["red", "green", "blue", "grey"]
    records = [
        lvb(1, 15, 1, candidates=colours, starting_timestamp_for_subtitles=0),
        lvb(2, 15, 0, candidates=colours, starting_timestamp_for_subtitles=100),
        lvb(3, 600, 0, candidates=colours, starting_timestamp_for_subtitles=0),
    ]
    write_json(root / "lvb_val.json", records)
    make_video(root / "videos/vid1.mp4", "green", 2.0)
    make_video(root / "videos/vid2.mp4", "red", 2.0)
    null_end = [
        {"timestamp": [100.1, 100.2], "text": "widened"},
        {"timestamp": [101.0, None], "text": "to the end"},
        {"timestamp": [90.0, 95.0], "text": "before the video"},
    ]
    write_json(root / "subtitles/vid1_en.json", [{"start": "0:00:00.0", "end": "0:00:02.0", "line": "hello"}])
    write_json(root / "subtitles/vid2_en.json", null_end)
    write_json(root / "subtitles/vid3_en.json", [])


def infer(root: Path, output: Path, *more: str) -> int:
    flags = ["--root", str(root), "--model", "m", "--output", str(output), *more]
    return main(flags, load=load_fake)


def paper_folders(root: Path) -> None:
    """VideoPro's four benchmarks with a question or three each, of coloured videos."""
    coloured(root / "longvideobench")
    make_video(root / "longvideobench/videos/vid3.mp4", "red", 2.0)
    colours = ["red", "green", "blue", "grey"]
    mme = {**MME[2], "duration": "long", "options": [f"{'ABCD'[i]}. {c}" for i, c in enumerate(colours)]}
    write_parquet(root / "videomme/videomme/test-00000-of-00001.parquet", [mme])
    make_video(root / f"videomme/data/{mme['videoID']}.mp4", colours["ABCD".index(mme["answer"])], 2.0)
    options = "\n".join(f"({'ABCD'[i]}) {colour}" for i, colour in enumerate(colours))
    qa = {"uid": "1", "question": f"Which?\n{options}", "answer": "C", "question_type": ["summarization"]}
    lvbench = {"key": "vid", "type": "tv", "qa": [qa], "video_info": {}}
    (root / "lvbench").mkdir()
    (root / "lvbench/video_info.meta.jsonl").write_text(json.dumps(lvbench) + "\n")
    make_video(root / "lvbench/videos/vid.mp4", "blue", 2.0)
    asked = {"video": "m.mp4", "question": "Which?", "candidates": colours, "question_type": "needleQA"}
    write_json(root / "mlvu/test_multi_choice_tasks.json", [{**asked, "question_id": "q1", "answer": "grey"}])
    make_video(root / "mlvu/MLVU_Test/video/m.mp4", "red", 2.0)
