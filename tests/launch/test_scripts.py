"""The launch scripts with a fake interpreter, pip and accelerate: what they check, install and start."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.support import ROOT

# Writes down how it was called. `-c` asks for the number of GPUs, `-m pip` installs.
PYTHON = """#!/usr/bin/env bash
case "$1" in
    -c) echo "${GPUS:-0}" ;;
    *) echo "python $*" >> "$CALLS"; sleep "${INSTALL_SECONDS:-0}" ;;
esac
"""
ACCELERATE = '#!/usr/bin/env bash\necho "accelerate $*" >> "$CALLS"\n'


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with the scripts and configs, and an environment of fakes into which nothing is installed
    yet."""
    folder = tmp_path / "checkout"
    shutil.copytree(ROOT / "launch", folder / "launch")
    shutil.copytree(ROOT / "videopro" / "configs", folder / "videopro" / "configs")
    shutil.copy(ROOT / "pyproject.toml", folder)
    binaries = folder / ".venv" / "bin"
    binaries.mkdir(parents=True)
    for name, text in (("python", PYTHON), ("accelerate", ACCELERATE)):
        (binaries / name).write_text(text)
        (binaries / name).chmod(0o755)
    return folder


def start(checkout: Path, script: str, *words: str, **environment: object) -> subprocess.Popen[str]:
    own = {name: str(value) for name, value in environment.items()}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("SLURM")}
    return subprocess.Popen(
        ["bash", str(checkout / "launch" / script), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**inherited, "CALLS": str(checkout / "calls"), **own},
    )


def run(checkout: Path, script: str, *words: str, **environment: object) -> tuple[int, str]:
    """Exit status and stderr."""
    process = start(checkout, script, *words, **environment)
    error = process.communicate(timeout=60)[1]
    return process.returncode, error


def calls(checkout: Path) -> list[str]:
    path = checkout / "calls"
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.parametrize("script", ["sft.sh", "grpo.sh", "sft_multinode.sh", "grpo_multinode.sh"])
def test_an_unknown_config_is_told_before_anything_is_installed(checkout: Path, script: str) -> None:
    several = {"NODES": 2, "NODE_RANK": 0, "MASTER_ADDR": "node0"}
    code, error = run(checkout, script, "pockte", "--output_dir", "x", **several)
    assert code == 2
    stage = script.removesuffix(".sh").removesuffix("_multinode")
    assert f"no config 'pockte' in videopro/configs/{stage}; did you mean 'pocket'?" in error
    assert "known: pocket, qwen2_5vl_7b, qwen3vl_8b" in error
    assert error.count("\n") == 1
    assert calls(checkout) == []


def test_an_unknown_accelerate_file_is_told_before_anything_is_installed(checkout: Path) -> None:
    code, error = run(checkout, "sft.sh", "pocket", ACCELERATE="zero33")
    assert code == 2
    assert "no config 'zero33' in videopro/configs/accelerate; did you mean 'zero3'?" in error
    assert calls(checkout) == []


@pytest.mark.parametrize(
    ("way", "extras"), [("", "train"), ("zero2", "train,deepspeed"), ("zero3", "train,deepspeed")]
)
def test_a_training_installs_what_it_needs_once(checkout: Path, way: str, extras: str) -> None:
    for _ in range(2):
        code, error = run(checkout, "sft.sh", "pocket", "--max_steps", "2", ACCELERATE=way)
        assert code == 0, error
    launched = (
        f"accelerate launch --config_file videopro/configs/accelerate/{way or 'one_cpu'}.yaml "
        "--num_processes 1 train/sft.py --config videopro/configs/sft/pocket.yaml --max_steps 2"
    )
    assert calls(checkout) == [
        f"python -m pip install --quiet --disable-pip-version-check -e .[{extras}]",
        launched,
        launched,
    ]


def test_a_config_of_ones_own_is_found_from_anywhere(checkout: Path, tmp_path: Path) -> None:
    own = tmp_path / "mine.yaml"
    own.write_text("seed: 1\n")
    code, error = run(checkout, "grpo.sh", str(own), GPUS=4)
    assert code == 0, error
    assert calls(checkout)[-1] == (
        "accelerate launch --config_file videopro/configs/accelerate/multi_gpu.yaml --num_processes 4 "
        f"train/grpo.py --config {own}"
    )


@pytest.mark.parametrize("way", ["one_cpu", "one_gpu"])
def test_one_process_where_one_is_asked_for(checkout: Path, way: str) -> None:
    code, error = run(checkout, "sft.sh", "pocket", GPUS=8, ACCELERATE=way)
    assert code == 0, error
    assert f"accelerate/{way}.yaml --num_processes 1 " in calls(checkout)[-1]


@pytest.mark.parametrize("stage", ["sft", "grpo"])
def test_several_machines_start_the_same_training(checkout: Path, stage: str) -> None:
    several = {"NODES": 2, "MASTER_ADDR": "node0", "GPUS": 8, "ACCELERATE": "zero3"}
    for rank in range(2):
        code, error = run(
            checkout, f"{stage}_multinode.sh", "qwen3vl_8b", "--seed", "1", NODE_RANK=rank, **several
        )
        assert code == 0, error
    assert calls(checkout)[1:] == [
        "accelerate launch --config_file videopro/configs/accelerate/zero3.yaml --num_machines 2 "
        f"--machine_rank {rank} --num_processes 16 --main_process_ip node0 --main_process_port 29500 "
        f"train/{stage}.py --config videopro/configs/{stage}/qwen3vl_8b.yaml --seed 1"
        for rank in range(2)
    ]


def test_some_gpus_of_each_machine_may_be_left_to_engines(checkout: Path) -> None:
    several = {"NODES": 2, "MASTER_ADDR": "node0", "GPUS": 8, "PROCESSES": 4}
    code, error = run(checkout, "grpo_multinode.sh", "qwen3vl_8b", NODE_RANK=1, **several)
    assert code == 0, error
    assert "--num_machines 2 --machine_rank 1 --num_processes 8 " in calls(checkout)[-1]


def test_one_machine_installs_and_the_others_wait_for_it(checkout: Path) -> None:
    several = {"NODES": 3, "MASTER_ADDR": "node0", "GPUS": 1, "INSTALL_SECONDS": 2}
    nodes = [
        start(checkout, "sft_multinode.sh", "qwen3vl_8b", NODE_RANK=rank, **several) for rank in range(3)
    ]
    said = [node.communicate(timeout=60)[1] for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0, 0], said
    made = calls(checkout)
    assert sum("pip install" in line for line in made) == 1
    assert "pip install" in made[0], "it is done before any of them trains"
    assert sum("accelerate launch" in line for line in made) == 3
    assert sum("Waiting until another process has installed" in text for text in said) == 2


def test_waiting_for_an_installation_has_a_limit(checkout: Path) -> None:
    with (checkout / ".venv" / ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        began = time.monotonic()
        code, error = run(checkout, "sft.sh", "pocket", SETUP_WAIT=1)
    assert code == 2
    assert time.monotonic() - began < 30
    assert "another process still holds" in error
    assert "after 1 s" in error
    assert calls(checkout) == []


def test_a_machine_without_a_gpu_is_no_node(checkout: Path) -> None:
    code, error = run(checkout, "grpo_multinode.sh", "pocket", NODES=2, NODE_RANK=1, MASTER_ADDR="node0")
    assert code == 2
    assert "machine 1 has no GPU" in error
    code, error = run(checkout, "grpo_multinode.sh", "pocket", NODE_RANK=1)
    assert code == 1
    assert "set NODES" in error


@pytest.mark.parametrize(
    ("failing", "code", "named"),
    [
        ("", 0, ""),
        ("ruff", 3, ""),
        ("mypy", 1, "mypy"),
        ("zensical", 1, "bash launch/docs.sh"),
        ("pytest", 3, ""),
    ],
)
def test_whatever_fails_beside_the_tests_fails_their_command(
    checkout: Path, failing: str, code: int, named: str
) -> None:
    """Each says one line and ends; the tests are still running when the others are done."""
    (checkout / "build" / "docs").mkdir(parents=True)
    tools = ("ruff", "lint-imports", "mypy", "zensical", "pytest")
    for name in tools:
        path = checkout / ".venv" / "bin" / name
        wait = "sleep 0.5\n" if name == "pytest" else ""
        path.write_text(
            f'#!/usr/bin/env bash\n{wait}echo "{name} says"\nexit {3 if name == failing else 0}\n'
        )
        path.chmod(0o755)
    process = start(checkout, "test.sh")
    shown, error = process.communicate(timeout=60)
    assert process.returncode == code
    told = [line.removesuffix(" says") for line in shown.splitlines() if line.endswith(" says")]
    assert set(told) == ({"ruff"} if failing == "ruff" else set(tools))
    assert ("FAILED with status 3" in shown) == bool(named)
    expected = f"error: {named} failed; its output is above, where it ended\n" if named else ""
    assert error == expected
