"""Our scores of the replies to the benchmarks in videopro/benchmarks/contributed, as in `ours`."""

from __future__ import annotations

from tests.benchmarks.official_scorers import data_contributed as data
from tests.benchmarks.official_scorers.ours import Scores, group_accuracies, metrics, run_of, scored
from videopro.runs import summarize

LEVELS = (1, 2, 3)


def videomme_v2() -> Scores:
    """In percent: the scores of the sets, and the accuracies."""
    found, summary = scored("videomme_v2", data.videomme_v2())
    own = metrics(summary)
    parts = {
        "overall_score": own["score"],
        "relevance_score": own["consistency score"],
        "logic_score": own["coherence score"],
        **{f"level_{level}_score": own[f"level {level} score"] for level in LEVELS},
        "overall_acc": summary["official_accuracy"],
        **{f"level_{level}_acc": own[f"level {level} accuracy"] for level in LEVELS},
    }
    return Scores(found, {name: round(100 * share, 10) for name, share in parts.items()})


def videomme_v2_authors() -> Scores:
    """The same scores of the sets by the names of the authors' script, twice."""
    found = videomme_v2()
    names = {
        "total": "overall_score",
        "relevance_score": "relevance_score",
        "logic_score": "logic_score",
        **{f"level_{level}": f"level_{level}_score" for level in LEVELS},
    }
    numbers = {
        f"{theirs}{ending}": found.numbers[own]
        for ending in ("", ", unread 0")
        for theirs, own in names.items()
    }
    return Scores(found.verdicts, numbers)


def mvbench() -> Scores:
    """In percent, tasks and their mean."""
    found, summary = scored("mvbench", data.mvbench())
    parts = {**group_accuracies(summary, "task"), "Avg": metrics(summary)["Avg"]}
    return Scores(found, {name: round(100 * share, 10) for name, share in parts.items()})


def tempcompass(task: str) -> Scores:
    """In percent with one digit: aspects, and all questions."""
    found, summary = scored("tempcompass", data.tempcompass(task), split=task)
    return Scores(found, {name: round(100 * share, 1) for name, share in metrics(summary).items()})


def intentqa() -> Scores:
    """In percent with two digits, by type and over all."""
    found, summary = scored("intentqa", data.intentqa())
    own = metrics(summary)
    names = {"CW": "Why", "CH": "How", "TP&TN": "Bef&Aft", "Total": "Acc"}
    return Scores(found, {theirs: f"{100 * own[name]:.2f}" for name, theirs in names.items()})


def nextqa_atp_hard() -> Scores:
    """In percent with two digits, by type and over all."""
    found, summary = scored("nextqa_atp_hard", data.nextqa_atp_hard())
    types, own = group_accuracies(summary, "type"), metrics(summary)
    parts = {
        **{
            theirs: types[name]
            for name, theirs in zip(("CW", "CH", "TN", "TC"), ("Why", "How", "Bef&Aft", "When"), strict=True)
        },
        "Acc_C": own["Acc@C"],
        "Acc_T": own["Acc@T"],
        "Acc": own["Acc@All"],
    }
    return Scores(found, {name: f"{100 * share:.2f}" for name, share in parts.items()})


def charades_sta() -> Scores:
    """In percent: the shares of questions at three IoUs, and the mean IoU. The verdicts are the intervals."""
    world, replies = data.charades_sta()
    protocol, traces = run_of("charades_sta", world.files, replies, "", "")
    own = metrics(summarize(traces, protocol, {}))
    names = {"R@0.3": "IOU@3", "R@0.5": "IOU@5", "R@0.7": "IOU@7", "mIoU": "mIOU"}
    return Scores(
        [list(trace.official_intervals[0]) if trace.official_intervals else None for trace in traces],
        {theirs: round(100 * own[name], 10) for name, theirs in names.items()},
    )
