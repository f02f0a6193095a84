"""GPUs that only engines use, beside those of a training."""

from __future__ import annotations

import pytest

from videopro.engine.serving import dedicated_devices, engine_devices
from videopro.errors import ConfigError

NAMED = ("4", "5", "6", "7")


@pytest.fixture(autouse=True)
def eight(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight GPUs, and a launcher with four processes on the first four."""
    for name, value in {
        "CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "4",
    }.items():
        monkeypatch.setenv(name, value)


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
    ("named", "gpus", "environment", "message"),
    [
        (["6", "8"], 1, {}, r"engine_gpus is 6,8, but this process sees 0, 1.*; name GPUs among those"),
        (["0"], 1, {"CUDA_VISIBLE_DEVICES": ""}, "this process sees none"),
        (["6", "7", "6"], 1, {}, "names GPU 6 twice"),
        (["4", "5", "6"], 2, {}, r"3 GPUs are no whole number of engines with 2 each \(vllm: gpus\)"),
        (["3", "4"], 1, {}, "the training runs on 0, 1, 2, 3; name others, or start fewer processes"),
        (["0"], 1, {"LOCAL_RANK": None, "LOCAL_WORLD_SIZE": None}, r"runs on 0; .*--num_processes N"),
    ],
)
def test_what_is_not_possible_is_named(
    named: list[str],
    gpus: int,
    environment: dict[str, str | None],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in environment.items():
        monkeypatch.delenv(name) if value is None else monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=message):
        dedicated_devices(named, gpus, trains_on_gpu=True)
