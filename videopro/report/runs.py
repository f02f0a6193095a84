"""The runs of a report: read from their folders, named, and sorted by what may be compared.

Two runs compare only when they answered the same benchmark, split and protocol, which is one `Dataset`. Runs
of one benchmark whose protocols differ become two datasets, and `protocol_notes` says in which fields. Knows
run folders and traces; nothing of tables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from videopro.benchmarks import PRESETS
from videopro.benchmarks.metrics import Grade
from videopro.benchmarks.protocol import Protocol
from videopro.config import read_yaml
from videopro.errors import ConfigError, RunError
from videopro.hindsight import as_settled
from videopro.runner.folder import RunFolder, difference, run_key
from videopro.runner.grades import read_grades, recorded_protocol
from videopro.runner.summary import records_of, summarize
from videopro.scoring import Scored
from videopro.trace import Trace
from videopro.trace_log import read_traces

TITLES: Mapping[str, str] = {
    "longvideobench": "LongVideoBench",
    "videomme": "Video-MME",
    "lvbench": "LVBench",
    "mlvu": "MLVU",
    "cg_bench": "CG-Bench",
    "nextqa": "NExT-QA",
    "egoschema": "EgoSchema",
    "mmbench_video": "MMBench-Video",
}
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
class Dataset:
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
class Run:
    """A run with all that a report reads of it."""

    path: Path
    identity: Mapping[str, Any]
    settings: Mapping[str, Any]
    """config.yaml."""
    protocol: Protocol
    traces: tuple[Trace, ...]
    grades: Mapping[str, Grade]
    dataset: Dataset
    name: str = ""
    """What tables call it."""
    is_named: bool = False
    """Whether the user gave the name."""

    @property
    def method(self) -> str:
        """One of `videopro.methods.METHODS`."""
        return str(self.identity["method"]["name"])

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
    def questions(self) -> frozenset[str]:
        """Ids of the questions that were answered."""
        return frozenset(trace.question_id for trace in self.traces)

    @cached_property
    def records(self) -> list[Scored]:
        """The verdicts on its questions."""
        return records_of(self.traces)

    @cached_property
    def settled(self) -> tuple[Trace, ...]:
        """The traces without what was only stored for other thresholds."""
        return tuple(map(as_settled, self.traces))

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Its numbers, made anew from the traces."""
        about = {"benchmark": self.dataset.benchmark, "split": self.dataset.split, "method": self.method}
        return summarize(self.settled, self.protocol, about, self.grades)


def read_runs(words: Sequence[str]) -> list[Run]:
    """The runs that the words of a command line name, each a folder or NAME=FOLDER; a folder that holds run
    folders stands for all of them. Raises RunError or ConfigError."""
    runs: list[Run] = []
    for word in words:
        name, path = _split(word)
        runs += [replace(read_run(one), name=name, is_named=bool(name)) for one in folders_of(path)]
    paths = Counter(one.path.resolve() for one in runs)
    twice = [str(path) for path, count in paths.items() if count > 1]
    if twice:
        raise ConfigError(f"run {twice[0]} was given twice; give each once")
    return _named(_titled(runs))


def _split(word: str) -> tuple[str, Path]:
    name, equals, path = word.partition("=")
    if not equals or Path(word).exists():
        return "", Path(word)
    if not name.strip() or not path:
        raise ConfigError(f"run {word!r}: give a folder, or NAME=FOLDER")
    return name.strip(), Path(path)


def folders_of(path: Path) -> list[Path]:
    """The run folders at a path: itself, or those inside it. Raises RunError where there is none."""
    if RunFolder(path).config.exists():
        return [path]
    found = sorted(one.parent for one in path.rglob("config.yaml") if (one.parent / "traces.jsonl").exists())
    if not found:
        raise RunError(
            f"{path}: holds no run; give the folder of a run of videopro.infer, or one with several"
        )
    return found


def read_run(path: Path) -> Run:
    """A run, not yet named. Raises RunError for a folder without one, or one that answered nothing."""
    folder = RunFolder(path)
    protocol = recorded_protocol(folder)
    identity = folder.recorded() or {}
    if not isinstance(identity.get("method"), dict) or "name" not in identity["method"]:
        raise RunError(f"{folder.config}: does not say by which method; was it written by videopro.infer?")
    traces = read_traces(folder.traces) if folder.traces.exists() else []
    if not traces:
        raise RunError(f"{path}: no question was answered there yet; finish the run first")
    asked = identity["protocol"]
    return Run(
        path,
        identity,
        read_yaml(folder.config),
        protocol,
        tuple(traces),
        read_grades(folder.grades, protocol.judge),
        Dataset(str(asked.get("benchmark", "")), str(asked.get("split", "")), run_key(asked)[:8]),
    )


def _titled(runs: Sequence[Run]) -> list[Run]:
    """The runs with titles for their datasets: with the protocol where one benchmark comes under several."""
    kinds: dict[tuple[str, str], dict[str, str]] = {}
    for run in runs:
        own = kinds.setdefault((run.dataset.benchmark, run.dataset.split), {})
        own[run.dataset.protocol_hash] = run.protocol.name
    found = []
    for run in runs:
        data = run.dataset
        title = f"{TITLES.get(data.benchmark, data.benchmark)} {data.split}".strip()
        protocols = kinds[data.benchmark, data.split]
        if len(protocols) > 1:
            alike = list(protocols.values()).count(run.protocol.name) > 1
            title += f" ({data.protocol_hash if alike or not run.protocol.name else run.protocol.name})"
        found.append(replace(run, dataset=replace(data, title=title)))
    return found


def _named(runs: Sequence[Run]) -> list[Run]:
    """The runs with names that tell apart those of one dataset. Raises ConfigError where that cannot be."""
    several = len({run.model for run in runs}) > 1 or len({run.dataset.benchmark for run in runs}) > 1
    planners: dict[str, set[str]] = {}
    for run in runs:
        planners.setdefault(f"{run.model} {run.method}", set()).add(run.planner)

    def own(run: Run) -> str:
        name = METHOD_TITLES.get(run.method, run.method)
        if several:
            name = run.model if run.method == "native" else f"{run.model} + {name}"
        if len(planners[f"{run.model} {run.method}"]) > 1:
            name += f" ({run.planner})"
        return name + "".join(f" w/o {group}" for group in run.without)

    named = [run if run.is_named else replace(run, name=own(run)) for run in runs]
    taken = Counter((run.dataset, run.name) for run in named)
    named = [
        replace(run, name=f"{run.name} [{run.path.name}]")
        if taken[run.dataset, run.name] > 1 and not run.is_named
        else run
        for run in named
    ]
    for (data, name), count in Counter((run.dataset, run.name) for run in named).items():
        if count > 1:
            raise ConfigError(
                f"{count} runs on {data.title} would both be called {name!r}; give them as NAME=FOLDER "
                "(runs of several seeds: python -m videopro.seeds)"
            )
    return named


def by_dataset(runs: Sequence[Run]) -> dict[Dataset, list[Run]]:
    """The runs of each dataset, the paper's benchmarks first, in its order."""
    found: dict[Dataset, list[Run]] = {}
    for run in sorted(runs, key=lambda one: one.dataset.place):
        found.setdefault(run.dataset, []).append(run)
    return found


def reference(runs: Sequence[Run]) -> Run:
    """What the others of a dataset are compared with: a direct answer where there is one, else the first."""
    return next((run for run in runs if run.method == "native"), runs[0])


def protocol_notes(runs: Sequence[Run]) -> list[str]:
    """Where runs of one benchmark and split are not compared since their protocols differ: in which
    fields."""
    notes = []
    first: dict[tuple[str, str], Run] = {}
    told: set[Dataset] = set()
    for run in runs:
        other = first.setdefault((run.dataset.benchmark, run.dataset.split), run)
        if run.dataset != other.dataset and run.dataset not in told:
            told.add(run.dataset)
            fields = [
                line.partition(":")[0]
                for line in difference(other.identity["protocol"], run.identity["protocol"])
            ]
            notes.append(
                f"{other.dataset.title} and {run.dataset.title} are not compared with each other: their "
                f"protocols differ in {', '.join(fields)}."
            )
    return notes


def question_notes(runs: Sequence[Run]) -> list[str]:
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
