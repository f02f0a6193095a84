"""Engines that VideoPro starts itself, with a real vLLM: a run, training whose engine dies, an adapter that
does not fit."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from tests.support.live_engine import START_SECONDS
from videopro import benchmarks
from videopro.backbones import load_backbone
from videopro.backbones.qwen import find_checkpoint
from videopro.commands.infer import main as infer
from videopro.engine.serving import AdapterVersions, EngineProcess, EngineSettings, ServedModel
from videopro.errors import BackboneError
from videopro.pocket import adapter_dir, model_dir
from videopro.question import prompts

pytestmark = [pytest.mark.live, pytest.mark.timeout(3 * START_SECONDS)]

PLANNER = "pocket-sft"


@pytest.fixture(scope="module")
def program() -> str:
    """The environment with vLLM."""
    named = os.environ.get("LIVE_ENGINE_PROGRAM")
    if not named:
        pytest.fail("these tests need vLLM: run them with bash launch/live.sh")
    return named


def letters(output: Path) -> dict[str, Any]:
    lines = [json.loads(line) for line in (output / "traces.jsonl").read_text().splitlines()]
    return {line["question_id"]: line["final"]["letter"] for line in lines}


def test_a_run_with_an_engine_of_its_own_answers_as_the_local_model(program: str, tmp_path: Path) -> None:
    run = ("--benchmark", "pocket", "--split", "test", "--limit", "6", "--method", "videopro")
    common = (*run, "--model", "pocket")
    served = ("--engine", "vllm", "--vllm", f"program={program}")
    assert infer([*common, *served, "--output", str(tmp_path / "served")]) == 0
    assert infer([*common, "--output", str(tmp_path / "local")]) == 0
    assert letters(tmp_path / "served") == letters(tmp_path / "local")


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Prompts for plans about a video of the pocket world."""
    benchmark = benchmarks.load("pocket", split="test")
    items = benchmark.select(limit=4, ids=(), seed=0)
    path = tmp_path_factory.mktemp("rows") / "grpo.jsonl"
    lines = [
        {
            "id": item.id,
            "kind": "plan",
            "video": str(item.video),
            "question": item.question.text,
            "choices": list(item.question.choices),
            "answer": "A",
            "oracle_mode": "native",
            "prompt": prompts.plan(item.question),
        }
        for item in items
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def grpo(rows: Path, output: Path, program: str, *more: str) -> subprocess.Popen[str]:
    modules = json.dumps({"encoder": "none", "ocr": "none"})
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "videopro", "grpo", "--config", "pocket", "--adapter", PLANNER),
            *("--train_data", str(rows), "--output_dir", str(output), "--modules", modules),
            *("--gradient_accumulation_steps", "2", "--max_steps", "3", "--temperature", "1.0"),
            *("--max_completion_length", "160", "--save_strategy", "no"),
            *("--sampler", "vllm", "--vllm", json.dumps({"program": program}), *more),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.parametrize(
    ("more", "versions"),
    [
        pytest.param((), (0, 1, 2), id="on-policy"),
        # The engine dies while it writes the second round beside the first update.
        pytest.param(("--async_rollouts", "true"), (0, 0, 1), id="ahead"),
    ],
)
def test_training_goes_on_when_its_engine_is_killed_in_mid_step(
    more: tuple[str, ...], versions: tuple[int, int, int], program: str, rows: Path, tmp_path: Path
) -> None:
    output = tmp_path / "run"
    training = grpo(rows, output, program, *more)
    replies = 6 if not more else 20
    log = output / "engine" / "rank0.log"

    def kill() -> None:
        """The engine's process, when it has served some replies."""
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and training.poll() is None:
            if log.exists() and log.read_text(errors="replace").count("/v1/chat/completions") > replies:
                command = ["pgrep", "-f", "api_server.*--served-model-name pocket --host"]
                for pid in subprocess.run(command, capture_output=True, text=True).stdout.split():
                    if f"PPid:\t{guard_of(training.pid)}" in Path(f"/proc/{pid}/status").read_text():
                        os.kill(int(pid), signal.SIGKILL)
                        return
            time.sleep(0.05)

    killer = threading.Thread(target=kill)
    killer.start()
    said, _ = training.communicate(timeout=2 * START_SECONDS)
    killer.join()
    assert training.returncode == 0, said
    assert "starting it again" in said
    state = json.loads((output / "training_record.json").read_text())
    assert state
    lines = [json.loads(line) for line in (output / "programs.jsonl").read_text().splitlines()]
    # Every reply of each step, once.
    assert [line["policy_version"] for line in lines] == [version for version in versions for _ in range(16)]
    assert [line["step"] for line in lines] == [0] * 16 + [1] * 16 + [2] * 16
    ratios = [part.split("'")[2] for part in said.split("importance_sampling_ratio/mean")[1:]]
    assert ratios
    for ratio in ratios:
        assert float(ratio) == pytest.approx(1, abs=0.02)


def guard_of(parent: int) -> int:
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return next(int(pid) for pid in children if b"guard.py" in Path(f"/proc/{pid}/cmdline").read_bytes())


@pytest.fixture(scope="module")
def own_engine(program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    """Of the pocket model with marks around a video in its chat template, as Qwen3-VL's has them."""
    root = tmp_path_factory.mktemp("engine")
    folder, log = shutil.copytree(model_dir(), root / "model"), root / "engine.log"
    template = folder / "chat_template.jinja"
    marked = template.read_text().replace("<|video_pad|>", "<|vision_start|><|video_pad|><|vision_end|>")
    template.write_text(marked)
    published = find_checkpoint(str(folder)).marked("published").processor.chat_template
    model = ServedModel(str(folder), "pocket", images=16, rank=32, chat_template=published)
    with EngineProcess(EngineSettings(program=program), model, log=log) as engine:
        yield engine


def test_an_engine_that_was_started_here_makes_the_published_prompt(own_engine: EngineProcess) -> None:
    with closing(load_backbone(f"server:pocket@{own_engine.url}")) as served:
        assert served.identity()["video_marks"] == "published"
        assert served.notes == ()


def test_an_adapter_whose_names_do_not_fit_is_refused(own_engine: EngineProcess, tmp_path: Path) -> None:
    shipped = adapter_dir(PLANNER)
    weights = load_file(shipped / "adapter_model.safetensors")

    def write(folder: Path, old: str = "", new: str = "") -> None:
        (folder / "adapter_config.json").write_bytes((shipped / "adapter_config.json").read_bytes())
        save_file(
            {name.replace(old, new) if old else name: weight for name, weight in weights.items()},
            folder / "adapter_model.safetensors",
        )

    with AdapterVersions(own_engine, "policy", folder=tmp_path) as versions:
        versions.check_effect(write)
        with pytest.raises(BackboneError, match=r"exactly as without it|refuses load_lora_adapter"):
            versions.check_effect(lambda folder: write(folder, "language_model.layers", "language.layers"))
        assert versions.publish(3, write) == "policy-v3"
