"""The guard of a synthesis: it keeps out videos of evaluation splits, unless they are declared as
training."""

from __future__ import annotations

from pathlib import Path

from videopro.benchmarks import CG_BENCH_FILES, Benchmark, Item
from videopro.data_synthesis.decontamination import evaluation_videos, find_evaluation_videos, pocket_seeds
from videopro.data_synthesis.questions import QuestionSelection
from videopro.data_synthesis.settings import SynthesisConfig
from videopro.errors import ConfigError


class DecontaminationGuard:
    """What keeps videos of evaluation splits out, before anything is asked and before anything is written."""

    def __init__(self, config: SynthesisConfig, source: Benchmark) -> None:
        self.skip = config.evaluation == "skip"
        self.excluded = evaluation_videos([Path(path) for path in config.exclude], cg_bench=_mini(config))
        own_world = config.source == "pocket" and config.root is None
        self.seeds = pocket_seeds(source.split, config.world_seed) if own_world else {}

    def allowed(self, selection: QuestionSelection, items: list[Item]) -> list[Item]:
        """The questions whose videos are for training; the others are counted, or refused. Videos that are
        made on demand are made here, since their content is unknown before."""
        splits = find_evaluation_videos(items, self.excluded, self.seeds)
        if selection.benchmark.fetch is not None and (self.skip or not splits):
            selection.benchmark.fetch([item for item in items if item.video_key not in splits])
            splits |= find_evaluation_videos(items, self.excluded, self.seeds)
        if splits and not self.skip:
            key, split = sorted(splits.items())[0]
            more = f", and so are {len(splits) - 1} more videos" if len(splits) > 1 else ""
            mini = " (if CG-Bench mini is for training: --cg-bench-mini training)" if "mini" in split else ""
            raise ConfigError(
                f"{selection.benchmark.name}: video {key!r} is {split}, which is for evaluation{more}; give "
                f"another split or source, or leave such videos out with --evaluation skip{mini}"
            )
        allowed = [item for item in items if item.video_key not in splits]
        if len(allowed) < len(items):
            selection.left_out["video of an evaluation split"] += len(items) - len(allowed)
        if not allowed:
            raise ConfigError(
                f"{selection.benchmark.name}: every video is of an evaluation split; "
                "give another split or source"
            )
        return allowed


def _mini(config: SynthesisConfig) -> Path | None:
    """The folder with CG-Bench mini's annotations, where its videos matter."""
    if config.source != "cg_bench" or config.root is None or config.cg_bench_mini == "training":
        return None
    folder = config.root if config.root.is_dir() else config.root.parent
    if not (folder / CG_BENCH_FILES["mini"]).exists():
        raise ConfigError(
            f"cg_bench: {folder / CG_BENCH_FILES['mini']} is missing, and it says which videos are for "
            "evaluation; put it there, or give --cg-bench-mini training"
        )
    return folder
