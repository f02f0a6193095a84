"""Indexing and synthesis on a Ray cluster of two nodes in this machine."""

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.support.colours import finish, make_video, wait_for
from tests.support.making_videos import as_pocket
from tests.support.ray_world import TestCluster, cluster, kill
from tests.support.stub_server import StubServer
from tests.support.synthesis import KEY, datasets, flags, own_world, root, rows, stub
from videopro.cli import read_yaml

__all__ = ["own_world", "root", "stub"]
pytestmark = [pytest.mark.ray, pytest.mark.timeout(600)]
SYNTHESIS = "tests.support.synthesis"


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[TestCluster]:
    with cluster() as made:
        yield made


def here(*command: str, status: int = 0) -> None:
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, timeout=180)
    assert done.returncode == status, done.stderr


def records(output: Path) -> list[str]:
    return [row["question_id"] for row in rows(output, "records.jsonl")]


def test_synthesis_writes_what_it_writes_here(
    two_nodes: TestCluster, root: Path, tmp_path: Path, stub: StubServer
) -> None:
    """The key is in the command's environment only, which no node has."""
    there, alone = tmp_path / "there", tmp_path / "alone"
    finish(two_nodes.start(SYNTHESIS, *flags(root, there, stub)))
    asked = len(stub.chats)
    here(SYNTHESIS, *flags(root, alone, stub))
    assert len(stub.chats) == 2 * asked
    assert sorted(records(there)) == sorted(records(alone))
    assert [sorted(data.splitlines()) for data in datasets(there)] == [
        sorted(data.splitlines()) for data in datasets(alone)
    ]
    keys = [read_yaml(folder / "config.yaml")["run_key"] for folder in (there, alone)]
    assert keys[0] == keys[1]
    assert all(KEY not in path.read_text() for path in there.rglob("*") if path.is_file())


def test_synthesis_goes_on_after_a_worker_and_the_command_died(
    two_nodes: TestCluster, root: Path, tmp_path: Path, stub: StubServer
) -> None:
    output = tmp_path / "synthesis"
    process = two_nodes.start(SYNTHESIS, *flags(root, output, stub, "--backbone", "delay=0.3"))
    wait_for(lambda: (output / "work" / "replies.jsonl").exists() and len(two_nodes.workers()) == 2)
    os.kill(two_nodes.workers()[0], signal.SIGKILL)
    wait_for(lambda: (output / "records.jsonl").exists() and records(output))
    kill(process)
    assert len(records(output)) < 9
    finish(two_nodes.start(SYNTHESIS, *flags(root, output, stub, "--backbone", "delay=0.0")))
    assert Counter(records(output)) == {f"v{v}q{q}": 1 for v in range(3) for q in range(3)}
    # Nothing is paid for twice.
    kept = [row["key"] for row in rows(output, "work/replies.jsonl")]
    assert len(kept) == len(set(kept))


def test_a_server_that_refuses_everything(two_nodes: TestCluster, root: Path, tmp_path: Path) -> None:
    with StubServer(lambda body: {}, key="another") as server:
        text = finish(two_nodes.start(SYNTHESIS, *flags(root, tmp_path / "synthesis", server)), status=2)
    assert text.count("error: ") == 1
    assert "Traceback" not in text


def test_indexing(two_nodes: TestCluster, tmp_path: Path) -> None:
    """Four videos, of which one is none: the same indexes as here."""
    videos = tmp_path / "videos"
    for number, colour in enumerate(("red", "green", "blue")):
        make_video(videos / f"v{number}.mp4", colour, seconds=25.0)
    (videos / "broken.mp4").write_bytes(b"this is no video" * 100)
    as_pocket(*videos.iterdir())
    words = [str(videos), "--encoder", "pocket", "--root"]
    text = finish(two_nodes.start("videopro", "index", *words, str(tmp_path / "there")), status=2)
    assert text.count("3 clips") == 3
    assert f"error: {videos}/broken.mp4" in text
    here("videopro", "index", *words, str(tmp_path / "here"), status=2)
    there, alone = (
        {path.relative_to(folder): load_file(path) for path in folder.rglob("*.safetensors")}
        for folder in (tmp_path / "there", tmp_path / "here")
    )
    assert len(there) == 3
    assert there.keys() == alone.keys()
    for path, vectors in there.items():
        for name, rows_there in vectors.items():
            np.testing.assert_allclose(rows_there, alone[path][name], atol=1e-6)
