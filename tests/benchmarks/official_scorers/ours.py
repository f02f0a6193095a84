"""Our scores of the 1,000 replies: the benchmark is loaded from files in its own format, every reply becomes
a trace, and the summary is that of a run."""

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from tests.benchmarks.official_scorers import data
from tests.support.benchmark_world import traces_of
from videopro.benchmarks import BENCHMARKS, JudgeGrade, Protocol, load, written_iou
from videopro.runs import combine_cg_bench, grade_of, read_official, summarize
from videopro.traces import Trace
from videopro.traces.scoring import score_trace


@dataclass(frozen=True)
class Scores:
    """What a scorer makes of the replies."""

    verdicts: Any
    """For each reply 1 (right), 0 (wrong) or - (not counted); the IoU of the intervals that it names or None
    (CG-Bench); the interval that is read in it or None (Charades-STA); its grade (MMBench-Video)."""
    numbers: Mapping[str, Any]


Form = Callable[[float], Any]
"""How official code writes a share."""
Names = Mapping[str, str]
"""Of each official number, where ours is: see `numbers_of`."""


def text(digits: int) -> Form:
    """In percent, as the official code prints it."""
    return lambda share: f"{100 * share:.{digits}f}"


def percent(share: float, digits: int = 10) -> float:
    """In percent, as a number."""
    return round(100 * share, digits)


def share(value: float) -> float:
    """As it is."""
    return value


def numbers_of(summary: Mapping[str, Any]) -> dict[str, Any]:
    """The official numbers of a summary: the accuracy (of no name), the metrics by name, and the accuracy of
    each group by KIND and NAME."""
    metrics = {name: value["official"] for name, value in summary["metrics"].items()}
    groups = {
        f"{kind} {name}": row["official_accuracy"]
        for kind, rows in summary["groups"].items()
        for name, row in rows.items()
    }
    return {"": summary["official_accuracy"], **metrics, **groups}


def each(kind: str, names: Iterable[str]) -> Names:
    """Groups that have the same names in official code."""
    return {name: f"{kind} {name}" for name in names}


def run_of(
    name: str,
    files: Mapping[str, Any],
    replies: Mapping[str, str | None],
    protocol: str = "",
    split: str = "",
) -> tuple[Protocol, list[Trace]]:
    """The protocol and the traces of a run over annotation files, in the order of the replies. None: it has
    none."""
    with tempfile.TemporaryDirectory() as folder:
        data.World((), files, ()).write(Path(folder))
        benchmark = load(name, split=split, root=Path(folder), protocol=protocol)
        by_id = {trace.question_id: trace for trace in traces_of(benchmark, replies, needs_videos=False)}
    return benchmark.protocol, [by_id[key] for key in replies]


def verdicts(protocol: Protocol, traces: Sequence[Trace]) -> str:
    """One character for each reply."""
    unread = "-" if protocol.official_unparsed == "left out" else "0"
    scores = [score_trace(trace).official_correct for trace in traces]
    return "".join(unread if right is None else str(int(right)) for right in scores)


@cache
def found(
    name: str, world: Callable[[], data.World], protocol: str, split: str
) -> tuple[str, Mapping[str, Any]]:
    """The verdicts and the numbers of a benchmark with options."""
    made = world()
    replies = {key: own.reply for key, own in zip(made.ids, made.asked, strict=True)}
    chosen, traces = run_of(name, made.files, replies, protocol, split)
    return verdicts(chosen, traces), numbers_of(summarize(traces, chosen, {}))


def scored(
    name: str,
    world: Callable[[], data.World],
    *parts: tuple[Form, Names],
    protocol: str = "",
    split: str = "",
) -> Scores:
    """The scores of a benchmark with options."""
    read, numbers = found(name, world, protocol, split)
    return Scores(
        read, {theirs: form(numbers[own]) for form, names in parts for theirs, own in names.items()}
    )


_LVB = dict(zip(map(str, data.LVB_GROUPS), ("(8, 15]", "(15, 60]", "(180, 600]", "(900, 3600]"), strict=True))
_LVBENCH = dict(zip(data.LVBENCH_TYPES, ("KIR", "EU", "Rea", "TG"), strict=True))
_NEXTQA = dict(zip(("Why", "How", "Bef&Aft", "When", "Cnt", "Loc", "Other"), data.NEXTQA_TYPES, strict=True))
_HARD = {name: kind for name, kind in _NEXTQA.items() if kind[0] in "CT"}
_BY_TYPE = {"Acc_C": "Acc@C", "Acc_T": "Acc@T", "Acc": "Acc@All"}
_V2 = {
    "total": "score",
    "relevance_score": "consistency score",
    "logic_score": "coherence score",
    **{f"level_{level}": f"level {level} score" for level in (1, 2, 3)},
}
_V2_LMMS_EVAL = {
    "overall_score": "score",
    "relevance_score": _V2["relevance_score"],
    "logic_score": _V2["logic_score"],
    **{f"level_{level}_score": f"level {level} score" for level in (1, 2, 3)},
    **{f"level_{level}_acc": f"level {level} accuracy" for level in (1, 2, 3)},
    "overall_acc": "",
}
DIMENSIONS = tuple(
    metric.name for metric in BENCHMARKS["mmbench_video"].protocols[0].metrics if metric.over == "dimension"
)


def cg_bench() -> Scores:
    """Accuracies, mean IoU and both metrics of thresholds as shares; CRR with four digits.

    The intervals have replies of their own. CRR needs a run on the clue: see `data.cg_bench_runs`.
    """
    world, clue_replies, intervals, judgements, answers = data.cg_bench_runs()
    replies = {key: own.reply for key, own in zip(world.ids, world.asked, strict=True)}
    run = partial(run_of, "cg_bench", world.files, split="mini")
    chosen, long = run(replies, protocol="long")
    _, clue = run(clue_replies, protocol="clue")
    _, miou = run(intervals, protocol="miou")
    rows = combine_cg_bench(long, clue, miou)
    judged, open_traces = run(answers, protocol="open")
    assert judged.judge is not None
    grades = {
        key: grade_of({"raw": raw, "look": look}, judged.judge) for key, (raw, look) in judgements.items()
    }
    answered = summarize(open_traces, judged, {}, grades)["metrics"]["open accuracy"]
    numbers: dict[str, Any] = {name: rows["all"][name] for name in ("long_acc", "clue_acc")}
    numbers |= {name.lower(): rows["all"][name] for name in ("rec@IoU", "acc@IoU")}
    numbers |= {"miou": round(rows["all"]["mIoU"] or 0.0, 10), "open": answered["official"]}
    for label, row in rows.items():
        for name in ("long_acc", "CRR"):
            value = row[name]
            assert value is not None
            numbers[f"{name}, {label}"] = round(value, 4)
    ious = [None if (iou := written_iou(trace)) is None else round(iou, 10) for trace in miou]
    return Scores([verdicts(chosen, long), ious], numbers)


def mmbench_video() -> Scores:
    """Means with two digits, as VLMEvalKit writes them: of all questions, and of those with a grade."""
    table, replies = data.mmbench_video(DIMENSIONS)
    ids = [str(number) for number in range(len(replies))]
    answers = {key: None if reply is None else "Snow" for key, reply in zip(ids, replies, strict=True)}
    protocol, traces = run_of("mmbench_video", {"MMBench-Video.tsv": table}, answers)
    grades = {
        key: JudgeGrade(None, read_official(reply))
        for key, reply in zip(ids, replies, strict=True)
        if reply is not None
    }
    numbers = {}
    for name, value in summarize(traces, protocol, {}, grades)["metrics"].items():
        numbers[name] = f"{value['official']:.2f}"
        numbers[f"{name}, valid"] = f"{value['official_valid']:.2f}"
    read = [-1 if reply is None or (own := read_official(reply)) is None else own for reply in replies]
    return Scores(read, numbers)


def charades_sta() -> Scores:
    """In percent: the shares of questions at three IoUs, and the mean IoU. The verdicts are the intervals."""
    world, replies = data.charades_sta()
    protocol, traces = run_of("charades_sta", world.files, replies)
    own = numbers_of(summarize(traces, protocol, {}))
    names = {"IOU@3": "R@0.3", "IOU@5": "R@0.5", "IOU@7": "R@0.7", "mIOU": "mIoU"}
    return Scores(
        [list(trace.official_intervals[0]) if trace.official_intervals else None for trace in traces],
        {theirs: percent(own[name]) for theirs, name in names.items()},
    )


OURS: Mapping[str, Callable[[], Scores]] = {
    "videomme": partial(
        scored,
        *("videomme", data.videomme, (text(1), {"Overall": ""})),
        (text(1), {length: length.capitalize() for length in data.MME_LENGTHS}),
        (text(1), {**each("domain", data.MME_DOMAINS), **each("task", data.MME_TASKS)}),
    ),
    "longvideobench": partial(
        scored,
        *("longvideobench", data.longvideobench),
        # As lmms-eval logs them.
        (
            partial(round, ndigits=5),
            {
                **{seconds: f"duration {name}" for seconds, name in _LVB.items()},
                **each("category", data.LVB_CATEGORIES),
                "Overall": "",
            },
        ),
        protocol="no_subtitles",
    ),
    "lvbench": partial(
        scored,
        *("lvbench", data.lvbench, (share, {"acc": ""})),
        (share, {name: f"ability {short}" for name, short in _LVBENCH.items()}),
    ),
    "mlvu": partial(scored, "mlvu", data.mlvu, (percent, {**each("task", data.MLVU_TASKS), "Avg": "M-Avg"})),
    "cg_bench": cg_bench,
    "nextqa": partial(
        scored,
        *("nextqa", data.nextqa, (share, {"exact_match": ""})),
        (text(2), {name: f"type {kind}" for name, kind in _NEXTQA.items()}),
        (text(2), {**_BY_TYPE, "Acc_D": "Acc@D"}),
    ),
    "egoschema": partial(scored, "egoschema", data.egoschema, (share, {"score": ""})),
    # By lmms-eval's rule of June 2024.
    "egoschema_exact": partial(scored, "egoschema", data.egoschema, (share, {"score": ""}), protocol="exact"),
    "mmbench_video": mmbench_video,
    "videomme_v2": partial(scored, "videomme_v2", data.videomme_v2, (percent, _V2_LMMS_EVAL)),
    "videomme_v2_authors": partial(
        scored,
        *("videomme_v2", data.videomme_v2, (percent, _V2)),
        (percent, {f"{name}, unread 0": own for name, own in _V2.items()}),
    ),
    "mvbench": partial(
        scored,
        *("mvbench", data.mvbench),
        (percent, {**each("task", data.MVBENCH_TASKS), "Avg": "Avg"}),
    ),
    **{
        f"tempcompass_{task}": partial(
            scored,
            *("tempcompass", partial(data.tempcompass, task)),
            (partial(percent, digits=1), {name: name for name in (*data.ASPECTS, "avg")}),
            split=task,
        )
        for task in ("multi-choice", "yes_no", "caption_matching")
    },
    "intentqa": partial(
        scored,
        *("intentqa", data.intentqa),
        (text(2), {"Why": "CW", "How": "CH", "Bef&Aft": "TP&TN", "Acc": "Total"}),
    ),
    "nextqa_atp_hard": partial(
        scored,
        *("nextqa_atp_hard", data.nextqa_atp_hard, (text(2), _BY_TYPE)),
        (text(2), {name: f"type {kind}" for name, kind in _HARD.items()}),
    ),
    "charades_sta": charades_sta,
}
"""Our scores for each case of `official_scores.py`."""
