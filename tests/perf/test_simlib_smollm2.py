"""SmolLM2 on simlib: packed questions read what each would read alone, whatever is written together; and a
training that was stopped goes on."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from perf import simlib_smollm2
from perf.simlib_smollm2 import SmolPlanner, SmolSettings, adapted, pack, split_prompt
from videopro.methods.planners import PlanRequest
from videopro.question import Question

REFERENCE = [5, 9, 2, 7, 7, 3]
BLOCKS = [([4, 8, 1], [6, 2]), ([11, 3], [9, 9, 4, 10]), ([12], [1])]


class Letters:
    """A tokenizer whose tokens are letters."""

    eos_token_id = 0

    def encode(self, text: str, add_special_tokens: bool) -> list[int]:
        return [ord(letter) for letter in text.replace(simlib_smollm2.END, "\0")]

    def decode(self, ids: list[int]) -> str:
        return "".join(map(chr, ids))


class Words(Letters):
    """A tokenizer whose tokens are words, of which many share one."""

    def encode(self, text: str, add_special_tokens: bool) -> list[int]:
        return [sum(map(ord, word)) % 128 for word in text.split()]


def tiny() -> Any:
    torch.manual_seed(3)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "vocab_size": 128}
    config = LlamaConfig(
        **sizes, num_attention_heads=4, num_key_value_heads=2, initializer_range=0.3, eos_token_id=0
    )
    return LlamaForCausalLM(config).eval()


def test_a_packed_block_sees_what_it_sees_alone() -> None:
    model, packed = tiny(), pack(REFERENCE, BLOCKS)
    model.set_attn_implementation("packed")
    with torch.no_grad():
        together = model(input_ids=packed.ids, position_ids=packed.positions, packed=packed).logits[0]
    model.set_attn_implementation("eager")
    at = len(REFERENCE)
    for question, reply in BLOCKS:
        block = [*question, *reply]
        with torch.no_grad():
            alone = model(input_ids=torch.tensor([[*REFERENCE, *block]])).logits[0]
        torch.testing.assert_close(together[at : at + len(block)], alone[len(REFERENCE) :])
        torch.testing.assert_close(together[: len(REFERENCE)], alone[: len(REFERENCE)])
        # What each token of the reply is predicted from.
        assert packed.targets[at + len(question) - 1 : at + len(block) - 1].tolist() == reply
        at += len(block)
    assert (packed.targets >= 0).sum() == sum(len(reply) for _, reply in BLOCKS)


def test_replies_that_are_written_together_are_those_that_are_written_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(simlib_smollm2, "LONGEST", 12)
    model, letters = tiny(), Letters()
    questions = [Question(text, ("a", "bc")) for text in ("Which?", "Which of all these is it?")]
    references = [
        "- `grab_moss(video)`: Tell the weather -> answer",
        "- `comb_tide(video)`: Tell it -> answer",
    ]
    requests = [PlanRequest("plan", "", asked, shown) for shown in references for asked in questions]
    planner = SmolPlanner(model, letters, is_whole=False)
    together = [reply.text for reply in planner.write(requests)]
    assert together == [planner.write([request])[0].text for request in requests]
    for request, text in zip(requests, together, strict=True):
        prompt = "".join(split_prompt(request.question, request.api_reference))
        ids = torch.tensor([letters.encode(prompt, False)])
        written = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=False)
        assert letters.decode(written[0, ids.shape[1] :].tolist()).split("\0")[0] == text
    assert len({*together}) > 1


def test_a_training_that_was_stopped_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simlib_smollm2, "_SAVED_SECONDS", 0.0)
    settings = SmolSettings(steps=3)
    drawn, draw = [], simlib_smollm2.training_row

    def stopping(*of: Any) -> Any:
        drawn.append(of[2])
        if drawn == [0, 1]:
            raise KeyboardInterrupt
        return draw(*of)

    def model() -> Any:
        torch.manual_seed(0)
        return adapted(tiny())

    def trained(checkpoint: str) -> list[dict[str, Any]]:
        kept: list[dict[str, Any]] = []
        simlib_smollm2.train(
            model(), Words(), settings, tmp_path / checkpoint, lambda took: kept.append(deepcopy(took))
        )
        return kept

    whole = trained("whole")
    monkeypatch.setattr(simlib_smollm2, "training_row", stopping)
    with pytest.raises(KeyboardInterrupt):
        trained("part")
    resumed = trained("part")
    assert drawn == [0, 1, 1, 2]
    assert [len(took["losses"]) for took in whole + resumed] == [1, 2, 3, 1, 2, 3]
    assert resumed[-1]["losses"] == whole[-1]["losses"]
    assert resumed[-1]["questions"] == whole[-1]["questions"]
