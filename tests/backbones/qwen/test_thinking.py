"""A local model whose prompt ends inside a thought, as that of Qwen3-VL-Thinking does."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.qwen_models import PIXELS, checkpoint, pictures, template
from videopro.backbones import BackboneConfig, GenerateRequest, Sampling
from videopro.backbones.qwen import QwenBackbone
from videopro.backbones.qwen.replies import SampledReply


@pytest.fixture(scope="module")
def thinker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QwenBackbone]:
    folder = tmp_path_factory.mktemp("thinker")
    shutil.copytree(checkpoint("qwen3_vl"), folder, dirs_exist_ok=True)
    (folder / "chat_template.jinja").write_text(template(thinks=True, forced=True))
    backbone = QwenBackbone(BackboneConfig(str(folder), frames=4, pixels=PIXELS))
    yield backbone
    backbone.close()


def writes(backbone: QwenBackbone, text: str, monkeypatch: pytest.MonkeyPatch, *, ends: bool = True) -> None:
    """Let the model write this text, each token with log-probability -0.5 but the last two, -0.25."""
    ids = backbone._tokenizer(text, add_special_tokens=False)["input_ids"]
    logprobs = [-0.5] * (len(ids) - 2) + [-0.25] * 2
    reply = SampledReply(ids, logprobs, (0, -0.1) if ends else None)
    run: Any = backbone._run

    def write(
        state: Any, sampling: Any, draws: Any, *, on_reply: Any = lambda row, reply: None, **_: Any
    ) -> list[SampledReply]:
        for row in range(len(draws)):
            on_reply(row, reply)
        return [reply] * len(draws)

    monkeypatch.setattr(run, "generate", write)


def test_what_is_said_comes_after_the_thought(thinker: QwenBackbone, monkeypatch: pytest.MonkeyPatch) -> None:
    writes(thinker, "red or blue?\n</think>\n\nB.", monkeypatch)
    reply = thinker.generate(pictures(2), "What colour is the ring?")
    assert (reply.text, reply.finish) == ("B.", "stop")
    assert (reply.tokens, reply.logprobs) == (("B", "."), (-0.25,) * 2)
    assert reply.thoughts.startswith("red or blue?")
    assert len(reply.token_ids) == 2
    written = len(thinker._tokenizer("red or blue?\n</think>\n\nB.", add_special_tokens=False)["input_ids"])
    assert reply.tokens_out == written


def test_a_thought_that_is_cut_off_says_nothing(
    thinker: QwenBackbone, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It has no mark of its own: that was in the prompt."""
    writes(thinker, "It may be A. A", monkeypatch, ends=False)
    reply = thinker.generate(pictures(2), "What colour is the ring?", Sampling(9))
    assert (reply.text, reply.finish, reply.logprobs, reply.confidence) == ("", "length", (), 0.0)
    assert reply.thoughts == "It may be A. A"


def test_a_reply_that_is_begun_for_the_model_is_no_thought(
    thinker: QwenBackbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes(thinker, "B) blue", monkeypatch)
    (reply,) = thinker.generate_batch([GenerateRequest(None, "What?", prefill="Best option: (")])
    assert (reply.text, reply.thoughts) == ("B) blue", "")
