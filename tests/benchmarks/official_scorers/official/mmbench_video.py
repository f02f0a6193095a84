"""MMBench-Video."""

from __future__ import annotations

import ast
import contextlib
import io
import sys
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pandas as pd

from tests.benchmarks.official_scorers import data
from tests.benchmarks.official_scorers.official.script import VLMEVALKIT, Script
from tests.benchmarks.official_scorers.ours import Scores

MMBENCH_VIDEO = Script(VLMEVALKIT, "vlmeval/dataset/utils/mmbench_video.py", "401916c0")
MMBENCH_VIDEO_GRADES = Script(VLMEVALKIT, "vlmeval/dataset/mmbench_video.py", "401916c0")
MISC = Script(VLMEVALKIT, "vlmeval/smp/misc.py", "e8e78f05")
_PACKAGE = "official_vlmeval"


def mmbench_video(repositories: Path, scratch: Path) -> Scores:
    """`MMBenchVideo.evaluate` with a judge that gives the fixed replies."""
    text, replies = data.mmbench_video(dimensions(repositories))
    table = pd.read_csv(io.StringIO(text), sep="\t")
    table["prediction"] = [None if reply is None else "Snow" for reply in replies]
    files: dict[str, Any] = {"run.tsv": table}

    def grade(function: Any, prompts: Any, keys: Sequence[int], save: str, **options: Any) -> None:
        files[save] = {key: replies[key] for key in keys}

    rating = _rating(repositories, files)
    judge = SimpleNamespace(working=lambda: True, fail_msg=rating.FAIL_MSG, generate=None)
    tree = ast.parse(MMBENCH_VIDEO_GRADES.source(repositories))
    (found,) = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    found.bases = []
    found.body = [
        node for node in found.body if isinstance(node, ast.FunctionDef) and node.name == "evaluate"
    ]
    space: dict[str, Any] = {
        "__name__": f"{_PACKAGE}.dataset",
        "__package__": _PACKAGE,
        "pd": pd,
        "osp": SimpleNamespace(exists=files.__contains__),
        "load": files.__getitem__,
        "dump": lambda content, name: files.__setitem__(name, content),
        "FAIL_MSG": rating.FAIL_MSG,
        "DEBUG_MESSAGE": "",
        "get_file_extension": lambda name: "tsv",
        "get_intermediate_file_path": lambda name, ending, kind="xlsx": f"{ending}.{kind}",
        "build_judge": lambda **settings: judge,
        "track_progress_rich": grade,
        "istype": MISC.names(repositories, "istype").istype,
    }
    # The modules that it imports.
    modules = {name: types.ModuleType(name) for name in (_PACKAGE, f"{_PACKAGE}.utils")}
    modules[f"{_PACKAGE}.utils.mmbench_video"] = rating
    with patch.dict(sys.modules, modules), contextlib.redirect_stdout(io.StringIO()):
        exec(compile(ast.Module([found], []), MMBENCH_VIDEO_GRADES.file, "exec"), space)
        ratings = space["MMBenchVideo"].evaluate("run.tsv", model="judge")
    numbers = {}
    for level in ("coarse", "fine"):
        for name, value in ratings[f"{level}_all"].items():
            numbers[name] = value
            numbers[f"{name}, valid"] = ratings[f"{level}_valid"][name]
    return Scores([int(score) for score in files["_judge_score.xlsx"]["score"]], numbers)


def dimensions(repositories: Path) -> list[str]:
    """The fine dimensions, in the script's order."""
    names: list[str] = _rating(repositories, {}).L3_DIMS
    return names


def _rating(repositories: Path, files: Mapping[str, Any]) -> Any:
    """The module of ratings, which loads these files."""
    rating = types.ModuleType("rating")
    rating.__dict__["load"] = files.__getitem__
    source = MMBENCH_VIDEO.source(repositories).replace("from vlmeval.smp import load\n", "")
    exec(compile(source, MMBENCH_VIDEO.file, "exec"), rating.__dict__)
    return rating
