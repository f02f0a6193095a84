"""Charades-STA in lmms-eval."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from types import SimpleNamespace

from tests.benchmarks.official_scorers import data_contributed
from tests.benchmarks.official_scorers.official.script import LMMS_EVAL, Script
from tests.benchmarks.official_scorers.ours import Scores

CHARADES_STA = Script(LMMS_EVAL, "lmms_eval/tasks/charades_sta/utils.py", "26f1d8e3")


def charades_sta(repositories: Path, scratch: Path) -> Scores:
    """The interval that it reads in each reply, and its scores, in percent."""
    world, replies = data_contributed.charades_sta()
    names = (
        *("CHARADES_STA_METRICS", "extract_time", "_time_to_seconds", "iou", "_parse_ground_truth"),
        *("temporal_grounding_process_results_generation", "_temporal_grounding_compute_metrics"),
    )
    logged = SimpleNamespace(info=lambda line: None, warning=lambda line: None)
    script = CHARADES_STA.names(repositories, *names, ast=ast, eval_logger=logged)
    results = []
    for line, reply in zip(world.files["charades_sta_test.txt"].splitlines(), replies.values(), strict=True):
        times, sentence = line.split("##")
        video, start, end = re.split(r"\s+", times)
        # A row of the hub, as lmms-eval reads them.
        doc = {"video": f"{video}.mp4", "caption": sentence, "timestamp": [float(start), float(end)]}
        found = script.temporal_grounding_process_results_generation(doc, [reply])
        results.append(found["charades_sta_mIOU"])
    numbers = script._temporal_grounding_compute_metrics(results)
    read = [script.extract_time(reply) for reply in replies.values()]
    return Scores(
        [list(found[0]) if found else None for found in read],
        {name: round(value, 10) for name, value in numbers.items()},
    )
