"""A missing extra is one line that says what to install."""

from __future__ import annotations

import ast
import json
import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from trl import ModelConfig

from tests.support import ROOT
from tests.support.hidden_packages import run_without
from videopro.backbones.qwen import find_checkpoint
from videopro.benchmarks import load
from videopro.cli import COMMANDS, MissingExtra, check_extra, check_needs, needs_extra, tracker_needs
from videopro.errors import ConfigError
from videopro.modules.models import load_ocr
from videopro.modules.models.encoders import load_encoder, load_text_encoder
from videopro.pocket import model_dir
from videopro.train.finetune import VideoSFTConfig
from videopro.train.runtime import load_trainable, read_settings
from videopro.train.runtime.setup import TrainingSetup

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# What only an extra brings, by the names that are imported.
OPTIONAL = [
    *("trl", "datasets", "pyarrow", "deepspeed", "bitsandbytes", "matplotlib", "jinja2"),
    *("tensorboard", "wandb", "trackio", "sentence_transformers", "timm", "easyocr"),
    *("fastapi", "uvicorn", "starlette", "python_multipart", "prometheus_client", "mcp"),
]
# What each command that cannot be imported without an extra says.
TRAIN = "pip install 'videopro[train]'"
REFUSED = {
    "sft": f"videopro sft needs trl: {TRAIN}",
    "grpo": f"videopro grpo needs trl: {TRAIN}",
    "rejection": f"videopro rejection needs trl: {TRAIN}",
    "merge": f"videopro merge needs trl: {TRAIN}",
}

ALL_COMMANDS = """
import contextlib, io, runpy

results = []
for words in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    sys.argv = list(words)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            runpy.run_module(words[0], run_name="__main__", alter_sys=True)
        except SystemExit as stopped:
            results.append([stopped.code, out.getvalue(), err.getvalue()])
print(json.dumps(results))
"""


def test_without_any_extra_every_command_helps_and_names_the_extra() -> None:
    asked = [["videopro", *name.split(), "--help"] for name in COMMANDS]
    asked += [["videopro", name] for name in REFUSED]
    asked += [["videopro", "completion", "bash"], ["videopro", "serve", "--model", "pocket"]]
    done = run_without(OPTIONAL, ALL_COMMANDS, json.dumps(asked))
    assert done.returncode == 0, done.stderr[-3000:]
    results = json.loads(done.stdout.splitlines()[-1])
    said = {" ".join(words): result for words, result in zip(asked, results, strict=True)}
    for name in COMMANDS:
        code, out, err = said[f"videopro {name} --help"]
        assert (code, len(out) > 100, err) == (0, True, ""), name
        if name in REFUSED:
            assert said[f"videopro {name}"] == [2, "", f"error: {REFUSED[name]}\n"]
    # What only we have, and where the rest is.
    for name, own in (("sft", "--projector_lr"), ("grpo", "--reward_workers"), ("rejection", "--samples")):
        out = said[f"videopro {name} --help"][1]
        assert own in out, name
        assert f"videopro {name} --" in out, "an example"
    for name in ("sft", "grpo"):
        out = said[f"videopro {name} --help"][1]
        assert "--train_data" in out
        assert f"{name.upper()}Config" in out
    missing = "error: videopro serve needs starlette: pip install 'videopro[serve]'\n"
    assert said["videopro serve --model pocket"] == [2, "", missing]
    code, out, _ = said["videopro completion bash"]
    assert (code, "rejection" in out, "--redo-errors" in out) == (0, True, True)


def annotations(folder: Path, name: str) -> Path:
    path = folder / name
    path.write_bytes(b"PAR1")
    return path


@pytest.mark.parametrize(
    ("package", "asked", "expected"),
    [
        ("easyocr", lambda _: load_ocr("easyocr:en"), "ocr=easyocr needs easyocr: EXTRA[easyocr]"),
        (
            "sentence_transformers",
            lambda _: load_text_encoder("BAAI/bge-m3"),
            "a text encoder needs sentence_transformers: EXTRA[encoders]",
        ),
        (
            "timm",
            lambda _: load_encoder("pe_video:facebook/pe-av-small"),
            "a pe_video encoder needs timm: EXTRA[encoders]",
        ),
        (
            "pyarrow",
            lambda folder: load(
                "lvbench", root=folder, annotations=str(annotations(folder, "questions.parquet"))
            ),
            "questions.parquet needs pyarrow: EXTRA[benchmarks]",
        ),
        (
            "datasets",
            lambda folder: load("lvbench", root=folder, annotations="hf:someone/LVBench"),
            "hf:someone/LVBench needs datasets: EXTRA[benchmarks]",
        ),
        (
            "trackio",
            lambda _: check_needs(tracker_needs(["trackio"])),
            "report_to trackio: needs the package trackio; to install: EXTRA[tracking]",
        ),
        (
            "wandb",
            lambda folder: TrainingSetup.of(
                VideoSFTConfig(output_dir=str(folder), report_to=["wandb"], use_cpu=True, bf16=False),
                ModelConfig(model_name_or_path="pocket"),
            ),
            "to install: EXTRA[tracking]",
        ),
        (
            "bitsandbytes",
            lambda _: load_trainable(
                find_checkpoint(str(model_dir())), ModelConfig(load_in_4bit=True, use_peft=True)
            ),
            "load_in_4bit or load_in_8bit needs bitsandbytes: EXTRA[qlora]",
        ),
        (
            "deepspeed",
            lambda folder: read_settings(
                VideoSFTConfig, "sft", ["--deepspeed", "zero.json", "--output_dir", str(folder)]
            ),
            "training under DeepSpeed needs deepspeed: EXTRA[deepspeed]",
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
    with pytest.raises(ConfigError) as error:
        asked(tmp_path)
    assert str(error.value).endswith(expected.replace("EXTRA[", "pip install 'videopro[").replace("]", "]'"))


def test_accelerates_zero_configs_need_deepspeed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deepspeed", None)
    monkeypatch.setenv("ACCELERATE_USE_DEEPSPEED", "true")
    with pytest.raises(MissingExtra, match=r"pip install 'videopro\[deepspeed\]'"):
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


def sources() -> dict[Path, str]:
    folders = ("videopro", "modules", "train", "data_synthesis")
    return {
        path: path.read_text(encoding="utf-8") for name in folders for path in (ROOT / name).rglob("*.py")
    }


def test_all_holds_every_extra_but_those_for_work_on_the_project() -> None:
    extras = PROJECT["optional-dependencies"]
    (requirement,) = extras["all"]
    names = re.fullmatch(r"videopro\[(.*)\]", requirement)
    assert names is not None
    assert sorted(names[1].split(",")) == sorted({*extras} - {"all", "test", "docs", "perf"})


def test_the_extras_that_are_named_exist() -> None:
    named = set()
    for text in sources().values():
        for node in ast.walk(ast.parse(text)):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in ("needs_extra", "check_extra", "install")
                and isinstance(node.args[0], ast.Constant)
            ):
                named.add(node.args[0].value)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Need":
                given = {word.arg: word.value for word in node.keywords}
                named |= {extra.value for extra in [given.get("extra")] if isinstance(extra, ast.Constant)}
    assert named == {
        *("report", "benchmarks", "easyocr", "encoders", "tracking"),
        *("train", "qlora", "deepspeed", "ray", "serve"),
    }
    assert named <= set(PROJECT["optional-dependencies"])


def test_the_sentence_is_written_once() -> None:
    told = [
        path.name
        for path, text in sources().items()
        if re.search(r"pip install[^\n]*(?:videopro\[|-e )|install videopro\[", text)
    ]
    assert told == ["needs.py"]


def test_an_installed_package_is_enough() -> None:
    check_extra("report", "a report", "json")
    with needs_extra("report", "a report"):
        import json as found
    assert found is json
