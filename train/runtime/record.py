"""The record of a training run: its settings and data, the rows that were left out, what was logged.

Written when the run begins and again when it ends, so that a run is resumed with the settings it began with.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal

from accelerate import PartialState
from trl import ModelConfig

from videopro.backbones import folder_fingerprint, library_versions
from videopro.errors import RunError, VideoError
from videopro.methods import named_plugins
from videopro.storage import parse_json, write_atomically
from videopro.train.runtime.rows import TrainingRow, digest
from videopro.train.runtime.setup import RECORD, TrainingSetup
from videopro.video.decoding import content_id

Stage = Literal["sft", "grpo"]
VideosByStage = Mapping[str, list[str]]
"""Content ids (`Video.id`), sorted, by the stage that was trained on them."""


def contents(rows: Iterable[TrainingRow]) -> dict[str, Path]:
    """The videos of rows by their contents, so that a moved or renamed file is the same; those that cannot
    be read are left out, as their rows are dropped."""
    paths: dict[str, Path] = {}
    for path in sorted({row.video for row in rows if row.video is not None}):
        try:
            paths[content_id(path)] = path
        except (VideoError, OSError):
            continue
    return paths


def with_stage(before: VideosByStage, stage: Stage, rows: Iterable[TrainingRow]) -> dict[str, list[str]]:
    """The videos of a planner that a stage has trained further."""
    return {**before, stage: sorted({*before.get(stage, ()), *contents(rows)})}


def overlap_warning(before: VideosByStage, rows: Iterable[TrainingRow], start: str) -> str | None:
    """The warning before GRPO on videos that the start was fine-tuned on; None without such videos."""
    to_train = contents(rows)
    taught = sorted(path for content, path in to_train.items() if content in set(before.get("sft", ())))
    if not taught:
        return None
    return (
        f"warning: {len(taught)} of {len(to_train)} videos in train_data were already used to fine-tune "
        f"{start} (first: {taught[0]}), and GRPO gains little on questions that SFT has taught; split the "
        "videos with videopro synthesize --sft-share"
    )


_EVALUATING = (
    "eval_",
    "fallback",
    "metric_for_best_model",
    "greater_is_better",
    "save_strategy",
    "save_steps",
)
"""They choose the final weights if the best ones are loaded at the end."""

HARMLESS = (
    # Where files are: rows, base and adapter are compared by their content.
    *("output_dir", "train_data", "adapter", "frame_cache", "resume_from_checkpoint", "model_name_or_path"),
    "model_revision",
    # Compared as what they came to: the start's own where they are unset.
    *("frames", "pixels", "video_marks", "prompts"),
    # What is evaluated, logged, shown, saved and uploaded.
    *("per_device_eval_batch_size", "num_generations_eval", "batch_eval_metrics", "include_", "do_"),
    *(
        "bf16_full_eval",
        "fp16_full_eval",
        "prediction_loss_only",
        "log_",
        "logging_",
        "report_to",
        "run_name",
    ),
    *("project", "disable_tqdm", "trackio_", "skip_memory_metrics", "debug", "num_completions_to_print"),
    *("push_to_hub", "hub_", "save_total_limit", "save_only_model", "save_on_each_node"),
    *("enable_jit_checkpoint", "adapter_dtype"),
    # Who does the same work, how much of it at a time, and with which memory.
    *("dataloader_num_workers", "dataloader_pin_memory", "dataloader_persistent_workers", "dataset_num_proc"),
    *("dataloader_prefetch_factor", "dataloader_multiprocessing_context", "vllm"),
    *("decode_workers", "reward_workers", "run_ahead", "kept_features_gb", "ddp_"),
    *("torch_empty_cache_steps", "local_rank", "use_cpu", "ds3_gather_for_generation", "engine_gpus"),
    *("vllm_server_", "vllm_group_port", "vllm_gpu_memory_utilization", "vllm_tensor_parallel_size"),
    "vllm_enable_sleep_mode",
    # Other kernels for the same sums, and values that are computed again instead of kept.
    *("attn_implementation", "shared_prompt", "gradient_checkpointing", "activation_", "checkpoint"),
)
"""Settings on which no weight depends, or only by the rounding with which another machine would differ too: a
run may be resumed with others. Names that end in an underscore are prefixes. All other settings are compared,
including settings of future library versions."""


def deciding_settings(settings: Any) -> dict[str, Any]:
    """The settings of a dataclass on which the final weights depend."""
    loads_best = getattr(settings, "load_best_model_at_end", False)
    harmless = HARMLESS if loads_best else (*HARMLESS, *_EVALUATING)
    return {
        option.name: getattr(settings, option.name)
        for option in fields(settings)
        if option.init and not option.name.startswith("_") and not _is_harmless(option.name, harmless)
    }


def _is_harmless(name: str, harmless: Sequence[str]) -> bool:
    return any(name.startswith(each) if each.endswith("_") else name == each for each in harmless)


def describe_run(
    training: Any, model: ModelConfig, start: TrainingSetup, *, rows: str, adapter: str | None
) -> dict[str, Any]:
    """The facts that decide a run's final weights: all settings but harmless ones, and digests of the files.
    `rows` is the digest of the training file, `adapter` the fingerprint of the adapter that is continued."""
    deciding = {**deciding_settings(training), **deciding_settings(model)}
    deciding |= {
        "data": rows,
        "model": Path(start.checkpoint.source).name,
        "weights": folder_fingerprint(start.checkpoint.folder),
        "adapter": adapter,
        "frames": start.frames,
        "pixels": start.pixels,
        "video_marks": start.checkpoint.video_marks,
        "prompts": None if start.prompts is None else dict(start.prompts.texts),
        "processes": PartialState().num_processes,
        **named_plugins(
            {
                "model": model.model_name_or_path,
                "answerer": getattr(training, "answerer", None),
                **training.mapping(training.MODULES),
            }
        ),
    }
    for name in ("eval_data", "eval_questions"):
        if name in deciding:
            deciding[name] = _content(deciding[name])
    # As it will be read back from JSON.
    return json.loads(json.dumps(deciding, default=str))


def _content(spec: str | None) -> str | None:
    """The digest of the file of rows that `eval_data` or `eval_questions` names, wherever it is; another
    value, such as pocket:val, unchanged."""
    files = [] if spec is None else [Path(spec), Path(spec) / "questions.jsonl"]
    return next((digest(file) for file in files if file.is_file()), spec)


def check_same_run(output: Path, run: Mapping[str, Any]) -> None:
    """Raise RunError, naming the differences, if a folder has the checkpoints of another run. The same run
    with more steps is allowed. A setting that its record lacks, because only newer libraries have it, is not
    compared."""
    try:
        before = parse_json((output / RECORD).read_text(encoding="utf-8"), infinite=True)["run"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(
            f"{output}: has checkpoints but no readable {RECORD}; set another output_dir"
        ) from error
    differing = [name for name in run if name in before and before[name] != run[name]]
    if differing and differing != _extended_by(before, run):
        changes = ", ".join(f"{name} was {before[name]!r} and is {run[name]!r}" for name in differing)
        raise RunError(f"{output}: has checkpoints of another run: {changes}; set another output_dir")


def _extended_by(before: Mapping[str, Any], run: Mapping[str, Any]) -> list[str]:
    """The setting that makes a run longer than it was before, if any. At a constant learning rate the longer
    run passes through the weights of the shorter; any other schedule depends on the total length."""
    # Other schedules stretch with the length, so that the first steps differ too.
    if run["lr_scheduler_type"] != "constant":
        return []
    limited = run["max_steps"] > 0
    name = "max_steps" if limited else "num_train_epochs"
    if (before.get("max_steps", 0) > 0) != limited or run[name] <= before.get(name, run[name]):
        return []
    return [name]


def write_record(
    output: Path,
    run: Mapping[str, Any],
    *,
    rows: Sequence[TrainingRow],
    dropped: Mapping[str, str],
    videos: VideosByStage,
    history: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Write the record. `dropped`: the reason for each dropped row, by id; `videos`: those that the planner
    was trained on, by stage; `history`: what was logged."""
    # Written at the beginning too, by which a resumed run knows whether it is the same.
    record = {
        "run": run,
        "rows": len(rows),
        "kinds": dict(Counter(row.kind or "unnamed" for row in rows)),
        "dropped": dict(dropped),
        "videos": {stage: list(ids) for stage, ids in videos.items()},
        "versions": library_versions(),
        "history": list(history),
    }
    output.mkdir(parents=True, exist_ok=True)
    write_atomically(output / RECORD, json.dumps(record, indent=1, ensure_ascii=False) + "\n")
