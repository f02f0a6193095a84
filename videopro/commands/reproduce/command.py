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
from videopro.commands.doctor import Finding, show, visible_gpus
from videopro.commands.reproduce.checks import examine
from videopro.commands.reproduce.estimates import Work, plan_of_synthesis, show_plan
from videopro.commands.reproduce.hub import compare
from videopro.commands.reproduce.order import stages_of
from videopro.commands.reproduce.pilot import read_pilot, run_pilot
from videopro.commands.reproduce.road import Road
from videopro.commands.reproduce.running import Record, check_same, run_stages, write_settings
from videopro.commands.reproduce.settings import ReproduceConfig
from videopro.commands.reproduce.stages import FILES, STAGES, Stage
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
    stages, record = selected(stages_of(road), config), Record(config.output)
    findings = [*examine(road, [stage for stage in stages if not record.is_done(stage)])]
    _show_estimates(road, stages, findings)
    show(findings)
    if broken := [each.name for each in findings if each.state == "broken"]:
        raise ConfigError(f"missing or broken: {'; '.join(broken)} (see above); no stage was started")
    check_same(stages, record)
    if config.plan:
        return
    _ask(config)
    with sole_writer(config.output):
        write_settings(stages_of(road))
        if config.pilot:
            run_stages([stage for stage in stages if stage.kind in FILES], config.output)
            run_pilot(road, stages)
            _show_estimates(Road(config, road.devices), stages, [])
            return
        run_stages(stages, config.output)
    has_runs = any(stage.kind == "infer" for stage in stages)
    print(f"Done. Next: videopro view {config.output / 'runs'}" if has_runs else "Done.")


def _show_estimates(road: Road, stages: Sequence[Stage], findings: list[Finding]) -> None:
    """Print what the stages will take; what makes a synthesis impossible joins the findings."""
    record, plan = Record(road.output), None
    done = [stage.name for stage in stages if record.is_done(stage)]
    try:
        plan = plan_of_synthesis(road, [stage for stage in stages if stage.name not in done])
    except ConfigError as error:
        findings.append(Finding("training data", "synthesize", "broken", str(error)))
    show_plan(Work(road, plan, read_pilot(road)), stages, done)


def selected(stages: Sequence[Stage], config: ReproduceConfig) -> list[Stage]:
    """The stages that `--only` and `--skip` leave. Raises ConfigError if there are none."""
    kinds = {stage.kind for stage in stages} & {*(config.only or STAGES)} - {*config.skip}
    if not kinds:
        used = ", ".join(dict.fromkeys(stage.kind for stage in stages))
        raise ConfigError(f"these settings leave no stage; without --only and --skip, they are {used}")
    return [stage for stage in stages if stage.kind in kinds]


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
