"""A missing extra is one line that says what to install; help needs neither an extra nor a model library."""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from transformers import TrainingArguments
from trl import GRPOConfig, ModelConfig, SFTConfig

from tests.support import ROOT
from videopro.backbones.qwen import find_checkpoint
from videopro.benchmarks import load
from videopro.cli import COMMANDS, MissingExtra, needs_extra
from videopro.errors import ConfigError
from videopro.modules.models import load_ocr
from videopro.pocket import model_dir
from videopro.train.finetune import VideoSFTConfig
from videopro.train.runtime import load_trainable, read_settings
from videopro.train.runtime.setup import TrainingSetup
from videopro.train.settings.help import MODEL, OF_STAGE, TRAINING

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# What only an extra brings, by the names that are imported.
OPTIONAL = [
    *("trl", "datasets", "pyarrow", "deepspeed", "bitsandbytes", "matplotlib", "jinja2"),
    *("tensorboard", "wandb", "trackio", "sentence_transformers", "timm", "easyocr"),
    *("fastapi", "uvicorn", "starlette", "python_multipart", "prometheus_client", "mcp"),
]
# The commands that need trl.
TRAINERS = ("sft", "grpo", "rejection", "merge")

# In a process in which some installed packages cannot be found, as if they were not installed.
ALL_COMMANDS = """
import contextlib, io, json, runpy, sys
from importlib.machinery import PathFinder

hidden = set(json.loads(sys.argv[1]))

class Hiding(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in hidden else super().find_spec(name, path, target)

sys.meta_path[:] = [Hiding if finder is PathFinder else finder for finder in sys.meta_path]
results = []
for words in json.loads(sys.argv[2]):
    out, err = io.StringIO(), io.StringIO()
    sys.argv = list(words)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            runpy.run_module(words[0], run_name="__main__", alter_sys=True)
        except SystemExit as stopped:
            heavy = [name for name in ("torch", "transformers", "openai", "peft") if name in sys.modules]
            results.append([stopped.code, out.getvalue(), err.getvalue(), heavy])
print(json.dumps(results))
"""


# One that pip finds: VideoPro itself is in no registry.
TRAIN = "pip install 'trl<1.17,>=1.15' 'transformers>=5.18' 'datasets>=4.0' 'tensorboard>=2.18'"


def test_without_any_extra_every_command_helps_and_names_the_extra() -> None:
    asked = ["--help", *(f"{name} --help" for name in COMMANDS)]
    asked += [*TRAINERS, "completion bash", "serve --model pocket"]
    words = json.dumps([["videopro", *line.split()] for line in asked])
    command = [sys.executable, "-c", ALL_COMMANDS, json.dumps(OPTIONAL), words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    said = dict(zip(asked, json.loads(done.stdout.splitlines()[-1]), strict=True))
    for name in COMMANDS:
        code, out, err, heavy = said[f"{name} --help"]
        assert (code, err, heavy) == (0, "", []), name
        assert f"sage: videopro {name}" in out, "a help of its own"
    for name in TRAINERS:
        assert said[name][:3] == [2, "", f"error: videopro {name} needs trl: {TRAIN}\n"]
    # What only we have, and what TRL's and transformers' settings have.
    for name, flags in (
        ("sft", ("Start with:\n  --train_data", "--projector", "--lora_r", "--help-all")),
        ("grpo", ("--reward_workers", "--num_generations", "--per_device_train_batch_size", "GRPOConfig")),
        ("rejection", ("--samples", "videopro rejection --")),
    ):
        assert [flag for flag in flags if flag not in said[f"{name} --help"][1]] == []
    code, out, err, _ = said["serve --model pocket"]
    assert (code, out) == (2, "")
    assert err.startswith("error: videopro serve needs starlette: pip install 'fastapi>=")
    code, out, *_ = said["completion bash"]
    assert (code, "rejection" in out, "--redo-errors" in out) == (0, True, True)


def test_the_libraries_have_the_settings_that_help_shows() -> None:
    for kind, shown in (
        (ModelConfig, MODEL),
        (TrainingArguments, TRAINING),
        (SFTConfig, OF_STAGE["sft"]),
        (GRPOConfig, OF_STAGE["grpo"]),
    ):
        assert shown.keys() <= {option.name for option in fields(kind)}


@pytest.mark.parametrize(
    ("package", "asked", "expected"),
    [
        ("easyocr", lambda _: load_ocr("easyocr:en"), "ocr=easyocr needs easyocr: INSTALL"),
        (
            "pyarrow",
            lambda folder: load("lvbench", root=folder, annotations=str(folder / "questions.parquet")),
            "questions.parquet needs pyarrow: INSTALL",
        ),
        (
            "wandb",
            lambda folder: TrainingSetup.of(
                VideoSFTConfig(output_dir=str(folder), report_to=["wandb"], use_cpu=True, bf16=False),
                ModelConfig(model_name_or_path="pocket"),
            ),
            "install with INSTALL",
        ),
        (
            "bitsandbytes",
            lambda _: load_trainable(
                find_checkpoint(str(model_dir())), ModelConfig(load_in_4bit=True, use_peft=True)
            ),
            "load_in_4bit or load_in_8bit needs bitsandbytes: INSTALL",
        ),
        (
            "deepspeed",
            lambda folder: read_settings(
                VideoSFTConfig, "sft", ["--deepspeed", "zero.json", "--output_dir", str(folder)]
            ),
            "training under DeepSpeed needs deepspeed: INSTALL",
        ),
    ],
)
def test_what_needs_an_extra_names_it(
    package: str,
    asked: Callable[[Path], Any],
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    (tmp_path / "questions.parquet").write_bytes(b"PAR1")
    with pytest.raises(ConfigError) as error:
        asked(tmp_path)
    assert re.sub(r"pip install ('[^']+' ?)+$", "INSTALL", str(error.value)).endswith(expected)


def test_accelerates_zero_configs_need_deepspeed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deepspeed", None)
    monkeypatch.setenv("ACCELERATE_USE_DEEPSPEED", "true")
    with pytest.raises(MissingExtra, match=r"pip install 'deepspeed>="):
        read_settings(VideoSFTConfig, "sft", ["--output_dir", "out"])
    monkeypatch.delenv("ACCELERATE_USE_DEEPSPEED")
    cpu = ["--use_cpu", "true", "--bf16", "false"]
    training, _ = read_settings(VideoSFTConfig, "sft", ["--output_dir", "deepspeed", *cpu])
    assert training.output_dir == "deepspeed", "a folder's name is no setting"


def test_a_broken_package_and_a_mistake_of_our_own_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_package.py").write_text("from json import nothing_of_this_name\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with (
        pytest.raises(MissingExtra, match=r"a report: json cannot be imported \(cannot import name 'nothing"),
        needs_extra("report", "a report"),
    ):
        import broken_package  # type: ignore[import-not-found]  # noqa: F401
    with pytest.raises(ModuleNotFoundError, match="videopro") as error, needs_extra("report", "a report"):
        import videopro.no_such_module  # type: ignore[import-not-found]  # noqa: F401
    assert not isinstance(error.value, MissingExtra)


def test_all_holds_every_extra_but_those_for_work_on_the_project() -> None:
    extras = PROJECT["optional-dependencies"]
    (requirement,) = extras["all"]
    names = re.fullmatch(r"videopro\[(.*)\]", requirement)
    assert sorted(names[1].split(",")) == sorted({*extras} - {"all", "test", "docs", "perf"})


def test_the_extras_that_are_named_exist() -> None:
    folders = ("videopro", "modules", "train", "data_synthesis")
    texts = [path.read_text(encoding="utf-8") for name in folders for path in (ROOT / name).rglob("*.py")]
    call = re.compile(r"\b(?:(?:needs_extra|check_extra|install)\(\s*|Need\([^()]*extra=)\"(\w+)\"")
    named = {name for text in texts for name in call.findall(text)}
    assert named == {
        *("report", "benchmarks", "easyocr", "encoders", "tracking"),
        *("train", "qlora", "deepspeed", "ray", "serve"),
    }
    assert named <= set(PROJECT["optional-dependencies"])
