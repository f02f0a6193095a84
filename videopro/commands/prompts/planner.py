"""The planner whose failures become prompts, as recorded in its folder: which model answers directly, what
its prompts look like, and the runs of both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from videopro.backbones import Backbone, ModelRecord, PlannerRecord, model_needs, read_spec
from videopro.backbones.qwen import find_records
from videopro.benchmarks import ROBUST, Benchmark, Item, Protocol
from videopro.cli import check_needs, is_hub_name
from videopro.commands import infer
from videopro.commands.infer_settings import InferConfig, WorkSettings, shared_settings
from videopro.commands.prompts.settings import PromptsConfig
from videopro.data_synthesis.questions import RowReference
from videopro.methods.planners import API, PromptFile
from videopro.modules import modules_of_prompt
from videopro.runs import RunFolder
from videopro.traces import Trace, read_heads


@dataclass(frozen=True)
class AskedPlanner:
    """An adapter, a merged planner, or a model that was not trained to plan."""

    name: str
    folder: Path | None = None
    """Its folder; None: of a model that was not trained here, or is behind a server."""
    record: ModelRecord = field(default_factory=ModelRecord)
    answerer: str = ""
    """The model that a merged planner was made from, which answers inside its programs; empty: the model
    without its adapter."""

    @property
    def budgets(self) -> dict[str, int]:
        """The frames and pixels that it was trained with; answers inside its programs see the same."""
        named = {"frames": self.record.frames, "pixels": self.record.pixels}
        return {name: number for name, number in named.items() if number is not None}

    def prompt_file(self, config: PromptsConfig) -> PromptFile | None:
        """The texts of its prompts; None: the built-in ones. The settings take precedence."""
        planner = self.record.planner
        if config.prompts is not None or planner is None or not planner.prompts:
            return config.row_prompts()
        file = PromptFile(planner.prompts, f"recorded by {self.name}")
        file.require(config.row_kinds, "a row")
        return file

    def reference(self, config: PromptsConfig) -> RowReference:
        """What its prompts say about the modules: the option, or what it was trained with, or the full
        reference if its own texts show the modules."""
        form = config.planner_options.get("reference", "auto")
        if form == "auto":
            form = (self.record.planner or PlannerRecord()).reference
            file = self.prompt_file(config)
            if form == "none" and file is not None and API not in file.texts:
                form = "full" if any(file.shows(kind, API) for kind in config.row_kinds) else "none"
        return RowReference(form, config.planner_options.get("clip_times", "video"))


def read_planner(config: PromptsConfig) -> AskedPlanner:
    """The record of the settings' planner. Raises VideoProError if it cannot be found."""
    spec = read_spec(config.model, adapter=config.adapter)
    if spec.kind != "qwen":
        return AskedPlanner(config.adapter or config.model)
    folder, record, answerer = None, ModelRecord(), ""
    # The runs refuse a name that is neither.
    if Path(spec.model).expanduser().is_dir() or is_hub_name(spec.model):
        check_needs(model_needs(spec))
        folder, record = find_records(spec.model, "model")
        answerer = record.planner.base if record.planner is not None else ""
    if spec.adapter:
        folder, record = find_records(spec.adapter, "adapter")
    elif not answerer:
        return AskedPlanner(config.model)
    return AskedPlanner(config.adapter or config.model, folder, record, answerer)


def modules_of(traces: Iterable[Trace], path: Path, reference: RowReference) -> Mapping[str, list[str]]:
    """The modules that each question's planner was shown, by the question's id. `path`: the traces' file,
    next to which the beginnings of prompts are stored. Raises RunError."""
    if reference.form == "none":
        return {}
    heads = read_heads(path)
    modules: dict[str, list[str]] = {}
    for trace in traces:
        prompt: Any = trace.rounds[0].prompt if trace.rounds else None
        if prompt is not None:
            text = heads.get(prompt.key, prompt.head) + prompt.text
            modules[trace.question_id] = modules_of_prompt(text, reference.form, reference.clip_times)
    return modules


NATIVE, PLANNER = "native", "planner"
"""The folders of the runs."""


def as_modules_ask(benchmark: Benchmark, changed: str) -> Benchmark:
    """The questions under the protocol of the modules: m* is about the direct answer that a native program
    gets (query_native), whatever prompt the benchmark's own protocol has. `changed`: how the questions differ
    from the published ones."""
    version = f"{benchmark.version}; {changed}" if benchmark.version else changed
    return replace(benchmark, protocol=Protocol(parser=ROBUST), parser=None, version=version)


@dataclass(frozen=True)
class AskedRuns:
    """The runs that answer the questions, as in `videopro infer`: they can be resumed and viewed."""

    config: PromptsConfig
    planner: AskedPlanner
    benchmark: Benchmark
    items: Sequence[Item]
    load: Callable[..., Backbone]

    def settings(self, name: str) -> InferConfig:
        """The settings of one of the runs. Direct answers come from the model that
        answers inside the planner's programs, with the same frames."""
        config, is_planner = self.config, name == PLANNER
        adapter: dict[str, Any] = {"adapter": config.adapter} if is_planner and config.adapter else {}
        budgets = {} if is_planner else self.planner.budgets
        return InferConfig(
            benchmark=self.benchmark.name,
            split=self.benchmark.split,
            root=config.root,
            model=config.model if is_planner else self.planner.answerer or config.model,
            # Its first program alone: what refines it is for the planner in training to write.
            method="adaptive" if is_planner else "native",
            options=config.planner_options if is_planner else {},
            backbone={**budgets, **config.backbone, **adapter},
            nearest_intact=config.nearest_intact,
            seed=config.seed,
            output=config.output / name,
            **shared_settings(config, WorkSettings),
        )

    def check(self, *names: str) -> None:
        """Check runs before the first of them starts. Raises VideoProError."""
        # Both before either is asked: the planner's mistake would else show after hours of direct answers.
        for name in names:
            infer.check(self.settings(name), load=self.load, asked=(self.benchmark, list(self.items)))

    def ask(self, name: str) -> list[Trace]:
        """The traces of the questions; answers those that have no trace yet. Raises VideoProError."""
        settings = self.settings(name)
        infer.run(settings, load=self.load, asked=(self.benchmark, list(self.items)))
        ids = {item.id for item in self.items}
        return [trace for trace in RunFolder(settings.output).read() if trace.question_id in ids]
