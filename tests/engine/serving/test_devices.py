"""GPUs that only engines use, beside those of a training."""

import pytest

from videopro.engine.serving import dedicated_devices, engine_devices
from videopro.errors import ConfigError

NAMED = ("4", "5", "6", "7")


@pytest.fixture(autouse=True)
def eight(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight GPUs, and a launcher with four processes on the first four."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3,4,5,6,7")
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")


@pytest.mark.parametrize(
    ("gpus", "expected"), [(1, ["4", "5", "6", "7"]), (2, ["4,5", "6,7"]), (4, ["4,5,6,7"])]
)
def test_each_engine_gets_its_gpus(gpus: int, expected: list[str]) -> None:
    assert dedicated_devices(NAMED, gpus, trains_on_gpu=True) == expected


def test_a_process_without_a_launcher_trains_on_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name)
    assert dedicated_devices(["1", "7"], 1, trains_on_gpu=True) == ["1", "7"]


def test_names_are_those_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes take the first that it names."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "6,7,4,5,GPU-a,1")
    assert dedicated_devices(["GPU-a", "1"], 2, trains_on_gpu=True) == ["GPU-a,1"]
    with pytest.raises(ConfigError, match="the training runs on 6, 7, 4, 5"):
        dedicated_devices(["4", "1"], 1, trains_on_gpu=True)


@pytest.mark.parametrize(
    ("visible", "expected"), [("-1", [None]), ("2,-1,0", ["2"]), ("", [None]), (" 2, GPU-a", ["2", "GPU-a"])]
)
def test_a_negative_number_hides_those_after_it(
    visible: str, expected: list[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As CUDA reads the variable."""
    monkeypatch.delenv("LOCAL_RANK")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert engine_devices() == expected


@pytest.mark.parametrize(
    ("named", "gpus", "visible", "launched", "message"),
    [
        (["6", "8"], 1, "0,1", True, "engine_gpus is 6,8, but this process sees 0, 1"),
        (["0"], 1, "", True, "this process sees none"),
        (["6", "7", "6"], 1, "6,7", True, "GPU 6 twice"),
        (["4", "5", "6"], 2, "0,1,2,3,4,5,6,7", True, "3 GPUs .* with 2 each"),
        (["3", "4"], 1, "0,1,2,3,4,5,6,7", True, "the training runs on 0, 1, 2, 3"),
        (["0"], 1, "0,1", False, "runs on 0;"),
    ],
)
def test_what_is_not_possible_is_named(
    named: list[str], gpus: int, visible: str, launched: bool, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    if not launched:
        monkeypatch.delenv("LOCAL_RANK")
        monkeypatch.delenv("LOCAL_WORLD_SIZE")
    with pytest.raises(ConfigError, match=message):
        dedicated_devices(named, gpus, trains_on_gpu=True)
