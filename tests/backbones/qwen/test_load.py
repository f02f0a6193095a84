"""Loading, adapters, identity, and the errors for missing files."""

import json
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file, save_file
from torch.utils._python_dispatch import TorchDispatchMode

from tests.support.qwen_models import (
    PIXELS,
    QUESTION,
    checkpoint,
    close,
    load,
    lora,
    official_inputs,
    pictures,
    reference,
)
from videopro.backbones import (
    BackboneConfig,
    GenerateRequest,
    PlannerRecord,
    Sampling,
    fingerprint,
    load_backbone,
)
from videopro.backbones.checks import has_files_of, identify
from videopro.backbones.fingerprint import folder_fingerprint
from videopro.backbones.qwen import QwenBackbone, find_checkpoint, layers
from videopro.backbones.qwen import backbone as backbone_module
from videopro.backbones.qwen import find as find_module
from videopro.backbones.qwen.load import video_settings
from videopro.backbones.qwen.static_batch import StaticBatch
from videopro.backbones.wrappers import BatchingBackbone
from videopro.errors import BackboneError, ConfigError
from videopro.pocket import MODEL_FOLDER
from videopro.question import prompts


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A private copy of a checkpoint, to damage."""
    return Path(shutil.copytree(checkpoint("qwen3_vl"), tmp_path / "model"))


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of qwen3_vl."""
    return str(lora("qwen3_vl", tmp_path_factory.mktemp("adapter")))


def rewrite(file: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the weights in a file."""
    weights = load_file(file)
    change(weights)
    save_file(weights, file, metadata={"format": "pt"})


@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3_vl", "qwen3_5"])
def test_an_adapted_answer_is_that_of_peft_and_off_is_the_base(family: str, tmp_path: Path) -> None:
    folder = lora(family, tmp_path / "adapter")
    plain = load(family).answer(pictures(4), QUESTION)
    own = load(family, adapter=str(folder))
    with own.adapter(False):
        assert close(own.answer(pictures(4), QUESTION), plain)
        with own.adapter(True):
            on = own.answer(pictures(4), QUESTION)
    # Its weights merged into the base.
    base, processor = reference(family)
    merged = PeftModel.from_pretrained(base, folder).merge_and_unload()
    with torch.no_grad():
        prompt = official_inputs(family, processor, pictures(4), prompts.multiple_choice(QUESTION))
        chances = merged(**prompt).logits[0, -1].double().softmax(-1)
    ids = processor.tokenizer.convert_tokens_to_ids(["A", "B", "C"])
    assert list(on.letters.values()) == pytest.approx(chances[ids].tolist(), abs=1e-5)
    assert max(abs(on.letters[key] - plain.letters[key]) for key in "ABC") > 1e-3


# ---- an adapter costs nothing in a step --------------------------------------------------------------------

ASKED = [GenerateRequest(None, "Which?", seed=seed) for seed in range(3)]
SAMPLED = Sampling(20, temperature=1.0)


class Operators(TorchDispatchMode):
    """Counts the operators of each step."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.count = 0
        self.of_steps: list[int] = []
        step = StaticBatch.step

        def counted(batch: StaticBatch) -> None:
            before = self.count
            with self:
                step(batch)
            self.of_steps.append(self.count - before)

        monkeypatch.setattr(StaticBatch, "step", counted)

    def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), settings: Any = None) -> Any:
        self.count += 1
        return function(*arguments, **settings or {})

    def of(self, own: QwenBackbone) -> int:
        """The operators of a token."""
        self.of_steps.clear()
        own.generate_batch(ASKED, SAMPLED)
        return min(self.of_steps)


def test_a_token_with_an_adapter_takes_the_operators_of_the_base(
    adapter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, own = load("qwen3_vl"), load("qwen3_vl", adapter=adapter)
    monkeypatch.setattr(layers, "free_bytes", lambda device: 0)
    apart = load("qwen3_vl", adapter=adapter)
    assert (own.versions, apart.versions) == ({"adapter": "merged in float32"}, {"adapter": "not merged"})
    operators = Operators(monkeypatch)
    of_base = operators.of(plain)
    assert operators.of(own) == of_base
    # Two layers, each with a query and a value projection: x A, x B, a factor, a sum.
    assert operators.of(apart) >= of_base + 4 * 4
    for one, other in zip(
        own.generate_batch(ASKED, SAMPLED), apart.generate_batch(ASKED, SAMPLED), strict=True
    ):
        assert one.token_ids == other.token_ids
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)
    # The base, before, between and after: to the bit.
    expected = plain.generate_batch(ASKED, SAMPLED)
    for _ in range(2):
        with own.adapter(False):
            assert operators.of(own) == of_base
            assert own.generate_batch(ASKED, SAMPLED) == expected
            assert own.answer(pictures(3), QUESTION) == plain.answer(pictures(3), QUESTION)
        assert own.generate_batch(ASKED, SAMPLED) != expected
    assert own.identity() == apart.identity()


def test_a_letter_by_the_base_leaves_replies_with_the_adapter_as_they_are(adapter: str) -> None:
    """Asked between two steps, which compute with the copy."""
    own = load("qwen3_vl", adapter=adapter)
    expected = [own.generate_batch([one], SAMPLED)[0].token_ids for one in ASKED]
    answer = load("qwen3_vl").answer(pictures(3), QUESTION)
    both = BatchingBackbone(own, adapter=True)
    with ThreadPoolExecutor(4) as threads:
        written = [threads.submit(both.generate_batch, [one], SAMPLED) for one in ASKED]
        letters = [both.with_adapter(False).answer(pictures(3), QUESTION) for _ in range(5)]
        assert [one.result()[0].token_ids for one in written] == expected
    assert all(close(letter, answer) for letter in letters)


@pytest.mark.parametrize(("free", "fits"), [(0, False), (4 * 12_288 - 1, False), (4 * 12_288, True)])
def test_a_quarter_of_the_free_memory_is_enough_for_a_copy(
    free: int, fits: bool, adapter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of two layers a query projection of 32 x 32 numbers of 4 bytes, and a value projection of 16 x 32.
    monkeypatch.setattr(layers, "free_bytes", lambda device: free)
    assert load("qwen3_vl", adapter=adapter).versions["adapter"].startswith("merged") == fits


def test_what_is_kept_for_replies_is_room_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU with memory for exactly 16 of them, half of which is given to replies."""
    own = load("qwen3_vl")
    run = own._runner
    # Two layers of 2 heads of 8 numbers of 4 bytes, keys and values; 20 tokens get room for 512.
    memory = 2 * 16 * 512 * run.token_bytes
    assert run.token_bytes == 2 * 2 * 2 * 8 * 4
    monkeypatch.setattr(backbone_module, "free_bytes", lambda device: memory - run.kept_bytes)
    monkeypatch.setattr(QwenBackbone, "device", SimpleNamespace(type="cuda"))
    assert own._slots(SAMPLED) == 16
    run._writer()._store.take("own keys", 0, (memory // 8,), torch.zeros(1))
    assert run.kept_bytes == memory // 2
    assert own._slots(SAMPLED) == 16


# ---- adapters that are on or off ---------------------------------------------------------------------------


def test_a_prefix_belongs_to_one_adapter_state(adapter: str) -> None:
    own = load("qwen3_vl", adapter=adapter)
    with own.prefix(pictures(2)) as made_on:
        on = own.answer(made_on, QUESTION)
        with own.adapter(False):
            with pytest.raises(BackboneError, match="made with the adapter on, but the adapter is off"):
                own.answer(made_on, QUESTION)
            with own.prefix(pictures(2)) as made_off:
                assert not close(own.answer(made_off, QUESTION), on)
        with pytest.raises(BackboneError, match="closed"):
            own.answer(made_off, QUESTION)
        assert close(own.answer(pictures(2), QUESTION), on)


def test_the_adapter_block_keeps_other_threads_out(adapter: str) -> None:
    own = load("qwen3_vl", adapter=adapter)
    on = own.answer(None, QUESTION)
    done: list[bool] = []
    with own.adapter(False):
        other = threading.Thread(target=lambda: done.append(close(own.answer(None, QUESTION), on)))
        other.start()
        other.join(0.2)
        assert not done
    other.join(10)
    assert done == [True]


def test_without_an_adapter_only_off_is_possible() -> None:
    own = load("qwen3_vl")
    with own.adapter(False):
        pass
    with pytest.raises(BackboneError, match="has no adapter"), own.adapter(True):
        pass


def test_an_adapter_that_does_not_fit_is_refused(adapter: str, tmp_path: Path) -> None:
    weights = load_file(f"{adapter}/adapter_model.safetensors")
    fewer = {name: weights[name] for name in sorted(weights)[1:]}
    moved = {name.replace("layers.1", "layers.7"): weight.clone() for name, weight in weights.items()}
    for held, message in (
        (fewer, "has 7 weights, but 8 are needed"),
        (moved, r"has 8 weights, but 8 are needed \(missing: .*layers\.1"),
        (weights | moved, "has 12 weights, but 8 are needed"),
    ):
        shutil.copytree(adapter, tmp_path, dirs_exist_ok=True)
        save_file(held, tmp_path / "adapter_model.safetensors", metadata={"format": "pt"})
        with pytest.raises(BackboneError, match=message):
            load("qwen3_vl", adapter=str(tmp_path))
    for family, folder, message in (
        ("qwen3_5", adapter, "does not fit model"),
        ("qwen3_vl", str(checkpoint("qwen3_vl")), r"no adapter_config\.json"),
        ("qwen3_vl", str(tmp_path / "nowhere"), "there is no such folder"),
    ):
        with pytest.raises(BackboneError, match=message):
            load(family, adapter=folder)


def test_identity_tells_models_apart(copied: Path, adapter: str) -> None:
    config = BackboneConfig(str(copied), frames=8, pixels=PIXELS)
    first = QwenBackbone(config).identity()
    json.dumps(first)
    assert first["dtype"] == "float32"
    assert QwenBackbone(config).identity() == first
    assert QwenBackbone(config.but(frames=4)).identity() != first
    assert QwenBackbone(config.but(dtype="bf16")).identity() != first
    adapted = QwenBackbone(config.but(adapter=adapter))
    assert adapted.identity()["adapter"] is not None
    with adapted.adapter(False):
        assert adapted.identity() == first
    rewrite(copied / "model.safetensors", lambda weights: weights["lm_head.weight"][0, 0].add_(1))
    assert QwenBackbone(config).identity()["weights"] != first["weights"]


@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3_vl", "qwen3_5"])
def test_identity_does_not_need_the_weights(family: str, tmp_path: Path) -> None:
    plain = BackboneConfig(str(checkpoint(family)), frames=8, pixels=PIXELS)
    tuned = plain.but(adapter=str(lora(family, tmp_path)))
    for config in (tuned, plain.but(dtype="bf16", attention="eager")):
        assert identify(config, {}) == QwenBackbone(config).identity()
    before = identify(tuned, {})["adapter"]
    assert has_files_of(tuned, identify(tuned, {}))
    assert not has_files_of(tuned, {**identify(tuned, {}), "weights": "0"})
    rewrite(
        tmp_path / "adapter_model.safetensors", lambda weights: [each.add_(1) for each in weights.values()]
    )
    assert identify(tuned, {})["adapter"] != before
    assert not has_files_of(tuned, {**identify(tuned, {}), "adapter": before})
    assert not has_files_of(plain.but(model=str(tmp_path / "nowhere")), identify(plain, {}))
    with pytest.raises(BackboneError, match="there is no such folder"):
        identify(plain.but(adapter=str(tmp_path / "nowhere")), {})


def test_the_fingerprint_of_a_large_file_samples_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprint, "_LARGEST_WHOLE_FILE", 1000)
    monkeypatch.setattr(fingerprint, "_BLOCK", 10)
    data = bytearray(range(256)) * 8
    path = tmp_path / "model.safetensors"
    prints = []
    for place in (None, 3, len(data) - 1, None):
        changed = bytearray(data)
        if place is not None:
            changed[place] ^= 1
        path.write_bytes(changed)
        prints.append(folder_fingerprint(tmp_path))
    assert prints[0] == prints[3]
    assert len(set(prints[:3])) == 3
    (tmp_path / "trainer_state.json").write_text("{}")
    assert folder_fingerprint(tmp_path) == prints[3]


def test_bf16_is_close_to_float32() -> None:
    half = load("qwen3_vl", dtype="bf16", attention="eager")
    exact = load("qwen3_vl")
    rounded, full = (own.answer(pictures(4), QUESTION) for own in (half, exact))
    # Rounding to 8 bits in every layer of a model with large random weights.
    assert rounded.letters["A"] == pytest.approx(full.letters["A"], rel=0.3)
    assert rounded.letters["A"] != full.letters["A"]


def test_budgets_come_from_the_checkpoint_unless_given(copied: Path) -> None:
    own = QwenBackbone(BackboneConfig(str(copied)))
    assert (own.frames, own.pixels) == (64, 50_176)
    (copied / "videopro.json").write_text('{"frames": 16, "pixels": 16384}')
    own = load_backbone(str(copied))
    assert own.frames == 16
    assert own.frame_size(144, 256, 16) == (96, 160)
    assert load_backbone(str(copied), frames=4).frames == 4


def test_the_budgets_of_a_checkpoint_on_the_hub_are_fetched(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """transformers downloads only what it reads itself."""
    fetched = []

    def fetch(source: str, name: str, **settings: object) -> None:
        fetched.append((source, name))
        if source == "owner/model":
            (copied / name).write_text('{"frames": 8, "planner": {"base": "owner/base"}}')

    monkeypatch.setattr(find_module, "cached_file", fetch)
    found = find_module.fetch_record("owner/model", copied)
    assert (found.frames, found.planner) == (8, PlannerRecord("owner/base"))
    find_module.fetch_record(str(copied), copied)
    assert fetched == [("owner/model", "videopro.json")]


@pytest.mark.parametrize(
    ("record", "name"),
    [
        ({"frame": 16}, "frame"),
        ({"frames": 0}, "frames"),
        ({"planner": "pocket"}, "planner"),
        ({"planner": {"bases": "pocket"}}, "planner.bases"),
        ({"planner": {"base": 3}}, "planner.base"),
        ({"planner": {"prompts": {"plan": 3}}}, "planner.prompts.plan"),
    ],
)
def test_a_broken_record_is_named(copied: Path, record: dict[str, Any], name: str) -> None:
    (copied / "videopro.json").write_text(json.dumps(record))
    with pytest.raises(ConfigError, match=f"{name}: "):
        load_backbone(str(copied))


def refusal(folder: Path | str, **settings: object) -> str:
    with pytest.raises(BackboneError) as caught:
        load_backbone(str(folder), **settings)
    assert str(folder) in str(caught.value) or settings
    return str(caught.value)


def test_missing_files_are_named(copied: Path, adapter: str, tmp_path: Path) -> None:
    assert "cannot be downloaded from the hub" in refusal("nobody/no-such-model")
    assert "is not a device of this machine" in refusal(copied, device_map="gpu")
    assert "contains an adapter" in refusal(adapter)
    text = tmp_path / "text"
    text.mkdir()
    assert "has no config.json" in refusal(text)
    for config, says in (
        ('{"model_type": "qwen3"}', "of type 'qwen3', not a Qwen vision-language model"),
        ('{"model_type": "qwen9_vl"}', "it may need a newer transformers"),
        ("{", "config"),
    ):
        (text / "config.json").write_text(config)
        assert says in refusal(text)


def test_incomplete_checkpoints_are_refused(copied: Path) -> None:
    weights = copied / "model.safetensors"
    rewrite(weights, lambda held: [held.pop(name) for name in list(held) if "layers.1.mlp" in name])
    assert "weights are missing" in refusal(copied)
    weights.write_bytes(b"\0" * 100)
    assert "weights cannot be loaded" in refusal(copied)
    weights.unlink()
    assert "weights cannot be loaded" in refusal(copied)
    (copied / "chat_template.jinja").unlink()
    assert "no chat template" in refusal(copied)
    (copied / "processor_config.json").unlink()
    assert "processor" in refusal(copied)


def test_what_the_processor_and_the_model_make_of_a_video_is_in_the_identity() -> None:
    """Worked out by hand for frames at 0.5, 1.5, 4 and 7 s, in two patches of 2 x 2 tokens."""
    blocks = [f"<{time} seconds><|vision_start|><|video_pad|>...<|vision_end|>" for time in (1.0, 5.5)]
    flat = "".join(blocks)
    pair = "<|vision_start|><|video_pad|>...<|vision_end|>"
    # One position a patch in time, counted on in the text: 2 for the patch, the marks, the time's tokens.
    pocket = find_checkpoint(str(MODEL_FOLDER))
    written = len(pocket.processor.tokenizer("<5.5 seconds>")["input_ids"])
    step = 2 + 1 + written + 1
    counted = (
        f"t 0 0 0 0 {step} {step} {step} {step}; h 0 0 1 1 {step} {step} {step + 1} {step + 1}; "
        f"w 0 1 0 1 {step} {step + 1} {step} {step + 1}; next {step + 2 + 1}"
    )
    assert video_settings(pocket) == {"video_prompt": flat, "video_positions": counted}
    found = video_settings(find_checkpoint(str(checkpoint("qwen3_vl"))).marked("published"))
    assert found["video_prompt"] == flat
    # Qwen2.5-VL: 4 positions a second (its config's tokens_per_second), and 6.5 s / 3 between two frames, so
    # 17.3 positions between two patches of two frames.
    older = find_checkpoint(str(checkpoint("qwen2_5_vl"))).marked("published")
    assert older.settings.vision_config.tokens_per_second == 4
    assert video_settings(older) == {
        "video_prompt": pair,
        "video_positions": "t 0 0 0 0 17 17 17 17; h 0 0 1 1 0 0 1 1; w 0 1 0 1 0 1 0 1; next 3",
    }
