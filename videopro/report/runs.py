"""The runs of a report, and which of them may be compared.

Two runs compare only when they answered the same benchmark, split and protocol, which is one `DatasetKey`.
Runs of one benchmark whose protocols differ become two datasets, and `protocol_notes` says in which fields.
Knows run folders and traces; nothing of tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from videopro.benchmarks import PRESETS
from videopro.benchmarks.metrics import JudgeGrade
from videopro.benchmarks.protocol import Protocol
from videopro.runs import identity_difference, run_key, summarize
from videopro.scoring import QuestionScore, records_of
from videopro.traces import AnswerRule, Trace, recorded_rule, without_stored_rounds

METHOD_TITLES: Mapping[str, str] = {
    "native": "Native VideoLLM",
    "program": "Multi-step program",
    "adaptive": "Adaptive reasoning",
    "videopro": "VideoPro",
}
"""As the paper's Table 2 names them."""
# What decides how programs are written and what they may call, whether or not they are refined.
_PLANNING = (
    *("planner", "planner_frames", "planner_prompt", "temperature", "top_p", "max_new_tokens", "subtitles"),
    *("answer_adapter", "encoder", "text_encoder", "ocr", "detector", "tracker", "speech", "summarize"),
    "teacher",
)


@dataclass(frozen=True)
class DatasetKey:
    """Questions under a protocol; runs compare within one."""

    benchmark: str
    split: str
    protocol_hash: str
    """8 hex digits of the protocol as it was recorded."""
    title: str = ""

    @property
    def place(self) -> int:
        """Where it comes in the paper's Table 1; behind it otherwise."""
        order = [(benchmark, split) for benchmark, split, _ in PRESETS["videopro"][0]]
        own = (self.benchmark, self.split)
        return order.index(own) if own in order else len(order)


@dataclass(frozen=True)
class ReportRun:
    """A run with all that a report reads of it."""

    path: Path
    identity: Mapping[str, Any]
    settings: Mapping[str, Any]
    """config.yaml."""
    protocol: Protocol
    traces: tuple[Trace, ...]
    grades: Mapping[str, JudgeGrade]
    dataset: DatasetKey
    name: str = ""
    """What tables call it."""
    is_named: bool = False
    """Whether the user gave the name."""

    @property
    def method(self) -> str:
        """One of `videopro.methods.METHODS`."""
        return str(self.identity["method"]["name"])

    @property
    def method_place(self) -> int:
        """Where its method comes in the paper's Table 2; behind it otherwise."""
        order = list(METHOD_TITLES)
        return order.index(self.method) if self.method in order else len(order)

    @property
    def without(self) -> tuple[str, ...]:
        """Groups of modules that it did without."""
        return tuple(self.identity["method"].get("without", ()))

    @property
    def plans(self) -> bool:
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
    def planner(self) -> str:
        """Who wrote the programs: the planner's name, or the backbone's adapter; "" for nobody."""
        if not self.plans:
            return ""
        planner = str(self.identity["method"]["planner"])
        adapter = (self.settings.get("backbone") or {}).get("adapter")
        if planner != "self":
            return planner
        return Path(str(adapter)).name if adapter else "not fine-tuned"

    @property
    def planning(self) -> str:
        """A key that runs share whose programs are written in the same way, of the same model."""
        method = self.identity["method"]
        return run_key({"model": self.identity.get("model"), **{one: method.get(one) for one in _PLANNING}})

    @property
    def rule(self) -> AnswerRule:
        """Which answer counted when it was run."""
        return recorded_rule(self.identity["method"])

    @property
    def questions(self) -> frozenset[str]:
        """Ids of the questions that were answered."""
        return frozenset(trace.question_id for trace in self.traces)

    @cached_property
    def records(self) -> list[QuestionScore]:
        """The verdicts on its questions."""
        return records_of(self.traces)

    @cached_property
    def settled(self) -> tuple[Trace, ...]:
        """The traces without what was only stored for other thresholds."""
        return tuple(map(without_stored_rounds, self.traces))

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Its numbers, made anew from the traces."""
        about = {"benchmark": self.dataset.benchmark, "split": self.dataset.split, "method": self.method}
        return summarize(self.settled, self.protocol, about, self.grades)


def by_dataset(runs: Sequence[ReportRun]) -> dict[DatasetKey, list[ReportRun]]:
    """The runs of each dataset, the paper's benchmarks first, in its order."""
    found: dict[DatasetKey, list[ReportRun]] = {}
    for run in sorted(runs, key=lambda one: one.dataset.place):
        found.setdefault(run.dataset, []).append(run)
    return found


def baseline(runs: Sequence[ReportRun]) -> ReportRun:
    """What the others of a dataset are compared with: a direct answer where there is one, else the first."""
    return next((run for run in runs if run.method == "native"), runs[0])


def protocol_notes(runs: Sequence[ReportRun]) -> list[str]:
    """Where runs of one benchmark and split are not compared since their protocols differ: in which
    fields."""
    notes = []
    first: dict[tuple[str, str], ReportRun] = {}
    told: set[DatasetKey] = set()
    for run in runs:
        other = first.setdefault((run.dataset.benchmark, run.dataset.split), run)
        if run.dataset != other.dataset and run.dataset not in told:
            told.add(run.dataset)
            fields = [
                line.partition(":")[0]
                for line in identity_difference(other.identity["protocol"], run.identity["protocol"])
            ]
            notes.append(
                f"{other.dataset.title} and {run.dataset.title} are not compared with each other: their "
                f"protocols differ in {', '.join(fields)}."
            )
    return notes


def question_notes(runs: Sequence[ReportRun]) -> list[str]:
    """What a reader must know of runs of one dataset that did not answer the same questions."""
    notes = []
    for data, own in by_dataset(runs).items():
        if len({run.questions for run in own}) > 1:
            told = ", ".join(f"{run.name} {len(run.questions)}" for run in own)
            notes.append(
                f"{data.title}: the runs did not answer the same questions ({told}): accuracies are over "
                "each run's own, differences over those that both have."
            )
    return notes
