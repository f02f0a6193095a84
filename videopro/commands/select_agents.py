"""videopro select-agents: choose LVAgent's team from a library of models, without gold answers.

    videopro select-agents --library MODEL MODEL+ADAPTER OTHER_MODEL \\
        --benchmark mlvu --root DIR --split dev --output runs/team
    videopro infer --method lvagent --options team=runs/team/team.json ...

Each model answers the same questions with method native, in a separate run in OUTPUT (re-run the same command
to resume). The majority answer is a question's pseudo-label, and the models that agree most with the
pseudo-labels form the team. `--domain family=count` selects a team for one group of the benchmark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from videopro import benchmarks
from videopro.backbones import Backbone, load_backbone
from videopro.benchmarks import Item
from videopro.cli import (
    CommandLine,
    OptionFlags,
    TextTable,
    check_least,
    did_you_mean,
    exit_status,
    option,
    setting,
)
from videopro.commands import infer
from videopro.commands.infer_settings import (
    BenchmarkSettings,
    InferConfig,
    WorkSettings,
    load_benchmark,
    shared_settings,
)
from videopro.errors import ConfigError
from videopro.methods import METHODS
from videopro.methods.agents import public_role, split_role
from videopro.methods.lvagent import (
    MOST_AGENTS,
    LibraryMember,
    TeamFile,
    agreement,
    check_weights,
)
from videopro.runs import RunFolder
from videopro.storage import write_file
from videopro.traces import Cost, Trace
from videopro.traces.scoring import GROUP_SEPARATOR, percent


@dataclass(frozen=True, kw_only=True)
class SelectConfig(WorkSettings, BenchmarkSettings):
    """The settings of `videopro select-agents`."""

    library: tuple[str, ...] = field(
        metadata=setting(
            "models to choose from: hub names, folders, server:MODEL@URL or plug-ins (each with +ADAPTER)"
        )
    )
    output: Path = field(metadata=setting("folder for the runs and team.json"))
    domain: str = option("", "group of the benchmark, as family=count; unset: all questions")
    questions: int = option(150, "questions that each model answers")
    size: int = option(3, f"agents in the team, 2 to {MOST_AGENTS}")
    options: dict[str, Any] = field(
        default_factory=dict, metadata=setting("options of method native; each is also a flag")
    )
    backbone: dict[str, Any] = field(
        default_factory=dict, metadata=setting("settings of every model, such as dtype=bf16")
    )
    seed: int = option(0, "random seed that draws the questions")

    def __post_init__(self) -> None:
        names = [public_role(name) for name in self.library]
        for name in names:
            if name == "self" or name.startswith("api:"):
                raise ConfigError(
                    f"library: {name!r} cannot run method native; pass a backbone, or server:MODEL@URL"
                )
        if len(names) < 2 or len(set(names)) < len(names):
            raise ConfigError(f"library is {' '.join(names) or 'empty'}; pass two or more different models")
        if len({_folder_name(name) for name in names}) < len(names):
            raise ConfigError(
                f"library: two of {' '.join(names)} differ only in punctuation; rename a folder"
            )
        if not 2 <= self.size <= min(MOST_AGENTS, len(names)):
            raise ConfigError(
                f"size is {self.size}; it must be 2 to {min(MOST_AGENTS, len(names))}, with a library of "
                f"{len(names)} models"
            )
        check_least(self, 1, "questions")


COMMAND = CommandLine(
    "select-agents", SelectConfig, options=OptionFlags({"native": METHODS["native"].Settings})
)


def main(argv: Sequence[str] | None = None, *, load: Callable[..., Backbone] = load_backbone) -> int:
    """The command line. Returns the exit status of `videopro.infer`."""
    with exit_status() as status:
        config = COMMAND.parse(argv)
        team = select(config, load=load)
        Console().print(table_of(team))
        Console().print(f"team file: {config.output / 'team.json'}", soft_wrap=True)
    return status.code


def select(config: SelectConfig, *, load: Callable[..., Backbone] = load_backbone) -> TeamFile:
    """Run each model, or resume it, and write OUTPUT/team.json. Raises VideoProError, if possible before the
    first run starts."""
    items = draw_questions(config)
    runs = {name: _run_config(config, name, items) for name in config.library}
    infer.check_all(runs.values(), load=load)
    for each in runs.values():
        infer.run(each, load=load)
    folders = {name: RunFolder(each.output) for name, each in runs.items()}
    # Only now: what a model weighs is known when it was loaded, by its run.
    check_weights({name: (folder.recorded_identity() or {})["model"] for name, folder in folders.items()})
    traces: dict[str, list[Trace]] = {}
    for name, folder in folders.items():
        # A folder may hold more questions, of an earlier command.
        by_id = {trace.question_id: trace for trace in folder.read()}
        traces[name] = [by_id[item.id] for item in items]
    # Letters and costs are all that is read: no gold answer takes part in the choice.
    letters = {
        name: {trace.question_id: None if trace.final is None else trace.final.letter for trace in of_model}
        for name, of_model in traces.items()
    }
    agreed = agreement(letters)
    team = TeamFile(
        benchmark=config.benchmark,
        split=config.split or benchmarks.BENCHMARKS[config.benchmark].splits[0],
        domain=config.domain,
        questions=len(items),
        labelled=agreed.labelled,
        agents=agreed.best(config.size),
        library=tuple(LibraryMember(model=name, agreement=rate) for name, rate in agreed.rates.items()),
        cost=replace(sum((trace.cost for each in traces.values() for trace in each), Cost()), stages={}),
    )
    path = config.output / "team.json"
    write_file(path, team.model_dump_json(indent=1) + "\n", "set another --output")
    return team


def draw_questions(config: SelectConfig) -> list[Item]:
    """The questions that every model answers, in the order of `Benchmark.select`. Raises VideoProError."""
    benchmark = load_benchmark(config)
    drawn = benchmark.select(limit=len(benchmark.items), seed=config.seed)
    # Drawn before the domain is looked at, so that questions are in one order whatever the domain.
    closed = [item for item in drawn if not item.question.is_open]
    if not closed:
        raise ConfigError(f"{benchmark.name}: all questions are open; a majority vote needs answer choices")
    in_domain = [item for item in closed if not config.domain or config.domain in _domains(item)]
    if not in_domain:
        domains = sorted({domain for item in closed for domain in _domains(item)})
        raise ConfigError(
            f"domain: no question is in {config.domain!r}; {did_you_mean(config.domain, domains)}"
        )
    return in_domain[: config.questions]


def table_of(team: TeamFile) -> TextTable:
    """The library with each model's agreement, and the team."""
    about = f"{team.benchmark} {team.split}" + (f", {team.domain}" if team.domain else "")
    rows = [
        (public_role(each.model), percent(each.agreement), "yes" if each.model in team.agents else "")
        for each in team.library
    ]
    return TextTable(
        f"{about}: agreement with the pseudo-labels of {team.labelled} questions",
        ("model", "agreement %", "in the team"),
        tuple(rows),
        (f"each model answered {team.questions} questions; no gold answers were used",),
        lefts=frozenset(("in the team",)),
    )


def _run_config(config: SelectConfig, name: str, items: Sequence[Item]) -> InferConfig:
    """The native run of one model of the library."""
    model, adapter = split_role(name)
    return InferConfig(
        **shared_settings(config, BenchmarkSettings),
        **shared_settings(config, WorkSettings),
        model=model,
        output=config.output / _folder_name(public_role(name)),
        method="native",
        options=config.options,
        backbone={**config.backbone, **adapter},
        ids=tuple(item.id for item in items),
        seed=config.seed,
    )


def _folder_name(name: str) -> str:
    return re.sub(r"[^\w.+-]+", "-", name).strip("-.") or "model"


def _domains(item: Item) -> set[str]:
    """The groups that a question is in, as --domain names them."""
    return {
        f"{kind}={group}" for kind, groups in item.groups.items() for group in groups.split(GROUP_SEPARATOR)
    }
