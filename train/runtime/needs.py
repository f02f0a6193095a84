"""What a training run needs before anything is loaded, for `videopro.cli.requirements`."""

from __future__ import annotations

from pathlib import Path

from videopro.backbones import BackboneConfig, model_needs, read_spec
from videopro.cli import Need, build_settings, cache_root, folder_problem, tracker_needs
from videopro.executor import sandbox_problem
from videopro.modules import ModuleSettings, expects_pocket, json_flag, module_needs
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
    answerer = getattr(training, "answerer", None)
    answering = model if answerer is None else read_spec(answerer)
    if answerer is not None:
        needs += model_needs(answering, "answerer")
    name = "modules" if hasattr(training, "modules") else "eval_modules"
    if name == "modules" or training.eval_questions:
        settings = build_settings(ModuleSettings, training.mapping(name), name)
        needs += module_needs(settings, pocket=expects_pocket(answering), flag=json_flag(name))
        needs.append(Need("sandbox", problem=sandbox_problem()))
    return needs
