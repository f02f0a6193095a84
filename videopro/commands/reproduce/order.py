"""The stages from a benchmark's files to the paper's tables, in their order."""

from __future__ import annotations

from videopro.commands.reproduce.file_stages import download_stages, preparation_stages
from videopro.commands.reproduce.road import Road
from videopro.commands.reproduce.run_stages import report_stage, run_stages
from videopro.commands.reproduce.stages import Stage
from videopro.commands.reproduce.training_stages import row_stages, training_stages


def stages_of(road: Road) -> list[Stage]:
    """All stages, those that `--only`, `--start` and `--until` leave out too."""
    runs = list(run_stages(road))
    return [
        *download_stages(road),
        *preparation_stages(road),
        *row_stages(road),
        *training_stages(road),
        *runs,
        report_stage(road, runs),
    ]
