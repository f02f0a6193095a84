"""The versions of an adapter that an engine gets: their names, their files, whether they have an effect."""

import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support import engine_folder, stub_engine
from tests.support.engine_folder import make, names
from videopro.engine.serving import AdapterVersions, EngineProcess
from videopro.errors import BackboneError, RunError

folder = engine_folder.folder


def writes(text: str) -> Callable[[Path], None]:
    return lambda to: (to / "weights").write_text(text) and None


@pytest.fixture
def engine(folder: Path) -> Iterator[EngineProcess]:
    with make(folder, []) as started:
        yield started


def test_the_newest_two_versions_are_served_and_kept(engine: EngineProcess, tmp_path: Path) -> None:
    with AdapterVersions(engine, "policy", folder=tmp_path) as versions:
        (root,) = tmp_path.glob("videopro-adapters-*")
        for version in (0, 5, 10):
            assert versions.publish(version, writes(str(version))) == f"policy-v{version}"
        assert versions.publish(10, writes("never written")) == "policy-v10"
        assert names(engine) == ["model", "policy-v5", "policy-v10"]
        assert {path.name: (path / "weights").read_text() for path in root.iterdir()} == {
            "policy-v5": "5",
            "policy-v10": "10",
        }
        # What is lost with the engine comes back with the next one.
        os.kill(stub_engine.starts(tmp_path)[0]["pid"], signal.SIGKILL)
        versions.publish(15, writes("15"))
        assert set(names(engine)) == {"model", "policy-v10", "policy-v15"}
    assert not root.exists()


@pytest.mark.parametrize(("processes", "parent"), [("1", Path("/dev/shm")), ("8", None)])
def test_memory_holds_the_versions_where_it_has_room_for_those_of_all_processes(
    processes: str, parent: Path | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """16 GiB, as of a container; the next processes have yet to write theirs."""
    asked: list[Path | None] = []
    monkeypatch.setenv("LOCAL_WORLD_SIZE", processes)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=16 * 2**30))
    monkeypatch.setattr(tempfile, "mkdtemp", lambda prefix, dir: asked.append(dir) or str(tmp_path))
    engine: Any = None
    AdapterVersions(engine, "policy")
    assert asked == [parent]


def test_a_half_written_version_is_never_loaded(engine: EngineProcess, tmp_path: Path) -> None:
    def fails(to: Path) -> None:
        (to / "weights").write_text("half")
        raise OSError(28, "No space left on device")

    with AdapterVersions(engine, "policy", folder=tmp_path) as versions:
        with pytest.raises(RunError, match=r"policy-v1.*No space left"):
            versions.publish(1, fails)
        assert versions.version is None
        assert names(engine) == ["model"]
        assert versions.publish(1, writes("whole")) == "policy-v1"
        assert names(engine) == ["model", "policy-v1"]


def test_one_that_changes_nothing_is_refused(engine: EngineProcess, tmp_path: Path) -> None:
    """The stand-in's log-probabilities depend on the length of the adapter's text: with none, they are the
    base's."""
    with AdapterVersions(engine, "policy", folder=tmp_path) as versions:
        versions.check_effect(writes("some"))
        assert names(engine) == ["model"]
        with pytest.raises(BackboneError, match="answers with an adapter exactly as without it"):
            versions.check_effect(lambda to: (to / "weights").touch())
