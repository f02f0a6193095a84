"""The benchmarks in videopro/benchmarks/contributed, and NExT-QA. Of NExT-QA, IntentQA and ATP-hard the
authors publish no reader: the replies are read by lmms-eval's."""

import ast
import contextlib
import io
import json
import os
import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pandas as pd

from tests.benchmarks.official_scorers import data
from tests.benchmarks.official_scorers.official.script import LMMS_EVAL, NO_DRAW, Script, printed_by, verdicts
from tests.benchmarks.official_scorers.ours import Scores

# ---- NExT-QA, IntentQA, ATP-hard --------------------------------------------------------------------------

NEXTQA = Script(LMMS_EVAL, "lmms_eval/tasks/nextqa/utils.py", "c7eaef37")
NEXTQA_SCORES = Script("doc-doc/NExT-QA", "eval_mc.py", "005bbc9")
INTENTQA_SCORES = Script("JoseponLee/IntentQA", "eval_intentqa.py", "cee9eaa")


def nextqa(repositories: Path, scratch: Path) -> Scores:
    """`nextqa_mc_test`: the mean of its exact matches. From the authors, who read no replies: the accuracies
    of what it reads by type, in percent with two digits."""
    world = data.nextqa()
    right, predictions = _read(repositories, world)
    rows = pd.read_csv(io.StringIO(world.files["val.csv"]))
    numbers: dict[str, Any] = _printed(NEXTQA_SCORES, repositories, rows, predictions)
    return Scores("".join(map(str, right)), {**numbers, "exact_match": sum(right) / len(right)})


def intentqa(repositories: Path, scratch: Path) -> Scores:
    """The authors' accuracies of what lmms-eval reads, in percent with two digits. Left out: Acc_C and Acc_T,
    which the paper's table does not have (the latter is Bef&Aft)."""
    world = data.intentqa()
    right, predictions = _read(repositories, world)
    rows = pd.read_csv(io.StringIO(world.files["test.csv"]))
    numbers = _printed(INTENTQA_SCORES, repositories, rows, predictions)
    kept = {name: share for name, share in numbers.items() if name not in ("Acc_C", "Acc_T")}
    return Scores("".join(map(str, right)), kept)


# The subset has no descriptive questions, and the script divides by their number: here by 1.
_NO_ZERO = MappingProxyType({"acc*100.0/group_cnt[qtype]": "acc*100.0/(group_cnt[qtype] or 1)"})
_DESCRIPTIVE = ("Cnt", "Loc", "Other", "Acc_D")


def nextqa_atp_hard(repositories: Path, scratch: Path) -> Scores:
    """NExT-QA's script on the rows of the list. Left out: the accuracies of its no descriptive questions."""
    world = data.nextqa_atp_hard()
    right, predictions = _read(repositories, world)
    rows = pd.read_csv(io.StringIO(world.files["val.csv"]))
    hard = rows.iloc[[int(line) for line in world.files["atp-hard-ct4.txt"].split()]]
    numbers = _printed(NEXTQA_SCORES, repositories, hard, predictions, _NO_ZERO)
    return Scores(
        "".join(map(str, right)), {name: numbers[name] for name in numbers if name not in _DESCRIPTIVE}
    )


def _read(repositories: Path, world: data.World) -> tuple[list[int], dict[str, dict[str, Any]]]:
    """Whether lmms-eval finds each reply right, and what the authors' scripts are given: both by index."""
    names = ("OPTIONS", "nextqa_mc_process_results", "parse_multi_choice_response", "get_multi_choice_info")
    script = NEXTQA.names(repositories, *names, random=NO_DRAW)
    right, predictions = [], {}
    for key, own in zip(world.ids, world.asked, strict=True):
        doc = {"answer": "ABCDE".index(own.gold), **{f"a{i}": own.choices[i] for i in range(5)}}
        right.append(int(script.nextqa_mc_process_results(doc, [own.reply])["exact_match"]))
        texts, letters = script.get_multi_choice_info(doc)
        read = script.parse_multi_choice_response(own.reply, letters, texts)
        predictions[key] = {"answer": doc["answer"], "prediction": "ABCDE".index(read) if read else -1}
    return right, predictions


def _printed(
    script: Script,
    repositories: Path,
    rows: pd.DataFrame,
    predictions: Mapping[str, Any],
    changes: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, str]:
    """The accuracies that `accuracy_metric` prints."""
    load = {"rows": rows, "results": predictions}.__getitem__
    found = script.names(repositories, "map_name", "accuracy_metric", changes=changes, load_file=load)
    heads, shares, overall = printed_by(found.accuracy_metric, "rows", "results").splitlines()
    numbers = dict(zip(heads.split(), shares.split(), strict=True))
    return {**numbers, "Acc": overall.removeprefix("Acc: ")}


# ---- MVBench ----------------------------------------------------------------------------------------------

MVBENCH = Script("OpenGVLab/Ask-Anything", "video_chat2/mvbench.ipynb", "71ac7a2")


def mvbench(repositories: Path, scratch: Path) -> Scores:
    """The notebook from its loop over the questions on, with its questions, its treatment of a reply and its
    scores, in percent."""
    world = data.mvbench()
    current: dict[str, Any] = {}
    names = ("data_list", "MVBench_dataset", "infer_mvbench", "check_ans")
    script = MVBENCH.names(
        repositories, *names,
        Dataset=object, EasyDict=lambda given: SimpleNamespace(**given),
        torch=SimpleNamespace(no_grad=contextlib.nullcontext),
        model=SimpleNamespace(encode_img=lambda video, text: (None, None)), ask=lambda text, conv: None,
        answer=lambda **given: (current["reply"], None),
    )  # fmt: skip
    titles = {Path(entry[0]).stem: title for title, entry in script.data_list.items()}
    by_id = dict(zip(world.ids, world.asked, strict=True))
    order: list[str] = []

    def examples() -> Any:
        for file, records in world.files.items():
            for number, record in enumerate(records, start=1):
                task = Path(file).stem
                order.append(f"{task}/{number}")
                current["reply"] = by_id[order[-1]].reply
                question, answer = script.MVBench_dataset.qa_template(None, record)
                video = SimpleNamespace(shape=(3, 1, 1), reshape=lambda *shape: SimpleNamespace(to=str))
                yield {"video": video, "question": question, "answer": answer, "task_type": titles[task]}

    source = MVBENCH.source(repositories)
    loop = source[source.index("save_path = ") :]
    space = {**vars(script), "tqdm": iter, "dataset": examples(), "json": json}
    with contextlib.chdir(scratch):
        printed_by(exec, compile(loop, MVBENCH.file, "exec"), space)
    right = {
        key: script.check_ans(pred=result["pred"], gt=result["gt"])
        for key, result in zip(order, space["res_list"], strict=True)
    }
    tasks = {title: task for task, title in titles.items()}
    numbers = {tasks.get(title, title): round(share, 10) for title, share in space["final_res"].items()}
    return Scores("".join(str(int(right[key])) for key in world.ids), numbers)


# ---- TempCompass ------------------------------------------------------------------------------------------

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
    world = data.tempcompass(task)
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
    with contextlib.chdir(scratch):
        printed = printed_by(script.main, asked, rated, "rated.json", True)
    numbers = ast.literal_eval(printed.splitlines()[1])
    right = {
        f"{video}/{aspect}/{number}": record["rating"]
        for video, aspects in rated.items()
        for aspect, records in aspects.items()
        for number, record in enumerate(records, start=1)
    }
    return Scores("".join(str(right[key]) for key in world.ids), numbers)


# ---- Video-MME-v2 -----------------------------------------------------------------------------------------

VIDEOMME_V2 = Script("MME-Benchmarks/Video-MME-v2", "evaluation/test_video_mme_v2.py", "013b6c9")
VIDEOMME_V2_SCORES = Script(LMMS_EVAL, "lmms_eval/tasks/videomme_v2/utils.py", "394a8e4b")
_RATED = ("total", "relevance_score", "logic_score", "level_1", "level_2", "level_3")


def videomme_v2(repositories: Path, scratch: Path) -> Scores:
    """lmms-eval's reader and scores, in percent. The accuracies of both kinds of sets are left out."""
    world = data.videomme_v2()
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
    world = data.videomme_v2()
    names = ("extract_characters_regex_v2", "cal_relevance", "cal_logic", "get_final_rating", "evaluate")
    numbers: dict[str, float] = {}
    for ending, unread in (("", "-1"), (", unread 0", "0")):
        script = VIDEOMME_V2.names(
            repositories, *names,
            changes={"if extracted else -1": f"if extracted else {unread}"}, ast=ast,
        )  # fmt: skip
        table = pd.DataFrame(world.files["test.parquet"])
        table["prediction"] = [own.reply for own in world.asked]
        printed_by(script.evaluate, table, str(scratch / "run.tsv"))
        rating: dict[str, Any] = json.loads((scratch / "run_rating.json").read_text())["final_rating"]
        numbers |= {f"{name}{ending}": round(rating[name], 10) for name in _RATED}
    read = [script.extract_characters_regex_v2(own.reply) for own in world.asked]
    return Scores(verdicts(read, [own.gold for own in world.asked]), numbers)


# ---- Charades-STA -----------------------------------------------------------------------------------------

CHARADES_STA = Script(LMMS_EVAL, "lmms_eval/tasks/charades_sta/utils.py", "26f1d8e3")


def charades_sta(repositories: Path, scratch: Path) -> Scores:
    """The interval that it reads in each reply, and its scores, in percent."""
    world, replies = data.charades_sta()
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
