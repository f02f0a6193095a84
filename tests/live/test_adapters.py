"""Adapters under names of their own, loaded while the engine runs."""

from pathlib import Path

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForImageTextToText

from tests.support.live_engine import Engine
from videopro.backbones import Backbone, GenerateRequest, Sampling, load_backbone
from videopro.pocket import model_dir
from videopro.question import Question
from videopro.video import Frame

pytestmark = pytest.mark.live

NAME = "live-random"
QUESTION = Question("Which colour is the box?", ("red", "green", "blue"))


def make_adapter(folder: Path) -> Path:
    """An adapter with random weights, which changes every reply."""
    torch.manual_seed(0)
    base = AutoModelForImageTextToText.from_pretrained(model_dir(), dtype=torch.float32)
    targets = r"model\.language_model\.layers\.\d+\.(mlp|self_attn)\.\w+_proj"
    settings = LoraConfig(r=4, lora_alpha=8, target_modules=targets, init_lora_weights=False)
    get_peft_model(base, settings).save_pretrained(str(folder))
    return folder


def test_an_adapter_answers_by_its_name_and_the_base_by_its_own(
    engine: Engine, served: Backbone, seen: list[Frame], tmp_path: Path
) -> None:
    folder = make_adapter(tmp_path)
    engine.load_adapter(NAME, folder)
    both = load_backbone(f"server:pocket@{engine.url}", adapter_model=NAME)
    here = load_backbone("pocket", adapter=str(folder))
    try:
        # On at first, as with a local adapter.
        tuned, base = both.answer(seen, QUESTION), served.answer(seen, QUESTION)
        assert tuned.letters == pytest.approx(here.answer(seen, QUESTION).letters, abs=0.03)
        assert tuned.letters != pytest.approx(base.letters, abs=0.03)
        with both.adapter(False), here.adapter(False):
            assert both.answer(seen, QUESTION).letters == pytest.approx(base.letters, abs=0.03)
        asked = [GenerateRequest(seen, "What is it?")]
        greedy = Sampling(max_new_tokens=6)
        (live,), (local,) = both.generate_batch(asked, greedy), here.generate_batch(asked, greedy)
        assert live.text == local.text
        assert live.logprobs == pytest.approx(local.logprobs, abs=0.05)
    finally:
        both.close()
        here.close()
