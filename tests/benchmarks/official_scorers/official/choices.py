"""Benchmarks with options: Video-MME, LongVideoBench, LVBench, MLVU and EgoSchema."""

import contextlib
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.benchmarks.official_scorers import data
from tests.benchmarks.official_scorers.official.script import LMMS_EVAL, NO_DRAW, Script, printed_by, verdicts
from tests.benchmarks.official_scorers.ours import Scores

VIDEOMME = Script("thanku-all/parse_answer", "eval_your_results.py", "afd52cf")


def videomme(repositories: Path, scratch: Path) -> Scores:
    """The whole script; it prints percentages."""
    world = data.videomme()
    world.write(scratch)
    space: dict[str, Any] = {"__name__": "script"}
    exec(compile(VIDEOMME.source(repositories), VIDEOMME.file, "exec"), space)
    evaluate = partial(space["eval_your_results"], skip_missing=True, return_task_types_accuracy=True)
    lengths = ",".join(data.MME_LENGTHS)
    printed = printed_by(partial(evaluate, str(scratch / "Video-MME.json"), video_types=lengths))
    whole = printed.split("Evaluation on the entire dataset")
    lines = dict(re.findall(r"^(.+?):\s+([\d.]+)%$", whole[1], re.MULTILINE))
    numbers = {"Overall": lines["Overall"]}
    for part in whole[0].split("Evaluation on video Type: ")[1:]:
        numbers[part.split("\n")[0]] = re.findall(r"^Overall:\s+([\d.]+)%$", part, re.MULTILINE)[0]
    numbers |= {name: lines[name] for name in (*data.MME_DOMAINS, *data.MME_TASKS)}
    read = [space["extract_characters_regex"](own.reply) or None for own in world.asked]
    return Scores(verdicts(read, [own.gold for own in world.asked]), numbers)


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
        random=NO_DRAW, defaultdict=defaultdict, eval_logger=SimpleNamespace(info=logged.append),
    )  # fmt: skip
    docs = world.files["lvb_val.json"]
    results = [
        script.longvideobench_process_results(doc, [own.reply])["lvb_acc"]
        for doc, own in zip(docs, world.asked, strict=True)
    ]
    script.longvideobench_aggregate_results(results)
    numbers = {str(name): row["acc"] for name, row in logged[-1].items()}
    read = [result["parsed_pred"] for result in results]
    return Scores(verdicts(read, [own.gold for own in world.asked]), numbers)


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
    return Scores(verdicts(read, [own.gold for own in world.asked]), dict(numbers))


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
    printed_by(exec, compile(source, MLVU.file, "exec"), space)
    printed_by(space["main"])
    numbers = {
        name: round(value, 10) for name, value in json.loads((scratch / "result.json").read_text()).items()
    }
    right = {}
    for result in json.loads((scratch / "all.json").read_text())["res_list"]:
        asked = result["question"].split("\n")[0].removeprefix("Question: ")
        right[asked] = space["check_ans"](pred=result["pred"], gt=result["gt"])
    return Scores("".join(str(int(right[own.text])) for own in world.asked), numbers)


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
    found = script.names(repositories, *names, random=NO_DRAW)
    results = []
    for own in world.asked:
        options = [f"{letter}. {text}" for letter, text in zip("ABCDE", own.choices, strict=True)]
        doc = {"video_idx": str(own.number), "option": options, "answer": str("ABCDE".index(own.gold))}
        results.append(found.egoschema_process_results_generation(doc, [own.reply])["score"])
    read = ["ABCDE"[result["pred"]] if result["pred"] >= 0 else "" for result in results]
    share = found.egoschema_aggregate_score(results, None)
    return Scores(verdicts(read, [own.gold for own in world.asked]), {"score": share})
