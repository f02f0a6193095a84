"""Deep Video Discovery: its Tables 2 to 5 and Fig. 3 (version 3; Table 1 lists the tools)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from videopro.report.papers.building import own_runs
from videopro.report.papers.spec import (
    BY_ABILITY,
    EACH,
    LVBENCH_ABILITIES,
    OWN,
    Paper,
    PaperRow,
    PaperTable,
)
from videopro.report.runs import ReportRun, by_dataset
from videopro.report.section import FigureSpec, MissingRuns, Section
from videopro.report.table import BENCHMARK, Cell, Number, Table, share
from videopro.scoring import BehaviourRow, behaviour_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BROWSE, SEARCH, INSPECT = "global_browse", "clip_search", "frame_inspect"
_ABLATED = {"tools": (BROWSE, SEARCH, INSPECT)}
WITHOUT_TRANSCRIPTS = {"subtitles": "none"}
# The paper's transcripts guide the segmentation too (section 4.2).
WITH_TRANSCRIPTS = {"subtitles": "listed", "segmentation": "transcript"}
UNGUIDED = {"subtitles": "listed", "segmentation": "uniform"}
TITLES = {
    "global_browse_only": "Global Browse only",
    "simple_action": "simple action",
    "iterative_search": "iterative search",
    "frame_inspect_trap": "Frame Inspect trap",
    "clip_search_trap": "Clip Search trap",
    None: "no tool",
}


_SAME = (
    "The paper's rows have transcripts (subtitles=listed segmentation=transcript). Ours are of all runs that "
    "are given: give runs that differ in nothing else."
)


PAPER = Paper("dvd", "Deep Video Discovery", _ABLATED)
TABLES = (
    PaperTable(
        PAPER, 2, "Deep Video Discovery on LVBench", (*LVBENCH_ABILITIES, "all"),
        (
            PaperRow("Gemini-1.5-Pro", (32.1, 30.9, 39.3, 31.8, 27.0, 32.8, 33.1)),
            PaperRow("Gemini-2.0-Flash", (47.4, 48.5, 56.8, 39.3, 44.4, 41.4, 48.6)),
            PaperRow("GLM-4V-Plus", (46.2, 47.8, 54.1, 42.7, 46.5, 37.9, 48.7)),
            PaperRow("GPT-4o", (48.9, 49.5, 48.1, 40.9, 50.3, 50.0, 48.9)),
            PaperRow("OpenAI o3", (57.6, 56.4, 62.9, 46.8, 50.8, 67.2, 57.1)),
            PaperRow("InternVL2.5-78B", (43.8, 42.0, 42.1, 36.8, 51.0, 37.9, 43.6)),
            PaperRow("VideoLLaMA3-7B", (45.8, 42.4, 47.8, 35.9, 45.8, 36.2, 45.3)),
            PaperRow("Qwen2.5-VL-72B", (None, None, None, None, None, None, 47.7)),
            PaperRow("VideoChat-Flash", (51.1, 46.0, 49.0, 38.9, 48.5, 34.5, 48.2)),
            PaperRow("AdaRETAKE", (53.0, 50.7, 62.2, 45.5, 54.7, 37.9, 53.3)),
            PaperRow("VideoTree", (30.3, 25.1, 26.5, 27.7, 31.9, 25.5, 28.8)),
            PaperRow("VideoAgent", (28.0, 30.3, 28.0, 29.3, 28.0, 36.4, 29.3)),
            PaperRow("VCA", (43.7, 40.7, 37.8, 38.0, 46.2, 27.3, 41.3)),
            PaperRow("MR. Video", (59.8, 57.4, 71.4, 58.8, 57.7, 50.0, 60.8)),
            PaperRow("Deep Video Discovery", (73.4, 73.3, 80.4, 72.3, 70.7, 74.1, 74.2), WITHOUT_TRANSCRIPTS),
            PaperRow("with transcripts", (75.5, 77.1, 79.0, 72.7, 68.7, 84.5, 76.0), WITH_TRANSCRIPTS),
            PaperRow("with transcripts, uniform clips", (), UNGUIDED),
        ),
        BY_ABILITY,
        others=True, is_comparison=False,
        notes=(
            "The last row is not in the paper's table. A run of which no question had subtitles is one "
            "without transcripts, whatever it asked for.",
        ),
    ),
    PaperTable(
        PAPER, 3, "Deep Video Discovery on long videos",
        ("LVBench", "LongVideoBench val", "LongVideoBench val, long", "Video-MME long", "EgoSchema val"),
        (
            PaperRow("Gemini-1.5-Pro", (33.1, 64.0, 58.6, 67.4)),
            PaperRow("Gemini-2.0-Flash", (48.3, None, 45.7, 63.0, 71.2)),
            PaperRow("GPT-4o", (48.9, 66.7, 60.9, 65.3, 70.4)),
            PaperRow("OpenAI o3", (57.1, 67.5, 60.6, 64.7, 63.2)),
            PaperRow("mPLUG-Owl3", (43.5, 59.8, None, 50.1)),
            PaperRow("InternVL2.5-78B", (43.6, 63.6, None, 62.6)),
            PaperRow("Qwen2.5-VL-72B", (47.7, 60.7, None, 63.9)),
            PaperRow("AdaRETAKE", (53.3, 67.0, None, 65.0)),
            PaperRow("VideoTree", (28.8, None, None, None, 67.0)),
            PaperRow("VideoAgent", (29.3, None, None, None, 63.2)),
            PaperRow("VCA", (41.3, None, None, None, 73.6)),
            PaperRow("MR. Video", (60.8, None, 61.6, 61.8, 73.0)),
            PaperRow("Deep Video Discovery", (74.2, 71.6, 68.6, 67.3, 76.6), WITHOUT_TRANSCRIPTS),
        ),
        EACH, others=True,
        notes=("Without transcripts. Table 2 of the paper gives 48.6 for Gemini-2.0-Flash on LVBench.",),
    ),
    PaperTable(
        PAPER, 4, "Deep Video Discovery by model", ("LVBench with transcripts",),
        (
            PaperRow("captioner 4.1, llm o3, vqa 4.1-mini", (72.3,)),
            PaperRow("captioner 4.1, llm o4-mini, vqa o3", (70.2,)),
            PaperRow("captioner 4.1, llm 4o, vqa o3", (62.3,)),
            PaperRow("captioner 4.1-mini, llm o3, vqa o3", (71.9,)),
            PaperRow("captioner 4.1, llm o3, vqa o3", (76.0,)),
        ),
        EACH, varied=("captioner", "llm", "vqa"), notes=(_SAME,),
    ),
    PaperTable(
        PAPER, 5, "Deep Video Discovery without each of its tools", ("LVBench with transcripts",),
        (
            PaperRow("without Global Browse", (69.0,), {"tools": (SEARCH, INSPECT)}),
            PaperRow("without Clip Search", (59.6,), {"tools": (BROWSE, INSPECT)}),
            PaperRow("without Frame Inspect", (63.5,), {"tools": (BROWSE, SEARCH)}),
            PaperRow("all tools", (71.9,), OWN),
        ),
        EACH, notes=("The paper's rows have GPT-4.1-mini as captioner and o3 as llm and vqa.", _SAME),
    ),
)  # fmt: skip


def behaviours(runs: Sequence[ReportRun]) -> Section:
    """The five classes of tool use, with their share, steps and accuracy."""
    rows: list[tuple[Cell, ...]] = []
    drawn: list[tuple[str, list[tuple[str, BehaviourRow]]]] = []
    for data, given in by_dataset(runs).items():
        for run in own_runs(given, PAPER):
            found = [(TITLES[part.behaviour], part) for part in behaviour_rows(run.own_traces)]
            if not found:
                continue
            if run.lacks:
                # Neither the table nor the figure shows an accuracy that says nothing about the method.
                found = [(title, replace(part, accuracy=None)) for title, part in found]
            drawn.append((f"{run.name}\n{data.title}", found))
            for title, part in found:
                right = run.lacks or share(part.accuracy)
                rows.append(
                    (data.title, run.name, title, part.questions, share(part.ratio), Number(part.steps, 1),
                     right)
                )  # fmt: skip
    if not rows:
        raise MissingRuns(
            "dvd-fig3: no run of method dvd with all tools answered a question; make one with `python -m "
            "videopro infer --method dvd ...`"
        )
    heads = (BENCHMARK, "run", "behaviour", "questions", "share, %", "steps", "accuracy, %")
    notes = (
        "Classes by the order of tool calls; a trap is more than three calls of one tool in a row. Steps: "
        "requests for the next action.",
        "Published (LVBench): with o3, a simple action takes 5.2 steps and an iterative search 8.0; GPT-4o "
        "takes a simple action in 91.4 % of the questions, and 4.6 steps on average.",
    )

    def draw() -> Figure:
        from videopro.report.papers.figures import draw_behaviours

        return draw_behaviours(drawn)

    return Section(
        "dvd-fig3", "Behaviour in the use of tools", "Figure 3 of Deep Video Discovery",
        (Table("Behaviour in the use of tools", heads, tuple(rows), notes),),
        FigureSpec("Share, steps and accuracy of each class of behaviour.", draw),
        runs=tuple(run for run in runs if run.method == PAPER.method),
    )  # fmt: skip
