"""What is drawn, and what is read of it where a model's prompt ends inside a thought, as that of
Qwen3-VL-Thinking does."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from scipy.stats import chisquare

from tests.support.qwen_models import PIXELS, checkpoint, pictures, template
from videopro.backbones import BackboneConfig, GenerateRequest, Sampling
from videopro.backbones.qwen import QwenBackbone
from videopro.backbones.qwen.replies import SampledReply, TokenSampler, uniforms


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


# ---- tokens drawn for all rows at once, by numbers of each row's own ---------------------------------------

LOGITS = torch.tensor([1.0, -2.0, 0.5, 3.0, -0.5, 2.0])
DRAWS = 100_000


def drawn(sampling: Sampling, banned: list[int] | None = None) -> torch.Tensor:
    """How often each token is drawn."""
    marks = None if banned is None else torch.tensor([token in banned for token in range(len(LOGITS))])
    tokens, _ = TokenSampler(sampling, marks)(LOGITS.expand(DRAWS, -1), uniforms([(5, 0)], DRAWS)[0])
    return torch.bincount(tokens, minlength=len(LOGITS))


def test_tokens_have_the_softmaxs_distribution() -> None:
    for temperature in (1.0, 0.7, 2.5):
        expected = (LOGITS.double() / temperature).softmax(-1) * DRAWS
        assert chisquare(drawn(Sampling(1, temperature=temperature)), expected).pvalue > 0.001


def test_what_is_banned_or_beyond_top_p_is_never_drawn() -> None:
    # By hand: the most probable is 0.62, the next 0.23, so that 0.8 is reached by these two.
    counts = drawn(Sampling(1, temperature=1.0, top_p=0.8))
    assert counts.nonzero()[:, 0].tolist() == [3, 5]
    share = LOGITS[[3, 5]].double().softmax(-1) * DRAWS
    assert chisquare(counts[[3, 5]], share).pvalue > 0.001
    assert drawn(Sampling(1, temperature=1.0), banned=[3, 0])[[3, 0]].tolist() == [0, 0]


def test_the_first_numbers_do_not_depend_on_how_many_there_are() -> None:
    many = uniforms([(1, 0), (1, 1)], 700)
    assert torch.equal(uniforms([(1, 0), (1, 1)], 3), many[:, :3])
    assert torch.equal(uniforms([(1, 1)], 700)[0], many[1])
    assert not torch.equal(many[0], many[1])
    assert many.min() >= 0
    assert many.max() < 1


def test_a_row_of_nan_is_told_and_changes_no_other() -> None:
    sampler = TokenSampler(Sampling(1, temperature=1.0), None)
    logits = torch.stack([LOGITS, torch.full_like(LOGITS, torch.nan), LOGITS])
    numbers = uniforms([(1, row) for row in range(3)], 1)[:, 0]
    tokens, logprobs = sampler(logits, numbers)
    alone, _ = sampler(logits[[0, 2]], numbers[[0, 2]])
    assert tokens[[0, 2]].tolist() == alone.tolist()
    assert logprobs.isnan().tolist() == [False, True, False]
