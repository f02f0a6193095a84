"""The files of launch/ray: manifests against KubeRay's own schema, scripts with fakes of Slurm and Ray. What
they do on a real cluster is not tested."""

from __future__ import annotations

import copy
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.support import ROOT
from tests.support.kuberay_schema import TARGET, documents

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
