"""Our scores of the 1,000 replies: the benchmark is loaded from files in its own format, every reply becomes
a trace, and the summary is that of a run."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks.official_scorers import data
from videopro.benchmarks import Benchmark, JudgeGrade, Protocol, load, written_iou
from videopro.methods import make_trace
from videopro.question import Answer, extract_letter
from videopro.runs import combine_cg_bench, grade_of, read_official, summarize
from videopro.traces import Execution, Failure, Result, Round, Trace, VideoRef
from videopro.traces.scoring import score_trace


@dataclass(frozen=True)
class Scores:
    """What a scorer makes of the replies."""

    verdicts: Any
    """For each reply 1 (right), 0 (wrong) or - (not counted); the IoU of the intervals that it names or None
    (CG-Bench); the interval that is read in it or None (Charades-STA); its grade (MMBench-Video)."""
    numbers: Mapping[str, Any]


def traces_of(benchmark: Benchmark, replies: Mapping[str, str | None]) -> list[Trace]:
    """The traces of a run whose model replies so; None: it failed."""
    traces = []
    for item in benchmark.items:
        reply = replies[item.id]
        if reply is None:
            result = Result(error=Failure("BackboneError", "no reply"))
        else:
            letter = None if item.question.is_open else extract_letter(reply, item.question)
            answer = Answer(letter, 0.5 if letter else 0.0, {}, reply)
            execution = Execution("ok" if letter else "empty", answer)
            rounds = (Round("native", reply, execution=execution, mode="native"),)
            result = Result(rounds, answer, answer, selected=0)
        video = VideoRef(str(item.video), item.video_key)
        traces.append(
            make_trace(item, result, video, run_key="", protocol=benchmark.protocol, parser=benchmark.parser)
        )
    return traces


def loaded(name: str, world: data.World, protocol: str = "", split: str = "") -> tuple[Protocol, list[Trace]]:
    """The protocol and the traces of a world."""
    replies = {key: own.reply for key, own in zip(world.ids, world.asked, strict=True)}
    return run_of(name, world.files, replies, protocol, split)


def run_of(
    name: str, files: Mapping[str, Any], replies: Mapping[str, str | None], protocol: str, split: str
) -> tuple[Protocol, list[Trace]]:
    """The protocol and the traces of a run over annotation files, in the order of the replies."""
    with tempfile.TemporaryDirectory() as folder:
        data.World((), files, ()).write(Path(folder))
        benchmark = load(name, split=split, root=Path(folder), protocol=protocol)
        by_id = {trace.question_id: trace for trace in traces_of(benchmark, replies)}
    return benchmark.protocol, [by_id[key] for key in replies]


def verdicts(protocol: Protocol, traces: Sequence[Trace]) -> str:
    """One character for each reply."""
    unread = "-" if protocol.official_unparsed == "left out" else "0"
    scores = [score_trace(trace).official_correct for trace in traces]
    return "".join(unread if right is None else str(int(right)) for right in scores)


def scored(name: str, world: data.World, protocol: str = "", split: str = "") -> tuple[str, dict[str, Any]]:
    """The verdicts and the summary of a run."""
    chosen, traces = loaded(name, world, protocol, split)
    return verdicts(chosen, traces), summarize(traces, chosen, {})


def group_accuracies(summary: Mapping[str, Any], kind: str) -> dict[str, float]:
    """The accuracies of the groups of a kind."""
    return {name: row["official_accuracy"] for name, row in summary["groups"][kind].items()}


def metrics(summary: Mapping[str, Any]) -> dict[str, float]:
    """The protocol's metrics."""
    return {name: value["official"] for name, value in summary["metrics"].items()}


def videomme() -> Scores:
    """In percent with one digit, as the script prints them."""
    found, summary = scored("videomme", data.videomme())
    parts = {"Overall": summary["official_accuracy"]}
    parts |= {length: metrics(summary)[length.capitalize()] for length in data.MME_LENGTHS}
    parts |= group_accuracies(summary, "domain") | group_accuracies(summary, "task")
    return Scores(found, {name: f"{100 * share:.1f}" for name, share in parts.items()})


def longvideobench() -> Scores:
    """Shares with five digits, as lmms-eval logs them."""
    found, summary = scored("longvideobench", data.longvideobench(), "no_subtitles")
    groups = group_accuracies(summary, "duration")
    names = ("(8, 15]", "(15, 60]", "(180, 600]", "(900, 3600]")
    parts = {str(seconds): groups[name] for seconds, name in zip(data.LVB_GROUPS, names, strict=True)}
    parts |= group_accuracies(summary, "category") | {"Overall": summary["official_accuracy"]}
    return Scores(found, {name: round(share, 5) for name, share in parts.items()})


def lvbench() -> Scores:
    """Shares."""
    found, summary = scored("lvbench", data.lvbench())
    groups = group_accuracies(summary, "ability")
    short = dict(zip(data.LVBENCH_TYPES, ("KIR", "EU", "Rea", "TG"), strict=True))
    parts = {name: groups[short[name]] for name in data.LVBENCH_TYPES}
    return Scores(found, {**parts, "acc": summary["official_accuracy"]})


def mlvu() -> Scores:
    """In percent, tasks and their mean."""
    found, summary = scored("mlvu", data.mlvu())
    parts = {**group_accuracies(summary, "task"), "Avg": metrics(summary)["M-Avg"]}
    return Scores(found, {name: round(100 * share, 10) for name, share in parts.items()})


def nextqa() -> Scores:
    """In percent with two digits, by type and over all; and the share over all questions."""
    found, summary = scored("nextqa", data.nextqa())
    names = ("Why", "How", "Bef&Aft", "When", "Cnt", "Loc", "Other")
    types = group_accuracies(summary, "type")
    parts = {name: types[kind] for name, kind in zip(names, data.NEXTQA_TYPES, strict=True)}
    parts |= {f"Acc_{kind}": metrics(summary)[f"Acc@{kind}"] for kind in "CTD"}
    parts["Acc"] = metrics(summary)["Acc@All"]
    numbers: dict[str, Any] = {name: f"{100 * share:.2f}" for name, share in parts.items()}
    return Scores(found, {**numbers, "exact_match": summary["official_accuracy"]})


def egoschema() -> Scores:
    """The share."""
    found, summary = scored("egoschema", data.egoschema())
    return Scores(found, {"score": summary["official_accuracy"]})


def egoschema_exact() -> Scores:
    """The share, by lmms-eval's rule of June 2024."""
    found, summary = scored("egoschema", data.egoschema(), "exact")
    return Scores(found, {"score": summary["official_accuracy"]})


def cg_bench() -> Scores:
    """Accuracies, mean IoU and both metrics of thresholds as shares; CRR with four digits.

    The intervals have replies of their own. CRR needs a run on the clue: see `data.clue_replies`.
    """
    world = data.cg_bench()
    chosen, long = loaded("cg_bench", world, "long", "mini")
    _, clue = run_of("cg_bench", world.files, data.clue_replies(world), "clue", "mini")
    _, miou = run_of("cg_bench", world.files, data.interval_replies_of(world), "miou", "mini")
    rows = combine_cg_bench(long, clue, miou)
    judged, open_traces = run_of("cg_bench", world.files, data.open_replies(world), "open", "mini")
    assert judged.judge is not None
    grades = {
        key: grade_of({"raw": raw, "look": look}, judged.judge)
        for key, (raw, look) in data.judge_replies_of(world).items()
    }
    answered = summarize(open_traces, judged, {}, grades)["metrics"]["open accuracy"]
    ious = [written_iou(trace) for trace in miou]
    numbers: dict[str, Any] = {
        "long_acc": rows["all"]["long_acc"],
        "clue_acc": rows["all"]["clue_acc"],
        "miou": round(rows["all"]["mIoU"] or 0.0, 10),
        "rec@iou": rows["all"]["rec@IoU"],
        "acc@iou": rows["all"]["acc@IoU"],
        "open": answered["official"],
    }
    for label, row in rows.items():
        for name in ("long_acc", "CRR"):
            value = row[name]
            assert value is not None
            numbers[f"{name}, {label}"] = round(value, 4)
    return Scores([verdicts(chosen, long), [_rounded(iou) for iou in ious]], numbers)


def _rounded(iou: float | None) -> float | None:
    return None if iou is None else round(iou, 10)


def mmbench_video(dimensions: Sequence[str]) -> Scores:
    """Means with two digits, as VLMEvalKit writes them: of all questions, and of those with a grade."""
    table, replies = data.mmbench_video(dimensions)
    ids = [str(number) for number in range(len(replies))]
    answers = {key: None if reply is None else "Snow" for key, reply in zip(ids, replies, strict=True)}
    protocol, traces = run_of("mmbench_video", {"MMBench-Video.tsv": table}, answers, "", "")
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
