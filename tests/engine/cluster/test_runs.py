"""Runs on a Ray cluster of several nodes in this machine: the same answers as here, and nothing is lost or
done twice when workers, nodes, the cluster or the command die. `bash launch/ray_tests.sh` runs them."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.colours import check_complete, finish, flags, lines, make_benchmark, rewrite, wait_for
from tests.support.ray_world import TestCluster, cluster, kill
from videopro.cli import read_yaml
from videopro.traces import Cost, Trace

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600)]
WORLD = "tests.support.colours"


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[TestCluster]:
    with cluster() as made:
        yield made


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Four videos with three questions each; the last video is none."""
    make_benchmark(tmp_path / "colours", broken=(3,))
    return tmp_path / "colours"


def start(on: TestCluster, root: Path, output: Path, *more: str, delay: float = 0.0) -> subprocess.Popen[str]:
    """One video at a time in each worker, unless `more` says otherwise."""
    own = [] if "--in-flight" in more else ["--in-flight", "1"]
    return on.start(WORLD, *flags(root, output, "--backbone", f"delay={delay}"), *own, *more)


def here(root: Path, output: Path, *more: str) -> str:
    command = [sys.executable, "-m", WORLD, *flags(root, output, "--backbone", "delay=0.0"), *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    return done.stdout


def said(output: Path) -> dict[str, Trace]:
    """The traces without what differs between any two runs."""
    return {trace.question_id: replace(trace, cost=Cost(), rounds=()) for trace in check_complete(output)}


def errors(output: Path, kind: str = "WorkerDied") -> dict[str, str]:
    """The errors of a kind, by their questions."""
    found = ((t.question_id, t.error) for t in check_complete(output))
    return {question: str(error) for question, error in found if error and error.type == kind}


def kinds(output: Path) -> set[str]:
    return {t.error.type for t in check_complete(output) if t.error}


def scores(output: Path) -> dict[str, Any]:
    """The summary without costs."""
    summary = json.loads((output / "summary.json").read_text())
    return {name: value for name, value in summary.items() if "cost" not in name and "seconds" not in name}


def test_a_run_goes_on_under_ray_and_back(two_nodes: TestCluster, root: Path, tmp_path: Path) -> None:
    both, alone = tmp_path / "both", tmp_path / "alone"
    here(root, both, "--limit", "3")
    key = read_yaml(both / "config.yaml")["run_key"]
    finish(start(two_nodes, root, both, "--limit", "9"))
    assert lines(both) == 9
    here(root, both)
    assert read_yaml(both / "config.yaml")["run_key"] == key
    here(root, alone)
    assert said(both) == said(alone)
    assert scores(both) == scores(alone)
    # The video that is none has the error that it has here.
    assert kinds(both) == {"VideoError"}


def test_a_worker_that_dies_on_a_question(two_nodes: TestCluster, root: Path, tmp_path: Path) -> None:
    """As here: the unit's questions go alone, and the one that kills its worker twice then is given up."""
    rewrite(root, "v1q1", "Which colour is shown (kill)?")
    output = tmp_path / "run"
    text = finish(start(two_nodes, root, output))
    assert "a worker died (its process or node is gone); starting another" in text
    died = errors(output)
    assert list(died) == ["v1q1"]
    assert "as did earlier workers on this question" in died["v1q1"]
    records = [json.loads(line) for line in (output / "work" / "deaths.jsonl").read_text().splitlines()]
    assert [record["ids"] for record in records] == [["v1q0", "v1q1", "v1q2"], ["v1q1"], ["v1q1"]]


def test_a_node_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    root, output = tmp_path / "colours", tmp_path / "run"
    make_benchmark(root, videos=8, questions=2)
    with cluster() as two:
        process = start(two, root, output, delay=2.0)
        # Both nodes work from here on for a while.
        wait_for(lambda: len(two.workers()) == 2 and lines(output) > 0)
        two.kill_node()
        text = finish(process)
        assert "a worker died" in text
    assert not any(trace.error for trace in check_complete(output, questions=16))


def test_a_worker_out_of_memory(root: Path, tmp_path: Path) -> None:
    """Ray's monitor kills it: here at 3 GiB more than what is in use now."""
    rewrite(root, "v2q2", "Which colour is shown (fill)?")
    memory = psutil.virtual_memory()
    threshold = (memory.total - memory.available + 3 * 2**30) / memory.total
    output = tmp_path / "run"
    monitor = {"RAY_memory_usage_threshold": f"{threshold:.4f}", "RAY_memory_monitor_refresh_ms": "100"}
    with cluster(1, **monitor) as watched:
        text = finish(start(watched, root, output))
    assert "a worker died (its node ran out of memory, and Ray ended it)" in text
    died = errors(output)
    assert list(died) == ["v2q2"]
    assert "ran out of memory" in died["v2q2"]


def test_the_command_is_killed_and_started_again(two_nodes: TestCluster, root: Path, tmp_path: Path) -> None:
    output = tmp_path / "run"
    process = start(two_nodes, root, output, delay=0.5)
    wait_for(lambda: lines(output) > 1)
    kill(process)
    before = lines(output)
    assert before < 12
    finish(start(two_nodes, root, output))
    assert kinds(output) == {"VideoError"}


def test_a_signal_ends_the_command_and_its_workers(
    two_nodes: TestCluster, root: Path, tmp_path: Path
) -> None:
    output = tmp_path / "run"
    process = start(two_nodes, root, output, delay=0.5)
    wait_for(lambda: lines(output) > 0)
    os.killpg(process.pid, signal.SIGINT)
    text = finish(process, status=130)
    assert text.endswith("stopped; re-run the same command to resume\n")
    assert "Traceback" not in text
    wait_for(lambda: not two_nodes.workers(), 30)


def test_the_cluster_dies(root: Path, tmp_path: Path) -> None:
    output = tmp_path / "run"
    with cluster(1) as dying:
        process = start(dying, root, output, delay=5.0)
        wait_for(lambda: lines(output) > 0)
        dying.kill_head()
        text = finish(process, status=2)
    *_, last = text.splitlines()
    assert last.startswith(
        f"error: the Ray cluster at {dying.address} does not respond any more; finished work is saved"
    )
    assert "Traceback" not in text


def test_models_that_differ(two_nodes: TestCluster, root: Path, tmp_path: Path) -> None:
    output = tmp_path / "run"
    text = finish(start(two_nodes, root, output, "--backbone", "salt=pid", delay=0.5), status=2)
    assert "loaded a different model from the others" in text


def test_a_model_that_cannot_be_loaded(two_nodes: TestCluster, root: Path, tmp_path: Path) -> None:
    output = tmp_path / "run"
    text = finish(start(two_nodes, root, output, "--model", "missing"), status=2)
    assert "error: model 'missing' does not exist; give another" in text
    assert not output.exists()


def test_no_room_for_a_worker(two_nodes: TestCluster, root: Path, tmp_path: Path) -> None:
    text = finish(start(two_nodes, root, tmp_path / "run", "--ray", "cpus=3"), status=2)
    assert "no node of the cluster has room for a worker of 3 CPUs and 0 GPUs (the largest has 1 CPU" in text
