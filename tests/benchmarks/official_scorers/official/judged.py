"""The benchmarks with questions that a judge grades: CG-Bench and MMBench-Video."""

import ast
import contextlib
import io
import json
import re
import sys
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pandas as pd

from tests.benchmarks.official_scorers import data
from tests.benchmarks.official_scorers.official.script import VLMEVALKIT, Script, printed_by
from tests.benchmarks.official_scorers.ours import Scores

# ---- CG-Bench ---------------------------------------------------------------------------------------------

CG_BENCH = Script("CG-Bench/CG-Bench", "run/utils.py", "6677fe3")
CG_BENCH_SCORES = Script("CG-Bench/CG-Bench", "run/stat_with_key.py", "440b30c")
CG_BENCH_GROUPS = Script(VLMEVALKIT, "vlmeval/dataset/utils/cgbench.py", "401916c0")
# stat_with_key.py knows the runs of some models only.
_MODEL = "gemini-1.5_flash_128_True_True_True"


def cg_bench(repositories: Path, scratch: Path) -> Scores:
    """Both scripts, which keep results in a file for each question; CRR and groups from VLMEvalKit."""
    world, clue, intervals, judged, answers = data.cg_bench_runs()
    names = ("post_process", "calculate_intervals_iou", "merge_intervals", "save_result", "save_json")
    script = CG_BENCH.names(repositories, *names)
    runs: dict[str, Mapping[str, Any]] = {
        "long_acc": {key: own.reply for key, own in zip(world.ids, world.asked, strict=True)},
        "clue_acc": clue,
        "miou": intervals,
    }
    folder = scratch / "annotations"
    folder.mkdir()
    found: dict[str, dict[str, Any]] = {task: {} for task in runs}
    table = []
    for record in world.files["cgbench_mini.json"]:
        key = str(record["qid"])
        kept = {**record, "version": 0, "results": {}}
        for task, replies in runs.items():
            args = SimpleNamespace(
                task_mode=task, model_name="gemini-1.5", model_size="flash", num_segment=128,
                sub=True, sub_time=True, frame_time=True,
            )  # fmt: skip
            # A copy, because the script sorts and joins the clue's own intervals.
            anno = json.loads(json.dumps(record))
            with contextlib.redirect_stdout(io.StringIO()):
                try:
                    result = script.post_process(args, anno, replies[key])
                except Exception:
                    # As run_api.py does (process_single_file): the question has no result.
                    result = None
            found[task][key] = result
            if result is not None:
                script.save_result(args, kept, result, str(folder / f"{key}.json"))
                own = ("qid", "duration", "domain", "sub_category")
                row: dict[str, Any] = {name: record[name] for name in own}
                table.append({**row, "task_mode": task, "score": result})
        _judge(script, kept, answers[key], judged[key], str(folder / f"{key}.json"))
    numbers = _cg_printed(repositories, folder) | _cg_grouped(repositories, pd.DataFrame(table))
    long = "".join("-" if (own := found["long_acc"][key]) is None else str(own) for key in world.ids)
    ious = [found["miou"][key] for key in world.ids]
    return Scores([long, [None if iou is None else round(iou, 10) for iou in ious]], numbers)


def _judge(script: Any, kept: Any, answer: str, replies: Sequence[str], path: str) -> None:
    """The open question: its answer, and the judge's one or two replies, in the order of the tasks."""
    model = {"model_name": "gemini-1.5", "model_size": "flash", "num_segment": 128}
    run = {**model, "sub": True, "sub_time": True, "frame_time": True}
    by = {f"open_{name}": value for name, value in run.items()}
    key = f"open_{_MODEL}"
    with contextlib.redirect_stdout(io.StringIO()):
        args = SimpleNamespace(task_mode="open", **run)
        script.save_result(args, kept, script.post_process(args, kept, answer), path)
        for step, reply in zip(("eval_open_step_1", "eval_open_step_2"), replies, strict=True):
            # As get_json_files chooses what a step is still to be done for.
            if step == "eval_open_step_2" and (
                "step_1" not in kept["results"][key] or "step_2" in kept["results"][key]
            ):
                continue
            args = SimpleNamespace(task_mode=step, **run, **by)
            result = script.post_process(args, kept, reply)
            if result is not None:
                script.save_result(args, kept, result, path)


def _cg_printed(repositories: Path, folder: Path) -> dict[str, Any]:
    source = CG_BENCH_SCORES.source(repositories)
    source = re.sub(r'anno_root = ".*?"', f"anno_root = {str(folder)!r}", source)
    tasks = ("long_acc", "clue_acc", "miou", "rec@iou", "acc@iou", "open")
    source = re.sub(
        r"result_keys = \[.*?\]", f"result_keys = {[f'{task}_{_MODEL}' for task in tasks]}", source,
        count=1, flags=re.DOTALL,
    )  # fmt: skip
    printed = printed_by(exec, compile(source, CG_BENCH_SCORES.file, "exec"), {"__name__": "__main__"})
    shares = re.findall(r"Result Key: (\S+?)_gemini.*?\n.*?Accuracy: ([\d.e-]+)", printed)
    numbers = {task: float(share) for task, share in shares}
    # A sum in the order of the files.
    return {**numbers, "miou": round(numbers["miou"], 10)}


def _cg_grouped(repositories: Path, table: pd.DataFrame) -> dict[str, Any]:
    script = CG_BENCH_GROUPS.names(
        repositories, "DURATIONS", "DOMAINS", "SUB_CATEGORIES", "get_dimention_rating_mcq_grouding",
        load=lambda _: table.copy(),
    )  # fmt: skip
    rated = script.get_dimention_rating_mcq_grouding("")
    numbers = {}
    for name in ("long_acc", "CRR"):
        numbers[f"{name}, all"] = float(rated[name]["overall"])
        for kind, ours in (("duration", "duration"), ("domain", "domain"), ("sub_category", "family")):
            there = _minutes(table) if kind == "duration" else set(table[kind])
            for part, value in rated[name][kind].items():
                if part in there:
                    numbers[f"{name}, {ours}: {part}"] = float(value)
    return numbers


def _minutes(table: pd.DataFrame) -> set[str]:
    """The bins that have a question."""
    ends = sorted({-(-seconds // 600) * 10 for seconds in table["duration"]})
    return {f"{end - 10} ~ {end}" if end <= 60 else "60+" for end in ends}


# ---- MMBench-Video ----------------------------------------------------------------------------------------

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
