"""A merged checkpoint against base and adapter in PEFT itself."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForImageTextToText, AutoProcessor

from tests.support import sft_world as world
from tests.support.qwen_models import checkpoint
from videopro.backbones import folder_fingerprint, load_backbone
from videopro.pocket import model_dir
from videopro.storage import files, sole_writer
from videopro.train import merge
from videopro.train.runtime.trainable import linear_pattern


@pytest.fixture(scope="module", params=["qwen2_5_vl", "qwen3_vl"])
def adapter(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A family, and an adapter of random weights for its checkpoint."""
    family = request.param
    torch.manual_seed(1)
    model = AutoModelForImageTextToText.from_pretrained(checkpoint(family))
    settings = LoraConfig(r=4, target_modules=linear_pattern(model, ["language"]), init_lora_weights=False)
    folder = tmp_path_factory.mktemp(family)
    get_peft_model(model, settings).save_pretrained(folder)
    return family, folder


def test_a_merged_checkpoint_is_base_and_adapter(adapter: tuple[str, Path], tmp_path: Path) -> None:
    family, folder = adapter
    output = tmp_path / "merged"
    words = ["--base", str(checkpoint(family)), "--adapter", str(folder), "--output", str(output)]
    assert merge.main(words) == 0
    base = AutoModelForImageTextToText.from_pretrained(checkpoint(family)).eval()
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
    assert processor.chat_template == AutoProcessor.from_pretrained(checkpoint(family)).chat_template
    name, weights = str(checkpoint(family).resolve()), folder_fingerprint(checkpoint(family))
    written = json.loads((output / "videopro.json").read_text())
    assert written.pop("versions")["torch"] == torch.__version__.split("+")[0]
    assert written == {
        "frames": 64,
        "pixels": 50_176,
        "base": {"name": name, "weights": weights},
        "planner": {"base": name, "weights": weights},
    }
    assert not (tmp_path / "merged.part").exists()


def test_a_second_merge_into_a_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(files, "_SOON", 0.0)
    with sole_writer(tmp_path / "merged.part"):
        assert merge.main(["--base", "pocket", "--adapter", "x", "--output", str(tmp_path / "merged")]) == 2
    assert "merged.part" in capsys.readouterr().err
    assert (tmp_path / "merged.part").exists()


def test_the_shipped_planner_is_merged_by_its_name(tmp_path: Path) -> None:
    """As docs/planners.md writes it: base and adapter are names that a package's folders stand for."""
    output = tmp_path / "merged"
    assert merge.main(["--base", "pocket", "--adapter", "pocket-sft", "--output", str(output)]) == 0
    written = json.loads((output / "videopro.json").read_text())
    assert written["base"]["weights"] == written["planner"]["weights"] == folder_fingerprint(model_dir())


def test_a_planner_merged_twice_keeps_its_base(adapter: tuple[str, Path], tmp_path: Path) -> None:
    """An adapter that was trained on a merged planner: neither of the two answers inside programs."""
    family, folder = adapter
    base = str(checkpoint(family))
    for start, name in ((base, "once"), (str(tmp_path / "once"), "twice")):
        words = ["--base", start, "--adapter", str(folder), "--output", str(tmp_path / name)]
        assert merge.main(words) == 0
        merged = load_backbone(str(tmp_path / name))
        assert merged.planner is not None
        assert merged.planner.base == str(checkpoint(family).resolve())
        assert merged.identity()["planner_prompt"] == "short"
    on_top = load_backbone(str(tmp_path / "once"), adapter=str(folder))
    assert on_top.planner == merged.planner


def test_a_full_disk_leaves_nothing_of_it(
    adapter: tuple[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The remains of a killed merge do not end up in the checkpoint."""
    family, folder = adapter
    words = ["--base", str(checkpoint(family)), "--adapter", str(folder)]
    words += ["--output", str(tmp_path / "merged")]
    (tmp_path / "merged.part").mkdir()
    (tmp_path / "merged.part" / "model-00007-of-00009.safetensors").write_bytes(b"torn")

    def full(self: object, where: Path) -> None:
        (Path(where) / "config.json").write_text("{")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(type(AutoProcessor.from_pretrained(checkpoint(family))), "save_pretrained", full)
        assert merge.main(words) == 2
    assert f"error: {tmp_path}: merged cannot be written" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    assert merge.main(words) == 0
    assert not list((tmp_path / "merged").glob("*00009*"))
