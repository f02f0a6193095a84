"""The official code's scores of the 1,000 replies. The code is read from copies of its repositories at named
commits, run in a scratch folder, and not kept.

Where a script draws a random option for a reply that it cannot read, the draw is wrong here; nothing else is
changed but paths, and the call of the model, which gives the fixed replies.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import re
import subprocess
import sys
import types
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from perf.official_scorers import data
from perf.official_scorers.ours import Scores

LMMS_EVAL = "EvolvingLMMs-Lab/lmms-eval"
VLMEVALKIT = "open-compass/VLMEvalKit"


@dataclass(frozen=True)
class Script:
    """A file of a repository at a commit."""

    repository: str
    file: str
    commit: str

    def source(self, repositories: Path) -> str:
        """Its text. `repositories` has a git directory OWNER+NAME/repo, or a clone OWNER+NAME, of each."""
        folder = repositories / self.repository.replace("/", "+")
        git = folder / "repo" if (folder / "repo").is_dir() else folder
        command = ["git", "-C", str(git), "show", f"{self.commit}:{self.file}"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def names(self, repositories: Path, *names: str, **given: Any) -> Any:
        """The functions and constants of these names, without the script's imports: `given` replaces them."""
        tree = ast.parse(self.source(repositories))
        kept = [node for node in tree.body if _defines(node) in names]
        space: dict[str, Any] = {"re": re, "json": json, "np": np, "pd": pd, **given}
        exec(compile(ast.Module(kept, []), self.file, "exec"), space)
        return SimpleNamespace(**{name: space[name] for name in names})


def _defines(node: ast.stmt) -> str:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return node.name
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return ""


@contextlib.contextmanager
def _modules(**modules: Any) -> Iterator[None]:
    """Stand-ins for modules that a script imports and does not need here."""
    before = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


_NO_DRAW = SimpleNamespace(choice=lambda options: "")


def _verdicts(read: Sequence[str | None], golds: Sequence[str]) -> str:
    pairs = zip(read, golds, strict=True)
    return "".join("-" if letter is None else str(int(letter == gold)) for letter, gold in pairs)


# ---- Video-MME --------------------------------------------------------------------------------------------

VIDEOMME = Script("thanku-all/parse_answer", "eval_your_results.py", "afd52cf")


def videomme(repositories: Path, scratch: Path) -> Scores:
    """The whole script; it prints percentages."""
    world = data.videomme()
    world.write(scratch)
    space: dict[str, Any] = {"__name__": "script"}
    exec(compile(VIDEOMME.source(repositories), VIDEOMME.file, "exec"), space)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        space["eval_your_results"](
            str(scratch / "Video-MME.json"),
            video_types=",".join(data.MME_LENGTHS),
            skip_missing=True,
            return_task_types_accuracy=True,
        )
    whole = printed.getvalue().split("Evaluation on the entire dataset")
    lines = dict(re.findall(r"^(.+?):\s+([\d.]+)%$", whole[1], re.MULTILINE))
    numbers = {"Overall": lines["Overall"]}
    for part in whole[0].split("Evaluation on video Type: ")[1:]:
        numbers[part.split("\n")[0]] = re.findall(r"^Overall:\s+([\d.]+)%$", part, re.MULTILINE)[0]
    numbers |= {name: lines[name] for name in (*data.MME_DOMAINS, *data.MME_TASKS)}
    read = [space["extract_characters_regex"](own.reply) or None for own in world.asked]
    return Scores(_verdicts(read, [own.gold for own in world.asked]), numbers)


# ---- LongVideoBench, NExT-QA and EgoSchema in lmms-eval ---------------------------------------------------

LONGVIDEOBENCH = Script(LMMS_EVAL, "lmms_eval/tasks/longvideobench/utils.py", "fdb5bfad")


def longvideobench(repositories: Path, scratch: Path) -> Scores:
    """Every question counts twice in its overall score, which is the same share."""
    world = data.longvideobench()
    logged: list[dict[str, Any]] = []
    names = (
        *("parse_multi_choice_response", "evaluate_longvideobench", "eval_multi_choice"),
        *("calculate_ins_level_acc", "longvideobench_process_results", "longvideobench_aggregate_results"),
    )
    script = LONGVIDEOBENCH.names(
        repositories, *names,
        random=_NO_DRAW, defaultdict=defaultdict, eval_logger=SimpleNamespace(info=logged.append),
    )  # fmt: skip
    docs = world.files["lvb_val.json"]
    results = [
        script.longvideobench_process_results(doc, [own.reply])["lvb_acc"]
        for doc, own in zip(docs, world.asked, strict=True)
    ]
    script.longvideobench_aggregate_results(results)
    numbers = {str(name): row["acc"] for name, row in logged[-1].items()}
    read = [result["parsed_pred"] for result in results]
    return Scores(_verdicts(read, [own.gold for own in world.asked]), numbers)


NEXTQA = Script(LMMS_EVAL, "lmms_eval/tasks/nextqa/utils.py", "c7eaef37")
NEXTQA_SCORES = Script("doc-doc/NExT-QA", "eval_mc.py", "005bbc9")


def nextqa(repositories: Path, scratch: Path) -> Scores:
    """`nextqa_mc_test`: the mean of its exact matches. From the authors, who read no replies: the accuracies
    of what it reads by type, in percent with two digits."""
    world = data.nextqa()
    names = ("OPTIONS", "nextqa_mc_process_results", "parse_multi_choice_response", "get_multi_choice_info")
    script = NEXTQA.names(repositories, *names, random=_NO_DRAW)
    right, predictions = [], {}
    for key, own in zip(world.ids, world.asked, strict=True):
        doc = {"answer": "ABCDE".index(own.gold), **{f"a{i}": own.choices[i] for i in range(5)}}
        right.append(script.nextqa_mc_process_results(doc, [own.reply])["exact_match"])
        texts, letters = script.get_multi_choice_info(doc)
        read = script.parse_multi_choice_response(own.reply, letters, texts)
        predictions[key] = {"answer": doc["answer"], "prediction": "ABCDE".index(read) if read else -1}
    files = {"val.csv": pd.read_csv(io.StringIO(world.files["val.csv"])), "results": predictions}
    authors = NEXTQA_SCORES.names(repositories, "map_name", "accuracy_metric", load_file=files.__getitem__)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        authors.accuracy_metric("val.csv", "results")
    heads, shares, overall = printed.getvalue().splitlines()
    numbers = dict(zip(heads.split(), shares.split(), strict=True))
    numbers |= {"Acc": overall.removeprefix("Acc: "), "exact_match": sum(right) / len(right)}
    return Scores("".join(str(int(own)) for own in right), numbers)


EGOSCHEMA = Script(LMMS_EVAL, "lmms_eval/tasks/egoschema/utils.py", "eab6655a")
EGOSCHEMA_EXACT = Script(LMMS_EVAL, "lmms_eval/tasks/egoschema/utils.py", "77a7d8e3")


def egoschema(repositories: Path, scratch: Path) -> Scores:
    """`egoschema_subset` as it is now, with the rule of commit 1d3f34ab."""
    names = ("get_multi_choice_info", "parse_multi_choice_response")
    return _egoschema(EGOSCHEMA, repositories, *names)


def egoschema_exact(repositories: Path, scratch: Path) -> Scores:
    """`egoschema_subset` at commit 77a7d8e3."""
    return _egoschema(EGOSCHEMA_EXACT, repositories)


def _egoschema(script: Script, repositories: Path, *more: str) -> Scores:
    world = data.egoschema()
    names = ("egoschema_process_results_generation", "egoschema_aggregate_score", *more)
    found = script.names(repositories, *names, random=_NO_DRAW)
    results = []
    for own in world.asked:
        options = [f"{letter}. {text}" for letter, text in zip("ABCDE", own.choices, strict=True)]
        doc = {"video_idx": str(own.number), "option": options, "answer": str("ABCDE".index(own.gold))}
        results.append(found.egoschema_process_results_generation(doc, [own.reply])["score"])
    read = ["ABCDE"[result["pred"]] if result["pred"] >= 0 else "" for result in results]
    share = found.egoschema_aggregate_score(results, None)
    return Scores(_verdicts(read, [own.gold for own in world.asked]), {"score": share})


# ---- LVBench ----------------------------------------------------------------------------------------------

LVBENCH = Script("THUDM/LVBench", "lvbench/utils/answer_util.py", "95577c1")
LVBENCH_SCORES = Script("THUDM/LVBench", "lvbench/metrics/compute_accuracy.py", "95577c1")


def lvbench(repositories: Path, scratch: Path) -> Scores:
    """The reader, and the script that compares what it read."""
    world = data.lvbench()
    world.write(scratch)
    polish = LVBENCH.names(repositories, "polish_answer").polish_answer
    read = [polish(own.reply) for own in world.asked]
    answers = scratch / "answers.json"
    answers.write_text(json.dumps(dict(zip(world.ids, read, strict=True))))

    @contextlib.contextmanager
    def lines(path: str) -> Iterator[list[Any]]:
        yield [json.loads(line) for line in Path(path).read_text().splitlines()]

    script = LVBENCH_SCORES.names(
        repositories, "compute_accuracy", jsonlines=SimpleNamespace(open=lines), defaultdict=defaultdict
    )
    numbers = script.compute_accuracy(str(answers), str(scratch / "video_info.meta.jsonl"))
    return Scores(_verdicts(read, [own.gold for own in world.asked]), dict(numbers))


# ---- MLVU -------------------------------------------------------------------------------------------------

MLVU = Script("JUNJIE99/MLVU", "evaluation/multiple_choice_evaluation/choice_bench.py", "4bcc3c0")


def mlvu(repositories: Path, scratch: Path) -> Scores:
    """The whole script, whose comments say where to call a model: there it gets the reply."""
    world = data.mlvu()
    world.write(scratch)
    replies = {own.text: own.reply for own in world.asked}
    source = MLVU.source(repositories)
    for place, text in (
        ('f"/MLVU_all/upload_json"', repr(str(scratch / "json"))),
        ('f"./test_all_choice"', repr(str(scratch / "all"))),
        ('f"bench_all.json"', repr(str(scratch / "result.json"))),
        (
            "        gt = example['answer']\n",
            "        pred = reply(example)\n        gt = example['answer']\n",
        ),
    ):
        assert source.count(place) == 1, place
        source = source.replace(place, text)

    def reply(example: Mapping[str, Any]) -> str:
        return replies[example["question"].split("\n")[0].removeprefix("Question: ")]

    space: dict[str, Any] = {"__name__": "script", "reply": reply}
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        exec(compile(source, MLVU.file, "exec"), space)
        space["main"]()
    numbers = {
        name: round(value, 10) for name, value in json.loads((scratch / "result.json").read_text()).items()
    }
    right = {}
    for result in json.loads((scratch / "all.json").read_text())["res_list"]:
        asked = result["question"].split("\n")[0].removeprefix("Question: ")
        right[asked] = space["check_ans"](pred=result["pred"], gt=result["gt"])
    return Scores("".join(str(int(right[own.text])) for own in world.asked), numbers)


# ---- CG-Bench ---------------------------------------------------------------------------------------------

CG_BENCH = Script("CG-Bench/CG-Bench", "run/utils.py", "6677fe3")
CG_BENCH_SCORES = Script("CG-Bench/CG-Bench", "run/stat_with_key.py", "440b30c")
CG_BENCH_GROUPS = Script(VLMEVALKIT, "vlmeval/dataset/utils/cgbench.py", "401916c0")
# stat_with_key.py knows the runs of some models only.
_MODEL = "gemini-1.5_flash_128_True_True_True"


def cg_bench(repositories: Path, scratch: Path) -> Scores:
    """Both scripts, which keep results in a file for each question; CRR and groups from VLMEvalKit."""
    world = data.cg_bench()
    names = ("post_process", "calculate_intervals_iou", "merge_intervals", "save_result", "save_json")
    script = CG_BENCH.names(repositories, *names)
    runs: dict[str, Mapping[str, Any]] = {
        "long_acc": {key: own.reply for key, own in zip(world.ids, world.asked, strict=True)},
        "clue_acc": data.clue_replies(world),
        "miou": data.interval_replies_of(world),
    }
    judged: Mapping[str, tuple[str, str]] = data.judge_replies_of(world)
    answers = data.open_replies(world)
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
        _judge(script, kept, answers[key] or "", judged[key], str(folder / f"{key}.json"))
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
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        exec(compile(source, CG_BENCH_SCORES.file, "exec"), {"__name__": "__main__"})
    shares = re.findall(r"Result Key: (\S+?)_gemini.*?\n.*?Accuracy: ([\d.e-]+)", printed.getvalue())
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

    rating = types.ModuleType("rating")
    names = ("MMV_DIMENSIONS", "L3_DIMS", "FAIL_MSG", "system_prompt", "get_dimension_rating", "build_prompt")
    source = MMBENCH_VIDEO.source(repositories).replace("from vlmeval.smp import load\n", "")
    rating.__dict__["load"] = files.__getitem__
    exec(compile(source, MMBENCH_VIDEO.file, "exec"), rating.__dict__)
    assert all(hasattr(rating, name) for name in names)
    judge = SimpleNamespace(working=lambda: True, fail_msg=rating.__dict__["FAIL_MSG"], generate=None)
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
        "FAIL_MSG": rating.__dict__["FAIL_MSG"],
        "DEBUG_MESSAGE": "",
        "get_file_extension": lambda name: "tsv",
        "get_intermediate_file_path": lambda name, ending, kind="xlsx": f"{ending}.{kind}",
        "build_judge": lambda **settings: judge,
        "track_progress_rich": grade,
        "istype": MISC.names(repositories, "istype").istype,
    }
    packages = {name: types.ModuleType(name) for name in (_PACKAGE, f"{_PACKAGE}.utils")}
    modules: dict[str, Any] = {**packages, f"{_PACKAGE}.utils.mmbench_video": rating}
    with _modules(**modules), contextlib.redirect_stdout(io.StringIO()):
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
    source = MMBENCH_VIDEO.source(repositories).replace("from vlmeval.smp import load\n", "")
    space: dict[str, Any] = {}
    exec(compile(source, MMBENCH_VIDEO.file, "exec"), space)
    names: list[str] = space["L3_DIMS"]
    return names


SCRIPTS: Mapping[str, tuple[Script, ...]] = {
    "videomme": (VIDEOMME,),
    "longvideobench": (LONGVIDEOBENCH,),
    "lvbench": (LVBENCH, LVBENCH_SCORES),
    "mlvu": (MLVU,),
    "cg_bench": (CG_BENCH, CG_BENCH_SCORES, CG_BENCH_GROUPS),
    "nextqa": (NEXTQA, NEXTQA_SCORES),
    "egoschema": (EGOSCHEMA,),
    "egoschema_exact": (EGOSCHEMA_EXACT,),
    "mmbench_video": (MMBENCH_VIDEO, MMBENCH_VIDEO_GRADES, MISC),
}
