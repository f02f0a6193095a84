"""videopro reproduce: the paper's training and tables in one command, from the official files to a report.

    videopro reproduce --config paper --plan
    videopro reproduce --config paper --output runs/paper
    videopro reproduce --config paper --output runs/paper --only sft
    videopro reproduce --config paper --output runs/release --sft-adapter USER/ADAPTER --grpo none
    videopro reproduce --config paper --check-manifest

It first shows what is missing, the stages and their cost, and asks for confirmation. Re-run the same command
to resume.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from videopro.cli import CommandLine, exit_status
from videopro.commands.doctor import show, visible_gpus
from videopro.commands.reproduce.checks import examine
from videopro.commands.reproduce.estimates import estimates
from videopro.commands.reproduce.expected import expected_of_synthesis
from videopro.commands.reproduce.hub import compare
from videopro.commands.reproduce.order import stages_of
from videopro.commands.reproduce.plan import show_plan
from videopro.commands.reproduce.road import Road
from videopro.commands.reproduce.running import Record, check_same, run_stages
from videopro.commands.reproduce.settings import ReproduceConfig
from videopro.commands.reproduce.stages import STAGES, Stage
from videopro.errors import ConfigError
from videopro.storage import sole_writer

COMMAND = CommandLine("reproduce", ReproduceConfig, configs="reproduce")


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status: 0, 2 for an error that the user can fix, 130 when
    interrupted."""
    with exit_status() as status:
        reproduce(COMMAND.parse(argv))
    return status.code


def reproduce(config: ReproduceConfig) -> None:
    """Show the plan, ask, and run the stages. Raises VideoProError."""
    road = Road(config, visible_gpus())
    if config.check_manifest:
        compare(road)
        return
    stages = selected(stages_of(road), config)
    record = Record(config.output)
    left = [stage for stage in stages if not record.is_done(stage)]
    findings = examine(road, left)
    show(findings)
    expected = expected_of_synthesis(road, left)
    takes = estimates(road, stages, expected.rows if expected is not None else {})
    if expected is not None:
        takes["synthesize"] = expected.takes
    show_plan(stages, takes, record, road.gpus)
    broken = [each for each in findings if each.state == "broken"]
    if broken:
        names = "; ".join(each.name for each in broken)
        raise ConfigError(f"missing or broken: {names} (see above); no stage was started")
    check_same(stages, record)
    if config.plan:
        return
    _ask(config)
    with sole_writer(config.output):
        run_stages(stages, config.output)
    has_runs = any(stage.kind == "infer" for stage in stages)
    print(f"Done. Next: videopro view {config.output / 'runs'}" if has_runs else "Done.")


def selected(stages: Sequence[Stage], config: ReproduceConfig) -> list[Stage]:
    """The stages selected by `--only`, `--start` and `--until`. Raises ConfigError if there are none."""
    order = {name: position for position, name in enumerate(STAGES)}
    first, last = order.get(config.start, 0), order.get(config.until, len(order))
    chosen = [
        stage
        for stage in stages
        if first <= order[stage.kind] <= last and (not config.only or stage.kind in config.only)
    ]
    if not chosen:
        kinds = ", ".join(dict.fromkeys(stage.kind for stage in stages))
        raise ConfigError(f"these settings do not use those stages; they use {kinds}")
    return chosen


def _ask(config: ReproduceConfig) -> None:
    """Ask for confirmation. Raises ConfigError without a terminal, or if the answer is no."""
    if config.yes:
        return
    if not sys.stdin.isatty():
        raise ConfigError("cannot ask for confirmation without a terminal; pass --yes to start these stages")
    if input("Start? [y/N] ").strip().lower() not in ("y", "yes"):
        raise ConfigError("not started")


if __name__ == "__main__":
    sys.exit(main())
