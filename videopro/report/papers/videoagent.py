"""VideoAgent: its Tables 1 to 8 and Fig. 3 (ECCV 2024)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING, Any

from videopro.report.papers.building import build_table, own_runs
from videopro.report.papers.spec import (
    ACCURACY,
    EACH,
    FRAMES,
    OWN,
    QUESTIONS,
    AnyOf,
    Measure,
    Paper,
    PaperRow,
    PaperTable,
    in_group,
    metric,
)
from videopro.report.runs import ReportRun, by_dataset
from videopro.report.section import FigureSpec, Section
from videopro.report.table import BENCHMARK, Cell, Number, Table
from videopro.scoring import GROUP_SEPARATOR, Accuracy, accuracy, is_answerable, mean_frames_seen

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ABLATED = {
    "first_frames": 5,
    "max_rounds": 3,
    "segment_selection": True,
    "self_evaluation": True,
    "selection": "retrieval",
}
NEXTQA_TYPES = {"C": "causal", "T": "temporal", "D": "descriptive"}
_BY_TYPE = tuple(Measure(name, metric(name)) for name in ("Acc@C", "Acc@T", "Acc@D"))
_HARD = {"C": ("CW", "CH"), "T": ("TN", "TC"), "all": ("CW", "CH", "TN", "TC")}
_ATP_HARD = tuple(Measure(f"ATP-hard {name}", in_group("atp_hard", *of)) for name, of in _HARD.items())


def _uniform(frames: int) -> Mapping[str, Any]:
    """Uniform frames and no search: a single round, whose self-evaluation changes no answer."""
    return {"first_frames": frames, "max_rounds": 1, "self_evaluation": AnyOf((False, True))}


PAPER = Paper("videoagent", "VideoAgent", _ABLATED)
TABLES = (
    PaperTable(
        PAPER, 1, "VideoAgent and public models on EgoSchema", ("frames", "subset", "full"),
        (
            PaperRow("FrozenBiLM", (90, None, 26.9)),
            PaperRow("InternVideo", (90, None, 32.1)),
            PaperRow("ImageViT", (16, 40.8, 30.9)),
            PaperRow("ShortViViT", (32, 49.6, 31.3)),
            PaperRow("LongViViT", (256, 56.8, 33.3)),
            PaperRow("SeViLA", (32, 25.7, 22.7)),
            PaperRow("Vamos", (None, None, 48.3)),
            PaperRow("LLoVi", (180, 57.6, 50.3)),
            PaperRow("MC-ViT-L", ("128+", 62.6, 44.4)),
            PaperRow("VideoAgent", (8.4, 60.2, 54.1), OWN),
        ),
        EACH, others=True,
    ),
    PaperTable(
        PAPER, 2, "VideoAgent and proprietary models on EgoSchema", ("subset", "full"),
        (
            PaperRow("chance", (20.0, 20.0)),
            PaperRow("Bard (blind)", (27.0, 33.2)),
            PaperRow("Bard + ImageViT", (35.0, 35.0)),
            PaperRow("Bard + ShortViViT", (42.0, 36.2)),
            PaperRow("Bard + PALI", (44.8, 39.2)),
            PaperRow("GPT-4 Turbo (blind)", (31.0, 30.8)),
            PaperRow("GPT-4V", (63.5, 55.6)),
            PaperRow("Gemini 1.0 Pro", (None, 55.7)),
            PaperRow("VideoAgent", (60.2, 54.1), OWN),
        ),
        EACH, others=True,
    ),
    PaperTable(
        PAPER, 3, "VideoAgent on NExT-QA",
        ("C", "T", "D", "all", "ATP-hard C", "ATP-hard T", "ATP-hard all"),
        (
            PaperRow("VFC (supervised)", (49.6, 51.5, 63.2, 52.3)),
            PaperRow("ATP (supervised)", (53.1, 50.2, 66.8, 54.3, 38.4, 36.5, 38.8)),
            PaperRow("MIST (supervised)", (54.6, 56.6, 66.9, 57.2)),
            PaperRow("GF (supervised)", (56.9, 57.1, 70.5, 58.8, 48.7, 50.3, 49.3)),
            PaperRow("CoVGT (supervised)", (59.7, 58.0, 69.9, 60.7)),
            PaperRow("SeViT (supervised)", (54.0, 54.1, 71.3, 56.7, 43.3, 46.5)),
            PaperRow("HiTeA (supervised)", (62.4, 58.3, 75.6, 63.1, 47.8, 48.6)),
            PaperRow("VFC (zero-shot)", (51.6, 45.4, 64.1, 51.5, 32.2, 30.0, 31.4)),
            PaperRow("InternVideo", (43.4, 48.0, 65.1, 49.1)),
            PaperRow("AssistGPT", (60.0, 51.4, 67.3, 58.4)),
            PaperRow("ViperGPT", (None, None, None, 60.0)),
            PaperRow("SeViLA (zero-shot)", (61.3, 61.5, 75.6, 63.6)),
            PaperRow("LLoVi", (69.5, 61.0, 75.6, 67.7)),
            PaperRow("VideoAgent", (72.7, 64.5, 81.1, 71.3, 57.8, 58.8, 58.4), OWN),
        ),
        (FRAMES, QUESTIONS, *_BY_TYPE, ACCURACY, *_ATP_HARD), others=True,
    ),
    PaperTable(
        PAPER, 4, "VideoAgent by its number of first frames", ("frames", "EgoSchema subset"),
        (
            PaperRow("7 uniform frames", (7, 54.6), _uniform(7)),
            PaperRow("9 uniform frames", (9, 54.8), _uniform(9)),
            PaperRow("11 uniform frames", (11, 55.8), _uniform(11)),
            PaperRow("3 first frames", (6.4, 58.4), {"first_frames": 3}),
            PaperRow("5 first frames", (8.4, 60.2), OWN),
            PaperRow("8 first frames", (11.0, 57.4), {"first_frames": 8}),
        ),
        EACH, varied=("first_frames",),
    ),
    PaperTable(
        PAPER, 5, "VideoAgent without its parts", ("frames", "EgoSchema subset"),
        (
            PaperRow("without segment selection", (7.5, 56.6), {"segment_selection": False}),
            PaperRow("without self-evaluation", (11.8, 59.6), {"self_evaluation": False}),
            PaperRow("VideoAgent", (8.4, 60.2), OWN),
            PaperRow("uniform instead of retrieved frames", (), {"selection": "uniform"}),
        ),
        EACH, notes=("The last row is not in the paper's table.",),
    ),
    PaperTable(
        PAPER, 6, "VideoAgent by language model", ("size", "EgoSchema subset"),
        (
            PaperRow("Mixtral-8x7B", ("70B", 37.8)),
            PaperRow("Llama2-70B", ("70B", 45.4)),
            PaperRow("GPT-3.5", (None, 48.8)),
            PaperRow("GPT-4", (None, 60.2)),
        ),
        EACH, varied=("llm",), notes=("The paper's table calls the first one Mistral-8x7B.",),
    ),
    PaperTable(
        PAPER, 7, "VideoAgent by captioner", ("type", "words", "EgoSchema subset"),
        (
            PaperRow("BLIP-2", ("frame", 8.5, 52.4)),
            PaperRow("LaViLa", ("clip", 7.2, 60.2)),
            PaperRow("CogAgent", ("frame", 74.2, 60.8)),
        ),
        EACH, varied=("captioner", "captions"),
    ),
    PaperTable(
        PAPER, 8, "VideoAgent by retriever", ("size", "resolution", "EgoSchema subset"),
        (
            PaperRow("OpenCLIP ViT-G", ("1B", "224", 59.2)),
            PaperRow("EVA-CLIP-8B", ("8B", "224", 59.4)),
            PaperRow("EVA-CLIP-8B-plus", ("8B", "448", 60.2)),
        ),
        EACH, varied=("encoder",),
    ),
)  # fmt: skip
_ROUNDS = PaperTable(
    PAPER, "fig3", "VideoAgent by its number of rounds", ("frames", "EgoSchema subset"),
    (
        PaperRow("1 round", (5, 53.8), {"max_rounds": 1}),
        PaperRow("2 rounds", (7.5, 58.6), {"max_rounds": 2}),
        PaperRow("3 rounds", (8.4, 60.2), OWN),
        PaperRow("4 rounds", (9.9, 59.8), {"max_rounds": 4}),
        PaperRow("180 uniform frames", (180, 59.6)),
    ),
    # One run is enough for the frames of each type.
    EACH, varied=("max_rounds",), others=True, is_comparison=False,
)  # fmt: skip
PUBLISHED_FRAMES = {"descriptive": 5.9, "causal": 7.1, "temporal": 7.8}
"""Mean frames on NExT-QA by type of question (section 4.4)."""


def frames_by_type(run: ReportRun) -> dict[str, list[int]]:
    """The frames that each question looked at, by the benchmark's first kind of group (of NExT-QA: causal,
    temporal and descriptive)."""
    found: dict[str, list[int]] = {}
    kinds = run.protocol.groups
    for trace in run.own_traces:
        if not is_answerable(trace) or not kinds or kinds[0] not in trace.groups:
            continue
        for name in trace.groups[kinds[0]].split(GROUP_SEPARATOR):
            if run.dataset.benchmark == "nextqa":
                name = NEXTQA_TYPES.get(name[:1], name)
            found.setdefault(name, []).append(trace.frames_seen)
    return dict(sorted(found.items()))


def frame_efficiency(runs: Sequence[ReportRun]) -> Section:
    """Accuracy against frames by the number of rounds, and the frames that each type of question needs."""
    made = build_table(_ROUNDS, runs)
    rows: list[tuple[Cell, ...]] = []
    panels: list[tuple[str, dict[str, list[int]]]] = []
    for data, given in by_dataset(runs).items():
        for run in own_runs(given, PAPER):
            found = frames_by_type(run)
            for name, frames in found.items():
                mean = PUBLISHED_FRAMES.get(name) if data.benchmark == "nextqa" else None
                rows.append(
                    (data.title, run.name, name, len(frames), min(frames), Number(fmean(frames), 1),
                     max(frames), None if mean is None else Number(mean))
                )  # fmt: skip
            if found:
                panels.append((f"{run.name}\n{data.title}", found))
    heads = (BENCHMARK, "run", "type", "questions", "least", "mean frames", "most", "mean, published")
    published = ", ".join(f"{name} {mean}" for name, mean in PUBLISHED_FRAMES.items())
    by_type = Table(
        "Frames by type of question", heads, tuple(rows),
        (f"Published means on NExT-QA: {published}.",), suffix="types",
    )  # fmt: skip
    points = [point for run in runs if run.method == PAPER.method and (point := _point(run)) is not None]

    def draw() -> Figure:
        from videopro.report.papers.figures import draw_frames

        return draw_frames(points, panels)

    tables = (*made.tables, by_type) if rows else made.tables
    caption = "Accuracy against frames seen, and the frames that each type of question needs."
    # Of models that cannot follow the prompts, on a benchmark without types, there is nothing to draw.
    figure = FigureSpec(caption, draw) if points or panels else None
    return replace(made, tables=tables, figure=figure)


def _point(run: ReportRun) -> tuple[str, float, Accuracy] | None:
    seen = mean_frames_seen([trace for trace in run.own_traces if is_answerable(trace)])
    found = accuracy(run.records)
    return None if run.lacks or seen is None or found.accuracy is None else (run.name, seen, found)
