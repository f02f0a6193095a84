"""The runs of a report, and which of them are comparable.

Two runs are comparable only if they have the same benchmark, split and protocol: the same `DatasetKey`. Runs
of one benchmark with different protocols become two datasets, and `protocol_notes` names the fields that
differ.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from videopro.backbones import DEFAULT_FRAMES
from videopro.benchmarks import PRESETS, JudgeGrade, Protocol
from videopro.runs import identity_difference, run_key, summarize
from videopro.traces import (
    NATIVE,
    RESCORINGS,
    AnswerRule,
    NativeTraces,
    Trace,
    recorded_rule,
    rescore_all,
    without_stored_rounds,
)
from videopro.traces.scoring import (
    QuestionScore,
    exclusions,
    exclusions_text,
    lack_of_model,
    mixed_versions,
    records_of,
    stand_ins,
    stand_ins_text,
    versions_used,
)

METHOD_TITLES: Mapping[str, str] = {
    "native": "Native VideoLLM",
    "program": "Multi-step program",
    "adaptive": "Adaptive reasoning",
    "videopro": "VideoPro",
    "videoagent": "VideoAgent",
    "dvd": "Deep Video Discovery",
    "vca": "VCA",
    "lvagent": "LVAgent",
}
"""The names in the paper's Table 2, then the other systems."""
# Settings that affect how programs are written and what they may call, whether or not they are refined.
_PLANNING = (
    *("planner", "planner_frames", "planner_prompt", "temperature", "top_p", "max_new_tokens", "subtitles"),
    *("answer_adapter", "encoder", "text_encoder", "ocr", "detector", "tracker", "speech", "summarize"),
    *("prompts", "answerer", "planner_pixels", "planner_weights", "planner_program", "clip_times"),
    "teacher",
)


def sampling_of(method: Mapping[str, Any]) -> str:
    """How the programs or the replies of a run were decoded, from its method's identity: "greedy", or
    "sampled at" a temperature; "" if nothing is decoded, as with a plug-in's planner, the user's own program
    or a direct answer."""
    temperature = method.get("temperature")
    if temperature is None or method.get("teacher") or str(method.get("planner")).startswith("file:"):
        return ""
    if temperature == 0:
        return "greedy"
    nucleus = f", top-p {method['top_p']:g}" if method.get("top_p", 1.0) < 1 else ""
    return f"sampled at {temperature:g}{nucleus}"


@dataclass(frozen=True)
class DatasetKey:
    """A benchmark's split under one protocol; runs on the same dataset are comparable."""

    benchmark: str
    split: str
    protocol_hash: str
    """First 8 hex digits of the recorded protocol's hash."""
    title: str = ""

    @property
    def rank(self) -> int:
        """Its position in the paper's Table 1; last if missing there."""
        key = (self.benchmark, self.split)
        return [*((benchmark, split) for benchmark, split, _ in PRESETS["videopro"][0]), key].index(key)


@dataclass(frozen=True)
class ReportRun:
    """A run with everything that a report needs from its folder."""

    path: Path
    identity: Mapping[str, Any]
    settings: Mapping[str, Any]
    """The contents of config.yaml."""
    protocol: Protocol
    traces: tuple[Trace, ...]
    grades: Mapping[str, JudgeGrade]
    dataset: DatasetKey
    name: str = ""
    """Its name in tables."""
    is_named: bool = False
    """Whether the user chose the name."""
    is_length: bool = False
    """Whether it is for the table of durations alone."""

    @property
    def method(self) -> str:
        """One of `videopro.methods.METHODS`."""
        return str(self.identity["method"]["name"])

    @property
    def method_rank(self) -> int:
        """The position of its method in METHOD_TITLES; last if missing there."""
        return [*METHOD_TITLES, self.method].index(self.method)

    @property
    def without(self) -> tuple[str, ...]:
        """Groups of modules that were removed."""
        return tuple(self.identity["method"].get("without", ()))

    @property
    def writes_programs(self) -> bool:
        """Whether a planner wrote programs."""
        return "planner" in self.identity["method"]

    @property
    def model(self) -> str:
        """The backbone's short name."""
        spec = str(self.settings.get("model", self.identity["model"].get("model", "")))
        if spec.startswith("server:"):
            spec = spec.removeprefix("server:").partition("@")[0]
        return spec.rstrip("/").rsplit("/", 1)[-1]

    @property
    def frames(self) -> int | None:
        """The frame budget: frames per call of the backbone; None: not recorded."""
        frames = self.identity.get("model", {}).get("frames")
        return int(frames) if frames is not None else None

    @property
    def limits(self) -> tuple[float, float]:
        """The calls and seconds that a question might cost; infinite without a limit."""
        named = self.identity["method"]
        calls, seconds = (named.get(name) if "calls" in named else None for name in ("calls", "seconds"))
        return calls or math.inf, seconds or math.inf

    @property
    def budget(self) -> str:
        """These limits in words."""
        calls, seconds = self.limits
        parts = [f"{calls:g} call{'s' * (calls > 1)}"] if calls < math.inf else []
        return ", ".join([*parts, *([f"{seconds:g} s"] if seconds < math.inf else [])]) or "no limit"

    @property
    def planner_frames(self) -> int:
        """Frames of the video in the planner's prompt, in addition to the frames of the question's calls."""
        planner = str(self.identity["method"]["planner"]) if self.writes_programs else ""
        # A teacher behind an API reads text alone.
        if planner != "self" and not planner.startswith("server:"):
            return 0
        recorded = self.identity["method"].get("planner_frames")
        if recorded is not None:
            return int(recorded)
        return (self.frames or 0) if planner == "self" else DEFAULT_FRAMES

    @property
    def preset(self) -> str:
        """Which settings an agent has: "paper" or "equal"; "" for other methods."""
        return str(self.identity["method"].get("preset", ""))

    @property
    def planner(self) -> str:
        """What wrote the programs: the planner's name, or the backbone's adapter; "" without a planner."""
        if not self.writes_programs:
            return ""
        planner = str(self.identity["method"]["planner"])
        adapter = (self.settings.get("backbone") or {}).get("adapter")
        if planner != "self":
            return planner
        if adapter:
            return Path(str(adapter)).name
        model = self.identity.get("model", {})
        is_trained = model.get("planner_prompt") or model.get("prompts")
        return Path(str(self.settings["model"])).name if is_trained else "not fine-tuned"

    @property
    def planning(self) -> str:
        """A key shared by runs with the same model and the same settings for writing programs."""
        method = self.identity["method"]
        return run_key(
            {"model": self.identity.get("model"), **{name: method.get(name) for name in _PLANNING}}
        )

    @property
    def rule(self) -> AnswerRule:
        """The run's own rule for the final answer."""
        return recorded_rule(self.identity["method"])

    @property
    def questions(self) -> frozenset[str]:
        """Ids of the questions that were answered."""
        return frozenset(trace.question_id for trace in self.traces)

    @cached_property
    def records(self) -> list[QuestionScore]:
        """The scores of its questions."""
        return records_of(self.traces)

    @cached_property
    def own_traces(self) -> tuple[Trace, ...]:
        """The traces without rounds that were only stored for other thresholds."""
        return tuple(map(without_stored_rounds, self.traces))

    @cached_property
    def lacks(self) -> str:
        """Why the run has no accuracy to show; see `lack_of_model`."""
        return lack_of_model(self.traces)

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Its summary, recomputed from the traces."""
        about = {"benchmark": self.dataset.benchmark, "split": self.dataset.split, "method": self.method}
        return summarize(self.own_traces, self.protocol, about, self.grades)


def by_dataset(runs: Sequence[ReportRun]) -> dict[DatasetKey, list[ReportRun]]:
    """The runs of each dataset, the paper's benchmarks first, in its order."""
    groups: dict[DatasetKey, list[ReportRun]] = {}
    for run in sorted(runs, key=lambda run: run.dataset.rank):
        groups.setdefault(run.dataset, []).append(run)
    return groups


def with_lengths(runs: Sequence[ReportRun]) -> list[ReportRun]:
    """The runs, each with the answers about other lengths of its benchmark by runs of its name."""
    joined = []
    for run in (each for each in runs if not each.is_length):
        key = (run.dataset.benchmark, run.name)
        beyond = [each for each in runs if each.is_length and (each.dataset.benchmark, each.name) == key]
        traces = tuple(trace for each in (run, *beyond) for trace in each.traces)
        title = run.dataset.title.removesuffix(run.dataset.split).strip() if beyond else run.dataset.title
        joined.append(replace(run, traces=traces, dataset=replace(run.dataset, title=title)))
    return joined


def baseline(runs: Sequence[ReportRun]) -> ReportRun:
    """The run that the others on a dataset are compared with: the first native run, otherwise the first."""
    return next((run for run in runs if run.method == "native"), runs[0])


def protocol_notes(runs: Sequence[ReportRun]) -> list[str]:
    """Notes on runs of one benchmark and split that are not compared, naming the protocol fields that
    differ."""
    notes = []
    first: dict[tuple[str, str], ReportRun] = {}
    noted: set[DatasetKey] = set()
    for run in runs:
        other = first.setdefault((run.dataset.benchmark, run.dataset.split), run)
        if run.dataset != other.dataset and run.dataset not in noted:
            noted.add(run.dataset)
            lines = identity_difference(other.identity["protocol"], run.identity["protocol"])
            # "answer_prompt.text: ..." is the field answer_prompt.
            fields = dict.fromkeys(re.split("[.:]", line)[0] for line in lines)
            notes.append(
                f"{other.dataset.title} and {run.dataset.title} are not compared with each other, because "
                f"their protocols differ in {', '.join(fields)}."
            )
    return notes


def counts_note(runs: Sequence[ReportRun]) -> str:
    """How many questions about how many videos each dataset has, such as "mlvu dev: 726 questions about 66
    videos." If the numbers differ between runs, they are ranges."""
    parts = []
    for data, group in by_dataset(runs).items():
        questions = _span([len(run.questions) for run in group])
        videos = _span([len({trace.video.key for trace in run.traces}) for run in group])
        parts.append(f"{data.title}: {questions} questions about {videos} videos.")
    return " ".join(parts)


def exclusions_note(runs: Sequence[ReportRun]) -> str:
    """What the accuracy of each run leaves out, by reason: "Left out of the accuracy: native
    (LVBench) 2 VideoError." Empty if nothing is left out."""
    several = len(by_dataset(runs)) > 1
    parts = [
        f"{run.name}{f' ({run.dataset.title})' if several else ''} {exclusions_text(left_out)}"
        for run in runs
        if (left_out := exclusions(run.traces))
    ]
    return f"Left out of the accuracy: {'; '.join(parts)}." if parts else ""


def stand_ins_note(runs: Sequence[ReportRun]) -> str:
    """How many damaged frames were replaced by intact ones, by run; empty if none."""
    parts = [f"{run.name} {stand_ins_text(counts)}" for run in runs if (counts := stand_ins(run.traces))]
    return f"Damaged frames replaced by intact ones: {'; '.join(parts)}." if parts else ""


def versions_note(runs: Sequence[ReportRun]) -> str:
    """Which runs were answered with several versions, and which versions; empty if none."""
    parts = [f"{run.name} {mixed}" for run in runs if (mixed := mixed_versions(versions_used(run.traces)))]
    return f"Answered with several versions (questions per version): {' / '.join(parts)}." if parts else ""


def _span(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def question_notes(runs: Sequence[ReportRun]) -> list[str]:
    """Notes on runs of one dataset that answered different questions."""
    notes = []
    for data, group in by_dataset(runs).items():
        if len({run.questions for run in group}) > 1:
            counts = ", ".join(f"{run.name} {len(run.questions)}" for run in group)
            notes.append(
                f"{data.title}: the runs answered different questions ({counts}): accuracies are over "
                "each run's own questions, differences over shared questions."
            )
    return notes


# What a rule of RESCORINGS adds to the name of a run.
_BEFORE = {"first": ", before refinement", f"first {NATIVE}": ", before refinement, native fallback"}
# Without refinement the first program is the last one.
_SINGLE = {"last": "", f"last {NATIVE}": ", native fallback"}
_REFINED = {
    **_SINGLE,
    "last-answered": ", last answer",
    f"last-answered {NATIVE}": ", last answer, native fallback",
}

NOTE = (
    "The answer of the last program counts, even if that program failed (the paper's rule). Last answer: the "
    "latest program that answered counts. Native fallback: if no answer is left by that rule, the same "
    "model's direct answer counts, which no program contributed to."
)
OWN_RULE = "Each run by its own rule of the final answer (table 'runs')."
MISSING_NATIVE_NOTE = (
    "Rows with a native fallback need a run of method native with the same model and number of "
    "frames, without subtitles in its prompt. If such rows are missing, add that run."
)


def natives_for(run: ReportRun, runs: Sequence[ReportRun]) -> NativeTraces:
    """The direct answers that a fallback of this run would return, from a native run on the same questions;
    empty if there is none."""
    if not run.writes_programs:
        return {}
    for other in runs:
        if (
            other.method == "native"
            and (other.dataset, other.model, other.frames) == (run.dataset, run.model, run.frames)
            and run.questions <= other.questions
            # Asked in the same way: with the backbone's own frames, and nothing else.
            and not (asked := other.identity["method"]).get("frames")
            and not asked.get("fps")
            and asked.get("subtitles", "none") == "none"
        ):
            return {trace.question_id: trace for trace in other.traces}
    return {}


def variants(run: ReportRun, runs: Sequence[ReportRun]) -> list[ReportRun]:
    """The run rescored by each possible rule, named after the rule; unchanged if it has no planner.
    `runs`: all runs, for their direct answers."""
    if not run.writes_programs:
        return [run]
    return _rescored(run, runs, _REFINED if run.method == "videopro" else _SINGLE)


def rescored_before(run: ReportRun, runs: Sequence[ReportRun]) -> list[ReportRun]:
    """The run before any refinement, alone and with a native fallback if possible."""
    return _rescored(run, runs, _BEFORE)


def _rescored(run: ReportRun, runs: Sequence[ReportRun], titles: Mapping[str, str]) -> list[ReportRun]:
    natives = natives_for(run, runs)
    return [
        replace(run, name=run.name + title, traces=traces)
        for rule, title in titles.items()
        if (traces := rescore_all(run.traces, RESCORINGS[rule], natives)) is not None
    ]


def variants_of(runs: Sequence[ReportRun]) -> list[ReportRun]:
    """All runs under each rule."""
    return [variant for run in runs for variant in variants(run, runs)]


def notes_for(runs: Sequence[ReportRun]) -> list[str]:
    """Notes below a table of variants."""
    planned = [run for run in runs if run.writes_programs]
    if not planned:
        return []
    lacking = any(
        rescore_all(run.traces, RESCORINGS[f"last {NATIVE}"], natives_for(run, runs)) is None
        for run in planned
    )
    return [NOTE, MISSING_NATIVE_NOTE] if lacking else [NOTE]
