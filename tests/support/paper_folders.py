"""The folders of the benchmarks that the VideoPro paper reports."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.benchmark_runs import coloured
from tests.support.benchmark_world import MME, write_json, write_parquet
from tests.support.fakes import make_video


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
