"""Asks the questions as runs of `videopro infer`, which resume, share their work and can be viewed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from videopro.backbones import Backbone
from videopro.benchmarks import ROBUST, Benchmark, Item, Protocol
from videopro.commands import infer
from videopro.commands.infer_settings import InferConfig
from videopro.commands.prompts.planner import AskedPlanner
from videopro.commands.prompts.settings import PromptsConfig
from videopro.runs import RunFolder
from videopro.traces import Trace

NATIVE, PLANNER = "native", "planner"
"""The folders of the runs."""


def as_modules_ask(benchmark: Benchmark, changed: str) -> Benchmark:
    """The questions under the protocol of the modules: m* is about the direct answer that a native program
    gets (query_native), whatever prompt the benchmark's own protocol has. `changed` says in which way the
    questions differ from the published ones."""
    version = f"{benchmark.version}; {changed}" if benchmark.version else changed
    return replace(benchmark, protocol=Protocol(parser=ROBUST), parser=None, version=version)


def run_config(config: PromptsConfig, planner: AskedPlanner, benchmark: Benchmark, name: str) -> InferConfig:
    """The settings of one of the runs. Directly answers who answers inside the planner's programs, with what
    these show it."""
    is_planner = name == PLANNER
    adapter: dict[str, Any] = {"adapter": config.adapter} if is_planner and config.adapter else {}
    budgets = {} if is_planner else planner.budgets
    return InferConfig(
        benchmark=benchmark.name,
        split=benchmark.split,
        root=config.root,
        model=config.model if is_planner else planner.answerer or config.model,
        # Its first program alone: what refines it is for the planner in training to write.
        method="adaptive" if is_planner else "native",
        options=config.planner_options if is_planner else {},
        backbone={**budgets, **config.backbone, **adapter},
        nearest_intact=config.nearest_intact,
        seed=config.seed,
        output=config.output / name,
        workers=config.workers,
        in_flight=config.in_flight,
        redo_errors=config.redo_errors,
        redo_changed=config.redo_changed,
    )


def check(
    config: PromptsConfig,
    planner: AskedPlanner,
    benchmark: Benchmark,
    items: Sequence[Item],
    names: Sequence[str],
    load: Callable[..., Backbone],
) -> None:
    """Check all runs before the first of them starts. Raises VideoProError."""
    for name in names:
        infer.check(run_config(config, planner, benchmark, name), load=load, asked=(benchmark, list(items)))


def ask(
    config: PromptsConfig,
    planner: AskedPlanner,
    benchmark: Benchmark,
    items: Sequence[Item],
    name: str,
    load: Callable[..., Backbone],
) -> list[Trace]:
    """The traces of these questions, asked as far as they have not been. Raises VideoProError."""
    settings = run_config(config, planner, benchmark, name)
    infer.run(settings, load=load, asked=(benchmark, list(items)))
    ids = {item.id for item in items}
    return [trace for trace in RunFolder(settings.output).read() if trace.question_id in ids]
