"""Models that are loaded beside a training under ZeRO-3, which transformers would share out among its
processes: what answers inside programs, and the models behind the modules."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest
from transformers.integrations.deepspeed import (
    HfDeepSpeedConfig,
    is_deepspeed_zero3_enabled,
    unset_hf_deepspeed_config,
)

from tests.support.qwen_models import checkpoint
from videopro.backbones import load_backbone, loaded_whole, read_spec
from videopro.modules import ModuleModels, ModuleSettings


@pytest.fixture(autouse=True)
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


def test_what_answers_has_all_its_weights() -> None:
    backbone: Any = load_backbone(read_spec(str(checkpoint("qwen3_vl"))))
    assert all(weight.numel() > 0 for weight in backbone._runner.model.parameters())
    assert is_deepspeed_zero3_enabled()


def test_a_model_behind_the_modules_is_loaded_whole() -> None:
    models = ModuleModels(ModuleSettings())
    assert models._once("encoder", is_deepspeed_zero3_enabled) is False


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
