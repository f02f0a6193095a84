"""TempCompass."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
from pathlib import Path
from typing import Any

from tests.benchmarks.official_scorers import data_contributed
from tests.benchmarks.official_scorers.official.script import Script
from tests.benchmarks.official_scorers.ours import Scores

_COMMIT = "c2ec41e"
_REPOSITORY = "llyx97/TempCompass"
TEMPCOMPASS = {
    task: Script(_REPOSITORY, f"eval_{task}.py", _COMMIT)
    for task in ("multi-choice", "yes_no", "caption_matching")
}
TEMPCOMPASS_SCORES = Script(_REPOSITORY, "utils/eval_utils.py", _COMMIT)
# The finer aspects, of each of which the script expects a question.
_FINER = {
    "action": ("fine-grained action", "coarse-grained action"),
    "direction": ("object motion", "camera motion"),
    "speed": ("absolute speed", "relative speed"),
    "attribute_change": (
        "color & light change", "size & shape change", "combined change", "other change",
    ),
}  # fmt: skip


def tempcompass(task: str, repositories: Path, scratch: Path) -> Scores:
    """The task's script with --disable_llm, and what it prints: in percent with one digit."""
    world = data_contributed.tempcompass(task)
    replies = {key: own.reply for key, own in zip(world.ids, world.asked, strict=True)}
    asked = json.loads(json.dumps(world.files[f"questions/{task}.json"]))
    for video, aspects in asked.items():
        for aspect, records in aspects.items():
            for number, record in enumerate(records, start=1):
                record["prediction"] = replies[f"{video}/{aspect}/{number}"]
    about = {
        video: {"eval_dim": {aspect: {"type": of[place % len(of)]} for aspect, of in _FINER.items()}}
        for place, video in enumerate(asked)
    }
    (scratch / "meta_info.json").write_text(json.dumps(about))
    result = TEMPCOMPASS_SCORES.names(repositories, "print_result").print_result
    names = {"yes_no": ("extract_pred",), "caption_matching": ("check_ans", "eval_rule")}.get(task, ())
    script = TEMPCOMPASS[task].names(
        repositories, "main", *names, os=os, tqdm=iter, base_prompt="", print_result=result
    )
    rated: dict[str, Any] = {}
    printed = io.StringIO()
    with contextlib.chdir(scratch), contextlib.redirect_stdout(printed):
        script.main(asked, rated, "rated.json", True)
    numbers = ast.literal_eval(printed.getvalue().splitlines()[1])
    right = {
        f"{video}/{aspect}/{number}": record["rating"]
        for video, aspects in rated.items()
        for aspect, records in aspects.items()
        for number, record in enumerate(records, start=1)
    }
    return Scores("".join(str(right[key]) for key in world.ids), numbers)
