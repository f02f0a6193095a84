"""Video-MME-v2: the authors' reader and script, and lmms-eval's scores."""

from __future__ import annotations

import ast
import contextlib
import io
import json
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd

from tests.benchmarks.official_scorers import data_contributed
from tests.benchmarks.official_scorers.official.script import LMMS_EVAL, Script, verdicts
from tests.benchmarks.official_scorers.ours import Scores

VIDEOMME_V2 = Script("MME-Benchmarks/Video-MME-v2", "evaluation/test_video_mme_v2.py", "013b6c9")
VIDEOMME_V2_SCORES = Script(LMMS_EVAL, "lmms_eval/tasks/videomme_v2/utils.py", "394a8e4b")
_RATED = ("total", "relevance_score", "logic_score", "level_1", "level_2", "level_3")


def videomme_v2(repositories: Path, scratch: Path) -> Scores:
    """lmms-eval's reader and scores, in percent. The accuracies of both kinds of sets are left out."""
    world = data_contributed.videomme_v2()
    names = (
        *("cal_relevance", "cal_logic", "extract_characters_regex", "videomme_v2_process_results"),
        "_compute_all_subscores",
    )
    script = VIDEOMME_V2_SCORES.names(
        repositories, *names,
        ast=ast, defaultdict=defaultdict, eval_logger=SimpleNamespace(info=lambda line: None),
    )  # fmt: skip
    results = [
        script.videomme_v2_process_results(row, [own.reply])["videomme_v2_overall_score"]
        for row, own in zip(world.files["test.parquet"], world.asked, strict=True)
    ]
    scores = script._compute_all_subscores(results)
    numbers = {
        name: round(value, 10) for name, value in scores.items() if name not in ("relevance_acc", "logic_acc")
    }
    read = [result["pred_answer"] for result in results]
    return Scores(verdicts(read, [own.gold for own in world.asked]), numbers)


def videomme_v2_authors(repositories: Path, scratch: Path) -> Scores:
    """The authors' reader and scores, in percent: as they are, and with 0 for a reply that cannot be read,
    which scores -1 there."""
    world = data_contributed.videomme_v2()
    names = ("extract_characters_regex_v2", "cal_relevance", "cal_logic", "get_final_rating", "evaluate")
    numbers: dict[str, float] = {}
    for ending, unread in (("", "-1"), (", unread 0", "0")):
        script = VIDEOMME_V2.names(
            repositories, *names,
            changes={"if extracted else -1": f"if extracted else {unread}"}, ast=ast,
        )  # fmt: skip
        table = pd.DataFrame(world.files["test.parquet"])
        table["prediction"] = [own.reply for own in world.asked]
        with contextlib.redirect_stdout(io.StringIO()):
            script.evaluate(table, str(scratch / "run.tsv"))
        rating: dict[str, Any] = json.loads((scratch / "run_rating.json").read_text())["final_rating"]
        numbers |= {f"{name}{ending}": round(rating[name], 10) for name in _RATED}
    read = [script.extract_characters_regex_v2(own.reply) for own in world.asked]
    return Scores(verdicts(read, [own.gold for own in world.asked]), numbers)
