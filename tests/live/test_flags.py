"""What the engine says when it refuses, and what users are told of it."""

import json

import pytest

from tests.support.live_engine import Engine
from videopro.backbones import Backbone, load_backbone
from videopro.backbones.server.endpoint import wanted_flag
from videopro.errors import BackboneError
from videopro.question import Question

pytestmark = pytest.mark.live

QUESTION = Question("Which colour is the box?", ("red", "blue"))


def test_too_many_log_probabilities(engine: Engine) -> None:
    """As a server that was started with --max-logprobs below 20 refuses 20 of them."""
    messages = [{"role": "user", "content": "Hi"}]
    content = {"model": "pocket", "messages": messages, "max_tokens": 1, "logprobs": True, "top_logprobs": 21}
    status, said = engine.post("/chat/completions", content)
    assert status == 400
    assert "--max-logprobs 20" in wanted_flag(json.loads(said)["error"]["message"])


def test_a_prompt_that_is_too_long(served: Backbone) -> None:
    with pytest.raises(BackboneError, match=r"status 400.*start vLLM with a larger --max-model-len"):
        served.answer(None, QUESTION, prompt="red " * 9000)


def test_an_adapter_that_is_not_served(engine: Engine) -> None:
    tuned = load_backbone(f"server:pocket@{engine.url}", adapter_model="nobody")
    with pytest.raises(
        BackboneError, match=r"no model 'nobody'; it offers: pocket.*--enable-lora.*--lora-modules"
    ):
        tuned.answer(None, QUESTION)
    tuned.close()
