"""With which settings a run may be resumed, and which videos a planner was trained on."""

import functools
import hashlib
import json
import shutil
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support import sft_world as world
from tests.support.training_runs import LORA, NO_MODELS, flags, saves
from videopro.errors import RunError
from videopro.train.finetune import VideoSFTConfig
from videopro.train.rl import VideoGRPOConfig
from videopro.train.runtime import TrainingSetup, read_settings
from videopro.train.runtime.record import RECORD, check_same_run, describe_run, overlap_warning, with_stage
from videopro.train.runtime.setup import recorded_videos

KINDS: dict[str, tuple[type[Any], dict[str, Any]]] = {
    "sft": (VideoSFTConfig, {}),
    "grpo": (VideoGRPOConfig, {"num_generations": 4, "per_device_train_batch_size": 4, "modules": NO_MODELS}),
}


# Of the file of held-out rows, the contents count; nothing reads them here.
HELD_OUT = {"eval_strategy": "steps", "eval_data": __file__}


@functools.cache
def plain(stage: str) -> dict[str, Any]:
    return described(stage, world.folder())


def described(stage: str, output: Path, **changes: Any) -> dict[str, Any]:
    kind, own = KINDS[stage]
    words = flags(output, **{**LORA, **own, **changes})
    training, model = read_settings(kind, stage, words)
    return describe_run(training, model, TrainingSetup.of(training, model), rows="0f", adapter=None)


def resumed(output: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    (output / RECORD).write_text(json.dumps({"run": before}))
    check_same_run(output, now)


@pytest.mark.parametrize(
    ("stage", "changes"),
    [
        ("sft", {"label_smoothing_factor": 0.1}),
        ("sft", {"lora_modules_to_save": "lm_head"}),
        ("sft", {"frames": 5}),
        ("grpo", {"use_bias_correction_kl": "false"}),
        ("grpo", {"top_p": 0.9}),
        ("grpo", {"load_best_model_at_end": "true", "save_strategy": "steps", **HELD_OUT}),
    ],
)
def test_settings_that_decide_weights_are_compared(
    stage: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    resumed(tmp_path, plain(stage), dict(plain(stage)))
    with pytest.raises(RunError, match=f"{next(iter(changes))} was .* and is "):
        resumed(tmp_path, plain(stage), described(stage, tmp_path, **changes))


@pytest.mark.parametrize("stage", KINDS)
def test_others_may_change(stage: str, tmp_path: Path) -> None:
    changes = {**HELD_OUT, "eval_steps": 3, "per_device_eval_batch_size": 4, "report_to": "tensorboard"}
    changes |= {"output_dir": tmp_path / "moved", "logging_steps": 7, "save_total_limit": 3, **saves(every=4)}
    changes |= {"dataloader_num_workers": 2, "decode_workers": 1, "gradient_checkpointing": "true"}
    changes |= {"attn_implementation": "sdpa", "adapter_dtype": "bfloat16"}
    resumed(tmp_path, plain(stage), described(stage, tmp_path, **changes))


@pytest.mark.parametrize(
    ("schedule", "before", "now", "goes_on"),
    [
        ("constant", {"max_steps": 2}, {"max_steps": 3}, True),
        ("constant", {"max_steps": 3}, {"max_steps": 2}, False),
        ("constant", {"num_train_epochs": 1}, {"num_train_epochs": 2}, True),
        ("constant", {"num_train_epochs": 1}, {"max_steps": 9}, False),
        # A cosine's rates are of its length.
        ("cosine", {"max_steps": 2}, {"max_steps": 3}, False),
    ],
    ids=str,
)
def test_only_at_a_constant_rate_a_run_may_be_longer(
    schedule: str, before: dict[str, Any], now: dict[str, Any], goes_on: bool, tmp_path: Path
) -> None:
    both = [described("sft", tmp_path, lr_scheduler_type=schedule, **each) for each in (before, now)]
    with nullcontext() if goes_on else pytest.raises(RunError, match="was"):
        resumed(tmp_path, *both)


def test_an_engine_of_other_memory_at_another_place_may_go_on(tmp_path: Path) -> None:
    """As an engine that ran out of memory asks for."""
    engines = ({"program": "/one", "memory": 0.6}, {"program": "/two", "memory": 0.4})
    before, now = (described("grpo", tmp_path, sampler="vllm", vllm=json.dumps(engine)) for engine in engines)
    resumed(tmp_path, {**before, "vllm": json.dumps(engines[0])}, now)


def test_the_best_model_depends_on_what_is_evaluated(tmp_path: Path) -> None:
    best = {**HELD_OUT, "load_best_model_at_end": "true", "save_strategy": "steps"}
    before = described("sft", tmp_path, **best, save_steps=2, eval_steps=2)
    # The same rows, elsewhere.
    shutil.copy(__file__, tmp_path / "copied.jsonl")
    copied = {**best, "eval_data": tmp_path / "copied.jsonl"}
    resumed(tmp_path, before, described("sft", tmp_path, **copied, save_steps=2, eval_steps=2))
    with pytest.raises(RunError, match="eval_steps was 2 and is 1"):
        resumed(tmp_path, before, described("sft", tmp_path, **best, save_steps=2, eval_steps=1))


def test_a_setting_of_newer_libraries_is_not_compared(tmp_path: Path) -> None:
    now = described("sft", tmp_path, label_smoothing_factor=0.1)
    before = {name: value for name, value in now.items() if name != "label_smoothing_factor"}
    resumed(tmp_path, before, now)
    with pytest.raises(RunError, match="prompts was None and is"):
        resumed(tmp_path, before, {**now, "prompts": {"plan": "Plan."}})


def test_a_secret_is_not_recorded(tmp_path: Path) -> None:
    assert "hf_secret" not in json.dumps(described("sft", tmp_path, hub_token="hf_secret"))


def test_a_module_of_ones_own_that_changed_makes_another_run(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    text = (
        "from videopro.modules.calls import CallContext, SingleFrame, module\n\n\n"
        '@module(family="extraction")\ndef get_nothing(call: CallContext, frame: SingleFrame) -> float:\n'
        '    """See nothing.\n\n    Returns 0.\n    """\n    return 0.0\n'
    )
    file.write_text(text)
    modules = json.dumps(json.loads(NO_MODELS) | {"extra_modules": [str(file)]})
    before = described("grpo", tmp_path, modules=modules)
    assert described("grpo", tmp_path, modules=modules) == before
    file.write_text(text.replace("0.0", "1.0"))
    now = described("grpo", tmp_path, modules=modules)
    assert [name for name in before if before[name] != now[name]] == ["plugins"]
    with pytest.raises(RunError, match="plugins"):
        resumed(tmp_path, before, now)


@dataclass(frozen=True)
class Row:
    id: str
    video: Path | None


def content_of(data: bytes) -> str:
    """Of a small file: SHA-256 of its size in eight bytes and of all of it."""
    return hashlib.sha256(len(data).to_bytes(8, "little") + data).hexdigest()[:32]


@pytest.fixture
def videos(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / f"{name}.mp4" for name in "abc"]
    for path in paths:
        path.write_bytes(path.name.encode())
    return paths


def test_videos_are_recorded_by_content_and_stage(videos: list[Path], tmp_path: Path) -> None:
    a, b, c = (content_of(path.name.encode()) for path in videos)
    rows = [Row("1", videos[0]), Row("2", videos[1]), Row("3", videos[1]), Row("text", None)]
    sft = with_stage({}, "sft", [*rows, Row("lost", tmp_path / "missing.mp4")])
    assert sft == {"sft": sorted([a, b])}
    # GRPO of what was fine-tuned, and fine-tuned again.
    assert with_stage(sft, "grpo", [Row("4", videos[2])]) == {"sft": sorted([a, b]), "grpo": [c]}
    assert with_stage(sft, "sft", [Row("4", videos[2])]) == {"sft": sorted([a, b, c])}


def test_grpo_on_videos_of_sft_is_told(videos: list[Path], tmp_path: Path) -> None:
    taught = with_stage({}, "sft", [Row("1", videos[0])])
    shutil.copy(videos[0], tmp_path / "renamed.mp4")
    rows = [Row("1", tmp_path / "renamed.mp4"), Row("2", videos[1]), Row("3", videos[2])]
    warning = overlap_warning(taught, rows, "adapter 'runs/sft'")
    assert warning is not None
    assert "1 of 3 videos in train_data were already used to fine-tune adapter 'runs/sft'" in warning
    assert f"(first: {tmp_path / 'renamed.mp4'})" in warning
    assert overlap_warning(taught, rows[1:], "it") is None
    # GRPO may be continued on its own videos.
    assert overlap_warning(with_stage({}, "grpo", rows), rows, "it") is None


@pytest.mark.parametrize("text", [None, "{", "[]", '{"run": {}}', '{"videos": 3}'])
def test_a_record_without_videos_names_none(tmp_path: Path, text: str | None) -> None:
    record = tmp_path / "training_record.json"
    if text is not None:
        record.write_text(text)
    assert recorded_videos(record) == {}
    record.write_text(json.dumps({"run": {}, "videos": {"sft": ["x"]}}))
    assert recorded_videos(record) == {"sft": ["x"]}
