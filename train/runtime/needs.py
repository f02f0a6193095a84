"""What a training run needs before anything is loaded, for `videopro.cli.needs`."""

from __future__ import annotations

from pathlib import Path

from videopro.backbones import BackboneConfig, model_needs
from videopro.cli import Need, build_settings, cache_root, folder_problem, tracker_needs
from videopro.methods.program import program_needs
from videopro.modules import ModuleSettings, json_flag
from videopro.train.settings import TrainingConfig


def training_needs(training: TrainingConfig, model: BackboneConfig) -> list[Need]:
    """The model, the adapter and the trackers; the folder of decoded frames; and of what runs programs, the
    rewards and the evaluation: who answers, the models behind the modules, and the sandbox."""
    frames = Path(training.frame_cache) if training.frame_cache else cache_root() / "frames"
    problem = folder_problem(frames)
    needs = [
        *tracker_needs(training.report_to),
        *model_needs(model),
        Need("decoded frames", problem=problem and f"{problem}; set frame_cache to another folder"),
    ]
    name = "modules" if hasattr(training, "modules") else "eval_modules"
    if name == "modules" or training.eval_questions:
        settings = build_settings(ModuleSettings, training.mapping(name), name)
        answerer = getattr(training, "answerer", None)
        needs += program_needs(settings, model, answerer=answerer, flag=json_flag(name))
    return needs
