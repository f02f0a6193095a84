"""ASP-CLIP's training: its parameters, its batches, and a run on a tiny CLIP that learns and resumes."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import CLIPConfig, CLIPModel

from tests.support.making_videos import make
from tests.support.tiny_encoders import tiny_clip
from videopro.modules.models.encoders import load_encoder
from videopro.modules.models.encoders.asp_clip import AspClipConfig, TemporalTransformer
from videopro.modules.models.encoders.images import ImageTextEncoder
from videopro.train.retrieval import asp_clip, training
from videopro.train.retrieval.asp_clip import AspClip, PairBatches, choose_trained
from videopro.train.retrieval.pairs import CaptionPair
from videopro.train.retrieval.training import save_state

COLOURS = {"w1": (180, 128, 128), "w2": (90, 60, 180), "w3": (90, 190, 70), "w4": (30, 128, 128)}


def test_the_default_trains_the_published_number_of_parameters_of_vit_b_16() -> None:
    with torch.device("meta"):
        clip = CLIPModel(CLIPConfig(vision_config={"patch_size": 16}, projection_dim=512))
        model = AspClip(clip, TemporalTransformer(AspClipConfig(width=512, heads=8)))
    assert round(choose_trained(model, "upper", 4) / 1e6) == 95
    # By hand: a layer of width w with an MLP of 4 w has 12 w^2 + 13 w weights; the visual tower is 768 wide,
    # the others 512; the ends are two norms, two projections and the temperature; there are 16 positions.
    text, vision = 12 * 512**2 + 13 * 512, 12 * 768**2 + 13 * 768
    temporal = 4 * text + 16 * 512
    ends = 2 * 768 + 2 * 512 + 768 * 512 + 512 * 512 + 1
    assert choose_trained(model, "upper", 4) == 8 * (text + vision) + temporal + ends
    trained = [name for name, weight in model.clip.named_parameters() if weight.requires_grad]
    upper = {name.split(".")[-4] for name in trained if "q_proj.weight" in name}
    assert upper == {str(layer) for layer in range(4, 12)}
    assert choose_trained(model, "temporal", 4) == temporal
    assert choose_trained(model, "all", 4) == sum(weight.numel() for weight in model.parameters())


@pytest.fixture(scope="module")
def colours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """YouCook2's annotations for 24 videos of one colour each; the words of a step name the colour."""
    root = tmp_path_factory.mktemp("colours")
    database = {}
    for number in range(24):
        word = f"w{number % 4 + 1}"
        make(root / f"video{number:06d}.mp4", 12, rate=4, planes=COLOURS[word])
        step = {"segment": [0.5, 2.5], "id": 0, "sentence": f"{word} w{10 + number % 5}"}
        database[f"video{number:06d}"] = {"subset": "training", "annotations": [step]}
    (root / "youcookii_annotations_trainval.json").write_text(json.dumps({"database": database}))
    return root


def test_batches_are_an_order_by_seed_and_name_what_cannot_be_read(colours: Path, tmp_path: Path) -> None:
    encoder = ImageTextEncoder(str(tiny_clip(tmp_path / "clip")), kind="clip", device="cpu")
    pairs = [CaptionPair(f"w{i}", colours / f"video{i:06d}.mp4", 0.5, 2.5) for i in range(6)]
    (tmp_path / "broken.mp4").write_bytes(b"no video")
    pairs += [CaptionPair("w9", tmp_path / "broken.mp4"), CaptionPair("w8", pairs[0].video, 7.0, 9.0)]
    load = PairBatches(encoder, 4, 0, tmp_path / "unreadable.jsonl")
    (batch,) = load.once(pairs, 8)
    assert batch[0].shape == (6, 4, 3, 32, 32)
    assert batch[1][:, 1].tolist() == [0, 1, 2, 3, 4, 5]
    lines = [json.loads(line) for line in (tmp_path / "unreadable.jsonl").read_text().splitlines()]
    assert [Path(line["video"]).name for line in lines] == ["broken.mp4", "video000000.mp4"]
    assert "before the caption's 7.0 s" in lines[1]["problem"]
    list(load.once(pairs, 8))
    assert len((tmp_path / "unreadable.jsonl").read_text().splitlines()) == 2

    def seen(start: int, end: int) -> list[list[int]]:
        return [ids[:, 1].tolist() for _, ids, _ in load.endless(pairs[:6], 3, 1, start, end)]

    first = seen(0, 4)
    assert sorted(first[0] + first[1]) == sorted(first[2] + first[3]) == list(range(6))
    assert first[:2] != first[2:]
    assert seen(3, 4) == first[3:]  # as a resumed run goes on


def test_a_run_learns_resumes_and_is_loaded(
    colours: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(training, "SAVE_EVERY", 20)
    clip = tiny_clip(tmp_path / "clip")
    words = [
        *("--sources", f"youcook2={colours}", "--clip", str(clip), "--output", str(tmp_path / "run")),
        *("--layers", "2", "--heads", "2", "--frames", "4", "--steps", "40", "--batch", "8"),
        *("--lr", "3e-3", "--clip-lr-share", "1", "--warmup", "5", "--held-out", "8", "--trained", "all"),
        *("--workers", "0", "--device", "cpu"),
    ]

    def killed(*state: Any) -> None:
        save_state(*state)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(training, "save_state", killed)
        assert asp_clip.main(words) == 130
    assert not (tmp_path / "run" / "model").exists()
    assert asp_clip.main(words) == 0
    assert "youcook2: 24 pairs" in capsys.readouterr().out
    log = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in log if "held_out" in line] == [20, 40]
    held = [line["held_out"] for line in log if "held_out" in line]
    assert held[1]["pairs"] == 8
    # Of 8 pairs in 4 colours, whoever knows the colours has a loss near log 2.
    assert held[1]["loss"] < 1.3
    encoder = load_encoder(f"asp-clip:{tmp_path / 'run' / 'model'}", "cpu")
    assert encoder.clip_frames == 4
    for flag, value, said in (("--heads", "3", "heads is 3"), ("--batch", "64", "fewer than a batch of 64")):
        assert asp_clip.main([*words, flag, value]) == 2
        assert said in capsys.readouterr().err
