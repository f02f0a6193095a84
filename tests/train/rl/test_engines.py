"""Engines that the processes of a training share. They are threads here, and vLLM is a stand-in."""

import re
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support import engine_folder, stub_engine
from tests.support import grpo_world as grpo
from tests.support import sft_world as world
from videopro.engine.serving import AttachedEngine, EngineProcess
from videopro.errors import BackboneError, ConfigError
from videopro.train.rl import engine as engines_module
from videopro.train.rl.engine import TrainingEngines, training_engines
from videopro.train.runtime import loop as agreement

folder = engine_folder.folder
PROCESSES = 3
Rank = tuple[Any, Callable[[int], None]]


@pytest.fixture
def rank(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Rank:
    """The settings of a training, and what makes the current thread one of its processes, of which there are
    `PROCESSES` on a machine with six GPUs."""
    config = settings(folder)
    # Before there is a launcher's environment, in which it would wait for the other processes.
    assert config.device.type == "cpu"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3,4,5")
    monkeypatch.setenv("LOCAL_RANK", "0")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(PROCESSES))
    own = threading.local()
    barrier = threading.Barrier(PROCESSES, timeout=60)
    gathered: dict[int, list[Any]] = {}

    def gather(objects: list[Any]) -> list[Any]:
        barrier.wait()
        gathered[own.rank] = objects
        barrier.wait()
        return [each for number in range(PROCESSES) for each in gathered[number]]

    def state() -> Any:
        return SimpleNamespace(process_index=own.rank, local_process_index=own.rank, num_processes=PROCESSES)

    for module in (engines_module, agreement):
        monkeypatch.setattr(module, "gather_object", gather)
    monkeypatch.setattr(engines_module, "PartialState", state)

    def become(number: int) -> None:
        own.rank = number

    return config, become


def settings(folder: Path, **changes: Any) -> Any:
    vllm = {"program": str(folder / "vllm"), "gpus": 2}
    return grpo.settings(folder / "run", sampler="vllm", engine_gpus="2, 3,4,5", vllm=vllm, **changes)


def opened(config: Any, folder: Path) -> AbstractContextManager[TrainingEngines]:
    """The engines of a training that starts from this folder."""
    processor = SimpleNamespace(chat_template="")
    checkpoint = SimpleNamespace(source=str(folder), processor=processor)
    start: Any = SimpleNamespace(checkpoint=checkpoint, frames=8, pixels=1, adapter=None)
    return training_engines(config, world.model_settings("qwen3_vl"), start)


def started(folder: Path, rank: Rank, use: Callable[[int, TrainingEngines], Any]) -> list[Any]:
    """What `use` returns in each process within its engines, or the error."""
    config, become = rank

    def run(number: int) -> Any:
        become(number)
        try:
            with opened(config, folder) as engines:
                return use(number, engines)
        except BackboneError as error:
            return error

    with ThreadPoolExecutor(PROCESSES) as threads:
        return list(threads.map(run, range(PROCESSES)))


def test_an_engine_is_started_by_one_process_and_asked_by_all(folder: Path, rank: Rank) -> None:
    done = threading.Barrier(PROCESSES, timeout=60)

    def use(number: int, engines: TrainingEngines) -> Any:
        assert all(engine.answers() for engine in engines.engines)
        for engine in engines.started:
            engine.load_adapter("policy-v1", folder)
        done.wait()
        assert all(engine_folder.names(engine) == [folder.name, "policy-v1"] for engine in engines.engines)  # type: ignore[arg-type]
        done.wait()
        kinds = [type(engine) for engine in engines.engines]
        return [engine.url for engine in engines.engines], kinds, len(engines.started), engines.first

    first, second, third = started(folder, rank, use)
    assert first[0] == second[0] == third[0]
    assert len(set(first[0])) == 2
    assert first[1:] == ([EngineProcess, AttachedEngine], 1, 0)
    assert second[1:] == ([AttachedEngine, EngineProcess], 1, 1)
    assert third[1:] == ([AttachedEngine, AttachedEngine], 0, 0)
    starts = stub_engine.starts(folder)
    assert sorted(start["environment"]["CUDA_VISIBLE_DEVICES"] for start in starts) == ["2,3", "4,5"]
    for start in starts:
        pairs = dict(pairwise(start["arguments"]))
        # No training beside it: more than half of the memory.
        assert (pairs["--tensor-parallel-size"], pairs["--gpu-memory-utilization"]) == ("2", "0.85")


def test_all_processes_end_where_one_engine_does_not_start(folder: Path, rank: Rank) -> None:
    stub_engine.behave(folder, fails="torch.OutOfMemoryError: CUDA out of memory.", fails_on="4,5")
    errors = started(folder, rank, lambda number, engines: None)
    assert all(isinstance(error, BackboneError) for error in errors)
    assert "CUDA out of memory" in str(errors[1])
    # In one line, since the process that it happened to shows the log.
    for error in (errors[0], errors[2]):
        assert re.fullmatch(r"process 1 stopped: vLLM cannot serve .*", str(error))


def test_an_engine_has_to_answer_before_the_other_processes_give_up(folder: Path, rank: Rank) -> None:
    config, become = rank
    become(0)
    config.vllm = {**config.mapping("vllm"), "start_seconds": config.ddp_timeout}
    with pytest.raises(ConfigError, match="--ddp_timeout"), opened(config, folder):
        pass


@pytest.mark.parametrize(("process", "mark"), [(0, ""), (3, "-rank3")])
def test_one_process_may_start_several(
    process: int, mark: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The logs of machines are told apart even if all have one name."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,2,3,4,5")
    state = SimpleNamespace(process_index=process, local_process_index=0, num_processes=1)
    monkeypatch.setattr(engines_module, "PartialState", lambda: state)
    monkeypatch.setattr(socket, "gethostname", lambda: "node")
    with opened(settings(folder), folder) as engines:
        assert len(engines.started) == len(engines.engines) == 2
    logs = {path.name for path in (folder / "run" / "engine").glob("*.log")}
    assert logs == {f"node{mark}-gpu{gpus}.log" for gpus in ("2-3", "4-5")}


@pytest.mark.parametrize("named", ["4,5", "4, 5,", ["4", 5]])
def test_gpus_may_be_a_list_or_text(named: Any, tmp_path: Path) -> None:
    assert grpo.settings(tmp_path, sampler="vllm", engine_gpus=named).dedicated_gpus == ["4", "5"]
