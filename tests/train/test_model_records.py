"""What a trained planner records of itself, and a merged checkpoint against base and adapter in PEFT."""

import errno
import json
import os
import shutil
from importlib import metadata
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForImageTextToText, AutoProcessor

from tests.support import sft_world as world
from tests.support.qwen_models import checkpoint, lora, reference
from tests.support.training_runs import LORA, NO_MODELS, flags, merge_into
from videopro import __version__
from videopro.backbones import (
    PlannerRecord,
    folder_fingerprint,
    load_backbone,
    read_model_record,
    write_model_record,
)
from videopro.pocket import ADAPTERS, PLANNERS, adapter_dir, model_dir
from videopro.storage import files, sole_writer
from videopro.train import sft
from videopro.train.finetune import read_rows
from videopro.train.rl import VideoGRPOConfig
from videopro.train.runtime import TrainingSetup, read_settings
from videopro.train.runtime.trainable import linear_pattern

FRAMES, PIXELS = 6, 4096
SEEN = {"frames": FRAMES, "pixels": PIXELS, "video_marks": "nested"}


def arguments(output: Path, **changes: object) -> list[str]:
    """Flags of a step of SFT with other settings of a video than those of the base, which records none."""
    return flags(output, **{**SEEN, "max_steps": 1, **changes})


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of an adapter, with a checkpoint at its only step."""
    run = tmp_path_factory.mktemp("tuned") / "run"
    assert sft.main(arguments(run, **LORA, save_strategy="steps", save_steps=1)) == 0
    return run


def test_the_record_names_base_prompts_and_versions(tuned: Path, tmp_path: Path) -> None:
    base, whole = checkpoint("qwen3_vl"), tmp_path / "whole"
    assert sft.main(arguments(whole, use_peft="false", save_strategy="steps", save_steps=1)) == 0
    own = {"name": str(base.resolve()), "weights": folder_fingerprint(base)}
    # An adapter leaves its base when it is turned off; a whole model names who answers.
    answers = {"base": own["name"], "weights": own["weights"]}
    # Each checkpoint is an adapter or a model of its own.
    runs = (tuned, {}), (tuned / "checkpoint-1", {}), (whole, answers), (whole / "checkpoint-1", answers)
    for run, planner in runs:
        written = json.loads((run / "videopro.json").read_text())
        versions = written.pop("versions")
        assert versions["peft"] == metadata.version("peft")
        assert versions["videopro"].startswith(f"{__version__}+")
        assert written == {**SEEN, "base": own, "planner": planner}
        record = read_model_record(run)
        write_model_record(tmp_path, record)
        assert read_model_record(tmp_path) == record


def test_training_continues_with_what_the_adapter_was_trained_with(
    tuned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = arguments(tmp_path, **LORA, adapter=tuned, modules=NO_MODELS, num_generations=2)
    for name in SEEN:
        at = words.index(f"--{name}")
        del words[at : at + 2]
    start = TrainingSetup.of(*read_settings(VideoGRPOConfig, "grpo", words))
    assert (start.frames, start.pixels, start.inputs.frames) == (FRAMES, PIXELS, FRAMES)
    assert start.checkpoint.video_marks == "nested"
    assert "warning" not in capsys.readouterr().err
    other = [*words, "--frames", "8"]
    assert TrainingSetup.of(*read_settings(VideoGRPOConfig, "grpo", other)).frames == 8
    assert "frames=8" in capsys.readouterr().err


def test_differences_to_the_record_are_noted(
    tuned: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A copy with the same files is the same base, wherever it is."""
    base, plain = str(checkpoint("qwen3_vl")), shutil.copytree(tuned, tmp_path / "plain")
    backbone = load_backbone(base, adapter=str(tuned))
    assert {name: backbone.identity()[name] for name in SEEN} == SEEN
    assert backbone.notes == ()
    backbone = load_backbone(base, adapter=str(tuned), frames=4, pixels=PIXELS)
    assert backbone.frames == 4
    (note,) = backbone.notes
    assert "trained with frames=6, but runs with frames=4" in note
    assert f"warning: {note}" in caplog.messages
    (note,) = load_backbone(base, adapter=str(tuned), video_marks="published").notes
    assert "trained with video_marks=nested" in note
    (plain / "videopro.json").unlink()
    backbone = load_backbone(base, adapter=str(plain))
    assert (backbone.frames, backbone.pixels, len(backbone.notes)) == (64, 50_176, 1)
    assert load_backbone(base, adapter=str(plain), frames=FRAMES, pixels=PIXELS).notes == ()
    copy = shutil.copytree(base, tmp_path / "copy")
    assert load_backbone(str(copy), adapter=str(tuned)).notes == ()
    settings = json.loads((copy / "generation_config.json").read_text())
    (copy / "generation_config.json").write_text(json.dumps({**settings, "max_length": 77}))
    (note,) = load_backbone(str(copy), adapter=str(tuned)).notes
    assert f"{checkpoint('qwen3_vl').resolve()}" in note
    assert f"{copy.resolve()}" in note


@pytest.mark.parametrize("name", ADAPTERS)
def test_shipped_adapters_have_the_record(name: str) -> None:
    record = read_model_record(adapter_dir(name))
    assert (record.frames, record.pixels) == (16, 96 * 160)
    assert (record.base.name, record.base.weights) == ("pocket", folder_fingerprint(model_dir()))
    assert record.planner == (PlannerRecord() if name in PLANNERS else None)
    assert load_backbone("pocket", adapter=name).notes == ()


def test_a_merged_checkpoint_is_base_and_adapter(tmp_path: Path) -> None:
    family, output = "qwen3_vl", tmp_path / "merged"
    base, official = reference(family)
    folder = lora(family, tmp_path / "lora", layers=linear_pattern(base, ["language"]))
    assert merge_into(output, checkpoint(family), folder) == 0
    plain = AutoModelForImageTextToText.from_pretrained(output).eval()
    batch = world.batch(family, [0, 1, 3])
    batch.pop("labels")
    with torch.no_grad():
        before = base(**batch).logits
        expected = PeftModel.from_pretrained(base, folder).eval()(**batch).logits
        found = plain(**batch).logits
    # To 1e-3 where logits reach 10 and the adapter moves them by more than 1: one product instead of two.
    torch.testing.assert_close(found, expected, atol=1e-3, rtol=1e-3)
    assert (expected - before).abs().max() > 0.5
    processor = AutoProcessor.from_pretrained(output)
    assert processor.chat_template == official.chat_template
    name, weights = str(checkpoint(family).resolve()), folder_fingerprint(checkpoint(family))
    written = json.loads((output / "videopro.json").read_text())
    assert written.pop("versions")["torch"] == torch.__version__.split("+")[0]
    assert written == {
        "frames": 64,
        "pixels": 50_176,
        "video_marks": "published",
        "base": {"name": name, "weights": weights},
        "planner": {"base": name, "weights": weights},
    }
    assert not (tmp_path / "merged.part").exists()


def test_a_second_merge_into_a_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(files, "_SOON", 0.0)
    with sole_writer(tmp_path / "merged.part"):
        assert merge_into(tmp_path / "merged", "pocket", "x") == 2
    assert "merged.part" in capsys.readouterr().err
    assert (tmp_path / "merged.part").exists()


def test_the_shipped_planner_is_merged_by_its_name(tmp_path: Path) -> None:
    """As in docs/results/planners.md: base and adapter are names that a package's folders stand for."""
    assert merge_into(tmp_path / "merged", "pocket", "pocket-sft") == 0
    written = json.loads((tmp_path / "merged" / "videopro.json").read_text())
    assert written["base"]["weights"] == written["planner"]["weights"] == folder_fingerprint(model_dir())


def test_a_planner_merged_twice_keeps_its_base(tmp_path: Path) -> None:
    """An adapter that was trained on a merged planner: neither of the two answers inside programs."""
    base, folder = str(checkpoint("qwen3_vl")), lora("qwen3_vl", tmp_path / "lora")
    for start, name in ((base, "once"), (str(tmp_path / "once"), "twice")):
        assert merge_into(tmp_path / name, start, folder) == 0
        merged = load_backbone(str(tmp_path / name))
        assert merged.planner.base == str(Path(base).resolve())
        assert merged.identity()["planner_prompt"] == "short"
    on_top = load_backbone(str(tmp_path / "once"), adapter=str(folder))
    assert on_top.planner == merged.planner


def test_a_full_disk_leaves_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The remains of a killed merge do not end up in the checkpoint."""
    base, output = checkpoint("qwen3_vl"), tmp_path / "here" / "merged"
    folder = lora("qwen3_vl", tmp_path / "lora")
    torn = output.with_name("merged.part") / "merged" / "model-00007-of-00009.safetensors"
    torn.parent.mkdir(parents=True)
    torn.write_bytes(b"torn")

    def full(self: object, where: Path) -> None:
        (Path(where) / "config.json").write_text("{")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(type(reference("qwen3_vl")[1]), "save_pretrained", full)
        assert merge_into(output, base, folder) == 2
    assert f"error: {output.parent}: merged cannot be written" in capsys.readouterr().err
    assert list(output.parent.iterdir()) == []
    torn.parent.mkdir(parents=True)
    torn.write_bytes(b"torn")
    assert merge_into(output, base, folder) == 0
    assert not list(output.glob("*00009*"))


SHOWN = {"reference": "signatures", "modules": ["query_native", "extract_frames", "query_mc"]}


def test_the_planner_records_what_its_rows_say(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also one that continues an adapter, with a word about what that was trained with."""
    given = [json.loads(line) for line in (world.folder() / "sft.jsonl").read_text().splitlines()]
    for row in given:
        row["videos"] = [str(world.folder() / path) for path in row.get("videos", [])]
    shown = world.write(tmp_path / "shown.jsonl", [{**row, **SHOWN} for row in given])
    words = {"frames": 2, "pixels": 4096, "max_steps": 1, **LORA}
    assert sft.main(flags(tmp_path / "run", train_data=shown, **words)) == 0
    assert read_model_record(tmp_path / "run").planner == PlannerRecord(reference="signatures")
    assert "reference" not in capsys.readouterr().err
    plain = world.write(tmp_path / "plain.jsonl", given)
    more = {**words, "adapter": tmp_path / "run", "train_data": plain}
    assert sft.main(flags(tmp_path / "next", **more)) == 0
    assert read_model_record(tmp_path / "next").planner == PlannerRecord()
    assert "reference=signatures, but the rows have reference=none" in capsys.readouterr().err
    mixed = world.write(tmp_path / "mixed.jsonl", [{**given[0], **SHOWN}, *given[1:]])
    assert sft.main(flags(tmp_path / "mixed", train_data=mixed, **words)) == 2
    assert [row.reference for row in read_rows(mixed).rows][:2] == ["signatures", "none"]
