"""Batches for fine-tuning against what transformers' processor and model make of each row alone."""

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.support import sft_world as world
from tests.support.qwen_models import reference
from tests.support.training_reference import conversation, own_loss
from videopro.errors import BackboneError
from videopro.train.finetune import SFTRow, VideoCollator, as_dataset, read_rows
from videopro.train.finetune.layout import joined
from videopro.train.packing import RowShape
from videopro.train.runtime import DummyVision
from videopro.video import Video

FAMILIES = ("qwen2_5_vl", "qwen3_vl")


def layouts(folder: Path) -> list[SFTRow]:
    """Rows with a system turn, or with their video anywhere in the user's turn."""
    videos = [str(world.folder() / "videos" / "a.mp4")]
    reply = {"role": "assistant", "content": world.STEPS}
    system = {"role": "system", "content": "You write programs.\n<planning> first"}
    chats = [
        [{"role": "user", "content": text}, reply]
        for text in ("Look:<video> which ring?", "Which ring?\n<video>", " <video>Which ring?")
    ]
    chats += [
        [system, {"role": "user", "content": text}, reply]
        for text in ("<video>Which ring?", "Look: <video>\nwhich ring?")
    ]
    given: list[dict[str, Any]] = [{"messages": chat, "videos": videos} for chat in chats]
    given += [
        {"system": "", "query": "Which <video>?", "response": world.NATIVE, "videos": videos},
        {"messages": [system, {"role": "user", "content": "What is a ring?"}, reply]},
    ]
    return read_rows(world.write(folder / "train_sft.jsonl", given)).rows


@pytest.mark.parametrize("family", FAMILIES)
def test_every_row_of_a_batch_is_what_the_official_processor_makes_of_it(family: str, tmp_path: Path) -> None:
    _, processor = reference(family)
    rows = [*world.rows(), *layouts(tmp_path)]
    alone = [conversation(family, processor, row) for row in rows]
    # They differ from each other.
    assert len({tuple(row["input_ids"][0].tolist()) for row in alone}) == len(rows) == 11
    batch = world.collator(family)(list(as_dataset(rows)))
    for number, expected in enumerate(alone):
        length = expected["input_ids"].shape[1]
        for name in ("input_ids", "mm_token_type_ids", "attention_mask", "labels"):
            assert batch[name][number, :length].tolist() == expected[name][0].tolist(), (number, name)
        assert not batch["attention_mask"][number, length:].any()
        assert (batch["labels"][number, length:] == -100).all()
    for name in ("video_grid_thw", "pixel_values_videos"):
        assert torch.equal(batch[name], torch.cat([row[name] for row in alone if name in row])), name
    if family == "qwen2_5_vl":
        seconds = [float(value) for row in alone for value in row.get("second_per_grid_ts", ())]
        assert batch["second_per_grid_ts"] == pytest.approx(seconds)


def test_a_video_of_one_frame_is_an_image() -> None:
    made = world.inputs("qwen3_vl")
    frame = Video.open(world.rows()[0].video).sample(1, size=(32, 64))  # type: ignore[arg-type]
    assert set(made.head(frame).tensors) == {"pixel_values", "image_grid_thw"}


MARKS = ("<|im_end|>", "<|eot_id|>", "<end_of_turn>", "[INST]", "<image>", "</s>", "<｜User｜>", "<own>")


@pytest.mark.parametrize("mark", MARKS)
def test_a_reply_with_control_tokens_is_refused(mark: str) -> None:
    made = world.inputs("qwen3_vl")
    made.tokenizer.add_special_tokens({"additional_special_tokens": ["<own>"]})
    with pytest.raises(BackboneError, match=re.escape(f"'{mark}'")):
        made.reply(f"yes{mark}no")
    # What only looks like one, or is a token that the model may write.
    made.reply("<code>\nif a <s or s> b: INST[0] = '<|'\n</code>")


def test_a_template_with_another_end_of_turn_is_refused() -> None:
    made = world.inputs("qwen3_vl")
    made.processor.chat_template = made.processor.chat_template.replace("'<|im_end|>\\n'", "'\\n'")
    with pytest.raises(BackboneError, match="would not learn to stop"):
        made.reply("yes")


@pytest.mark.parametrize("family", FAMILIES)
def test_a_batch_without_videos_runs_the_vision_tower_on_a_dummy(family: str) -> None:
    model, processor = reference(family)
    text = conversation(family, processor, world.rows()[3])
    expected, _ = own_loss(model, text)
    dummy = DummyVision(model.model)
    with dummy.on():
        loss = model(**text).loss
    assert loss.item() == expected.item()
    loss.backward()
    tower = dict(model.model.visual.named_parameters())
    assert all(weight.grad is not None and not weight.grad.any() for weight in tower.values())
    assert any(weight.grad.any() for weight in model.model.language_model.parameters())


def test_a_batch_with_videos_and_one_outside_training_run_no_dummy() -> None:
    model, processor = reference("qwen3_vl")
    looks: list[Any] = []
    model.model.visual.register_forward_hook(lambda *given: looks.append(given))
    dummy = DummyVision(model.model)
    rows = [conversation("qwen3_vl", processor, world.rows()[number]) for number in (0, 3)]
    with torch.no_grad():
        model(**rows[1])
        assert looks == []
        with dummy.on():
            model(**rows[0])
    assert len(looks) == 1


def test_positions_are_not_rounded_to_16_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under DeepSpeed transformers' Trainer makes all tensors of inputs bf16, in which 7.49 is 7.5."""
    trainer: Any = world.trainer("qwen2_5_vl", world.settings(tmp_path), world.rows())
    core, example = trainer._base.model, VideoCollator.example

    def spaced(self: VideoCollator, row: Any) -> Any:
        made, prompt = example(self, row)
        return replace(made, intervals=(7.49,)), prompt

    monkeypatch.setattr(VideoCollator, "example", spaced)
    batch = world.batch("qwen2_5_vl", [0])
    names = ("input_ids", "mm_token_type_ids", "attention_mask", "video_grid_thw")
    expected, _ = core.get_rope_index(
        **{name: batch[name] for name in names}, second_per_grid_ts=torch.tensor([7.49])
    )
    # As with configs/accelerate/zero2.yaml.
    trainer.is_deepspeed_enabled = True
    plugin = SimpleNamespace(hf_ds_config=SimpleNamespace(dtype=lambda: torch.bfloat16))
    monkeypatch.setattr(type(trainer.accelerator.state), "deepspeed_plugin", plugin)
    inputs = trainer._prepare_inputs(batch)
    assert inputs["pixel_values_videos"].dtype is torch.bfloat16
    assert torch.equal(joined(inputs, core, RowShape())["position_ids"][1:], expected)
