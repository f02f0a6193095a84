"""NExT-QA, IntentQA and ATP-hard, whose authors publish no reader: the replies are read by lmms-eval's."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pandas as pd

from tests.benchmarks.official_scorers import data, data_contributed
from tests.benchmarks.official_scorers.official.script import LMMS_EVAL, NO_DRAW, Script
from tests.benchmarks.official_scorers.ours import Scores

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
    world = data_contributed.intentqa()
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
    world = data_contributed.nextqa_atp_hard()
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
    files = {"rows": rows, "results": predictions}
    found = script.names(
        repositories, "map_name", "accuracy_metric", changes=changes, load_file=files.__getitem__
    )
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        found.accuracy_metric("rows", "results")
    heads, shares, overall = printed.getvalue().splitlines()
    numbers = dict(zip(heads.split(), shares.split(), strict=True))
    return {**numbers, "Acc": overall.removeprefix("Acc: ")}
