"""What a process shares with its threads: the settings of a training under ZeRO-3, beside which models are
loaded whole (what answers inside programs, and the models behind the modules), and the GPU."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest
import torch
from transformers.integrations.deepspeed import (
    HfDeepSpeedConfig,
    is_deepspeed_zero3_enabled,
    unset_hf_deepspeed_config,
)

from tests.support.qwen_models import checkpoint
from videopro.backbones import load_backbone, loaded_whole, read_spec, sharing_gpu
from videopro.methods.program import run_parallel
from videopro.modules import ModuleModels, ModuleSettings


@pytest.fixture
def zero3() -> Iterator[None]:
    """As configs/accelerate/zero3.yaml has it."""
    pytest.importorskip("deepspeed")
    # Written before: it is no part of the training.
    checkpoint("qwen3_vl")
    held = HfDeepSpeedConfig({"zero_optimization": {"stage": 3}})
    try:
        assert held.is_zero3()
        yield
    finally:
        unset_hf_deepspeed_config()


@pytest.mark.usefixtures("zero3")
def test_what_answers_has_all_its_weights() -> None:
    backbone: Any = load_backbone(read_spec(str(checkpoint("qwen3_vl"))))
    assert all(weight.numel() > 0 for weight in backbone._runner.model.parameters())
    assert is_deepspeed_zero3_enabled()


@pytest.mark.usefixtures("zero3")
def test_a_model_behind_the_modules_is_loaded_whole() -> None:
    models = ModuleModels(ModuleSettings())
    assert models._once("encoder", is_deepspeed_zero3_enabled) is False


@pytest.mark.usefixtures("zero3")
def test_the_training_sees_its_settings_meanwhile() -> None:
    """Rewards load models in threads of their own, while the main thread gathers weights."""
    begun, ends = Event(), Event()

    def load() -> bool:
        with loaded_whole(), loaded_whole():
            begun.set()
            assert ends.wait(10)
        with loaded_whole():
            return is_deepspeed_zero3_enabled()

    with ThreadPoolExecutor(1) as threads:
        loading = threads.submit(load)
        assert begun.wait(10)
        assert is_deepspeed_zero3_enabled()
        ends.set()
        assert loading.result() is False
        assert threads.submit(is_deepspeed_zero3_enabled).result() is True


@pytest.fixture
def second_gpu(monkeypatch: pytest.MonkeyPatch) -> threading.local:
    """A process on the second of two GPUs; as in CUDA, a new thread's current one is the first."""
    current = threading.local()
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: getattr(current, "device", 0))
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: setattr(current, "device", device))
    torch.cuda.set_device(1)
    return current


@pytest.mark.usefixtures("second_gpu")
def test_programs_that_run_at_once_use_their_processs_gpu() -> None:
    meeting = threading.Barrier(2, timeout=30)

    def work(number: int) -> tuple[int, int]:
        meeting.wait()
        return threading.get_ident(), torch.cuda.current_device()

    first, second = run_parallel([0, 1], work, 2)
    assert isinstance(first, tuple)
    assert isinstance(second, tuple)
    assert len({first[0], second[0], threading.get_ident()}) == 3
    assert (first[1], second[1]) == (1, 1)


def test_a_gpu_that_nobody_uses_is_not_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(*_: object) -> int:
        raise AssertionError("it was opened")

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    monkeypatch.setattr(torch.cuda, "current_device", opened)
    monkeypatch.setattr(torch.cuda, "set_device", opened)
    with ThreadPoolExecutor(1, initializer=sharing_gpu()) as threads:
        assert threads.submit(int, "7").result() == 7
