"""A LoRA policy's weights on their way to vLLM: TRL's own way changes the base, ours does not. vLLM is a
stand-in that takes what it is sent; the adapter, its merging and the names are PEFT's and TRL's."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForImageTextToText
from trl.generation.vllm_generation import DistributedBackend, VLLMGeneration

from tests.support import grpo_runs
from tests.support.qwen_models import checkpoint
from videopro.errors import ConfigError
from videopro.train import grpo
from videopro.train.rl import VideoGRPOConfig, vllm_weights
from videopro.train.rl.vllm_weights import send_copies
from videopro.train.runtime import read_settings, without_adapter
from videopro.train.runtime.trainable import linear_pattern


class Client:
    """Takes the weights, and calls `meanwhile` while they are sent."""

    def __init__(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        self.meanwhile = meanwhile
        self.sent: dict[str, torch.Tensor] = {}

    def update_named_params(self, metadata: Any, weights: Any) -> None:
        for (name, dtype, shape), (found, weight) in zip(metadata, weights, strict=True):
            assert (name, dtype, shape) == (found, "bfloat16", list(weight.shape))
            self.sent[name] = weight.clone()
            self.meanwhile()

    def reset_prefix_cache(self) -> None: ...


def generation(model: Any, client: Client) -> VLLMGeneration:
    """TRL's, without a vLLM."""
    made = VLLMGeneration.__new__(VLLMGeneration)
    made.model, made.mode, made._weight_metadata = model, "server", None
    made.accelerator = Accelerator(cpu=True)
    made._dist = DistributedBackend(made.accelerator)
    made.vllm_client = client
    return made


def policy(family: str, **changes: Any) -> tuple[Any, PeftModel]:
    """The base in bf16 as what answers keeps it, and the policy around the same weights."""
    torch.manual_seed(3)
    model = AutoModelForImageTextToText.from_pretrained(checkpoint(family), dtype=torch.bfloat16)
    base = without_adapter(model)
    pattern = linear_pattern(model, ["language"])
    settings = LoraConfig(r=4, target_modules=pattern, init_lora_weights=False, **changes)
    return base, get_peft_model(model, settings)


def stepped(tuned: PeftModel) -> None:
    """As an optimizer would, change what is trained."""
    for name, weight in tuned.named_parameters():
        if "lora_" in name:
            weight.data += 0.05 * torch.randn_like(weight)


def share_changed(base: Any, before: dict[str, torch.Tensor]) -> float:
    language = [
        name for name in before if "layers" in name and "visual" not in name and before[name].ndim > 1
    ]
    now = base.state_dict()
    changed = sum(int((now[name] != before[name]).sum()) for name in language)
    return changed / sum(before[name].numel() for name in language)


SYNCS = 20
CASES: list[tuple[str, dict[str, Any]]] = [
    ("qwen3_vl", {}),
    ("qwen2_5_vl", {"use_dora": True}),
    ("qwen3_vl_moe", {"target_parameters": ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]}),
]


@pytest.mark.parametrize("ours", [False, True])
def test_the_base_does_not_drift(ours: bool) -> None:
    base, tuned = policy("qwen3_vl")
    before = copy.deepcopy(base.state_dict())
    vllm = generation(tuned, Client())
    if ours:
        send_copies(vllm)
    for _ in range(SYNCS):
        stepped(tuned)
        vllm.sync_weights()
    if ours:
        assert share_changed(base, before) == 0
        assert all(torch.equal(weight, before[name]) for name, weight in base.state_dict().items())
    else:
        assert share_changed(base, before) > 0.2


@pytest.mark.parametrize(("family", "changes"), CASES)
def test_what_is_sent_is_the_merged_policy_and_the_base_goes_on_answering(
    family: str, changes: dict[str, Any]
) -> None:
    base, tuned = policy(family, **changes)
    before = copy.deepcopy(base.state_dict())
    expected = copy.deepcopy(tuned).merge_and_unload().state_dict()
    drifted: list[float] = []
    client = Client(lambda: drifted.append(share_changed(base, before)))
    vllm = generation(tuned, client)
    send_copies(vllm)
    vllm.sync_weights()
    assert max(drifted) == 0
    assert client.sent.keys() == expected.keys()
    assert all(torch.equal(client.sent[name], weight) for name, weight in expected.items())
    assert any(not torch.equal(expected[name], before[name]) for name in before)
    # Still a policy: an adapter around the base's own weights.
    own = {id(weight) for weight in base.parameters()}
    assert own <= {id(weight) for weight in tuned.parameters()}
    assert not any(layer.merged for layer in tuned.modules() if hasattr(layer, "merged_adapters"))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"load_in_4bit": "true"}, "with an adapter on a quantized base"),
        ({"load_in_8bit": "true", "adapter": "there", "use_peft": "false"}, "on a quantized base"),
    ],
)
def test_where_copies_cannot_be_made_it_is_refused_before_a_model_is_loaded(
    changes: dict[str, Any], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = grpo_runs.arguments(tmp_path / "run", prompt_video="false", use_vllm="true", **changes)
    words[words.index("--model_name_or_path") + 1] = "/no/such/model"
    assert grpo.main(words) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("sharded", ["is_deepspeed_zero3_enabled", "is_fsdp_enabled"])
def test_sharded_weights_are_refused(sharded: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_weights, sharded, lambda: True)
    words = grpo_runs.arguments(tmp_path / "run", prompt_video="false", use_vllm="true")
    with pytest.raises(ConfigError, match="use ACCELERATE=multi_gpu or zero2, or use_vllm: false"):
        vllm_weights.check_vllm(*read_settings(VideoGRPOConfig, "grpo", words))
    whole = grpo_runs.arguments(tmp_path / "run", prompt_video="false", use_vllm="true", use_peft="false")
    vllm_weights.check_vllm(*read_settings(VideoGRPOConfig, "grpo", whole))
