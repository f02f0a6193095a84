"""The LanguageBind_Video port: its outputs against those of the published package
(languagebind_golden/make.py), and properties that hold for any weights."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.support.tiny_encoders import GOLDEN, clip, config_of, golden, languagebind_folder, weights_of
from videopro.errors import ConfigError
from videopro.modules.errors import ModelError
from videopro.modules.models import encoders
from videopro.modules.models.encoders import languagebind_model, load_encoder
from videopro.modules.models.encoders.interfaces import StagedClips
from videopro.modules.models.encoders.languagebind import LanguageBindEncoder, to_pixels
from videopro.modules.models.encoders.languagebind_model import LanguageBindConfig, LanguageBindVideo
from videopro.pocket.encoders import ENCODER
from videopro.video import Frame

KINDS = ("vl", "vl_new")


def ported(kind: str) -> LanguageBindVideo:
    model = LanguageBindVideo(LanguageBindConfig.read(config_of(kind))).eval()
    model.load_checkpoint(weights_of(kind))
    return model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return languagebind_folder(tmp_path_factory.mktemp("languagebind"))


@pytest.mark.parametrize("kind", KINDS)
def test_embeds_as_the_published_package(kind: str) -> None:
    known, model = golden(kind), ported(kind)
    with torch.inference_mode():
        video = model.encode_video(torch.from_numpy(known["pixels"]))
        text = model.encode_text(torch.from_numpy(known["ids"]), torch.from_numpy(known["mask"]))
    np.testing.assert_allclose(video.numpy(), known["image_embeds"], atol=1e-4, rtol=0)
    np.testing.assert_allclose(text.numpy(), known["text_embeds"], atol=1e-4, rtol=0)
    logits = float(model.logit_scale.detach().exp()) * text @ video.T
    np.testing.assert_allclose(logits.numpy(), known["logits_per_text"], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", ["wide", "tall"])
def test_frames_are_prepared_as_published(name: str) -> None:
    seen = to_pixels(list(GOLDEN[f"frames_{name}"]), 224).numpy()
    assert seen.shape == (3, 2, 224, 224)
    np.testing.assert_allclose(seen[:, :, 3::31, 5::29], GOLDEN[f"seen_{name}"], atol=1e-4, rtol=0)


@pytest.mark.parametrize(("kind", "joined"), [("vl", 2), ("vl_new", 5)])
def test_sequences_that_are_attended_together_do_not_see_each_other(
    kind: str, joined: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, pixels = ported(kind), torch.from_numpy(golden(kind)["pixels"])
    seen: list[int] = []

    def join(n: int, length: int, device: torch.device) -> int:
        seen.append(n)
        return joined if n % joined == 0 else 1

    with torch.inference_mode():
        expected = model.encode_video(pixels)
        # Nor does one clip see another.
        np.testing.assert_allclose(expected[1:], model.encode_video(pixels[1:]), atol=1e-6)
        monkeypatch.setattr(languagebind_model, "joined_sequences", join)
        got = model.encode_video(pixels)
    assert any(n % joined == 0 for n in seen)
    np.testing.assert_allclose(got, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("n", "length", "device", "joined"),
    # 16 clips of 257 patches over 8 frames; one clip: 257 is prime; within a frame; a CPU.
    [(4112, 8, "cuda", 16), (257, 8, "cuda", 1), (128, 257, "cuda", 1), (4112, 8, "cpu", 1)],
)
def test_as_many_short_sequences_are_joined_as_fill_a_tile(
    n: int, length: int, device: str, joined: int
) -> None:
    assert languagebind_model.joined_sequences(n, length, torch.device(device)) == joined


def test_staged_clips_are_embedded_as_others(folder: Path) -> None:
    encoder = load_encoder(f"languagebind:{folder}", "cpu")
    assert isinstance(encoder, LanguageBindEncoder)
    clips = [clip(seed, height=16, width=28) for seed in range(3)]
    staged = encoder._staged(clips, pinned=False)
    assert isinstance(staged, StagedClips)
    assert staged == clips
    # A square of 16 pixels from the middle of the width.
    np.testing.assert_array_equal(staged.pixels[2, 1], clips[2][1].image[:, 6:22])
    np.testing.assert_array_equal(encoder.encode_clips(staged), encoder.encode_clips(clips))
    larger = [clip(seed, height=20, width=30) for seed in range(2)]
    assert encoder._staged(larger, pinned=False) is larger, "to be resized by the device"
    assert encoder.stage_clips(clips) is clips, "a CPU gains nothing"


def test_batches_in_flight_are_few_and_give_the_same_rows(folder: Path) -> None:
    encoder = load_encoder(f"languagebind:{folder}", "cpu")
    batches = [[clip(seed) for seed in range(first, first + 3)] for first in range(0, 21, 3)]
    expected = [encoder.encode_clips(batch) for batch in batches]
    taken: list[int] = []

    def given() -> Iterator[list[list[Frame]]]:
        for number, batch in enumerate(batches):
            taken.append(number)
            yield batch

    encoder.in_flight = 2
    for number, rows in enumerate(encoder.encode_stream(given())):
        np.testing.assert_array_equal(rows, expected[number])
        assert len(taken) == min(number + 2, len(batches)), "the next one is on the device, and no other"
    assert number == len(batches) - 1


def test_every_weight_is_consumed_and_others_are_refused() -> None:
    model, given = LanguageBindVideo(LanguageBindConfig.read(config_of("vl"))), weights_of("vl")
    with torch.no_grad():
        for weight in model.parameters():
            weight.fill_(torch.nan)
    model.load_checkpoint(given)
    assert all(torch.isfinite(weight).all() for weight in model.state_dict().values())
    lacking = {key: value for key, value in given.items() if key != "visual_projection.weight"}
    for weights, named in (
        (lacking, "visual_projection.weight"),
        ({**given, "one_more": torch.zeros(1)}, "one_more"),
        ({**given, "logit_scale": torch.zeros(2)}, "logit_scale"),
        ({**given, "vision_model.x.lora_A.weight": torch.zeros(1)}, "the fully fine-tuned checkpoint"),
    ):
        with pytest.raises((RuntimeError, ValueError), match=named):
            model.load_checkpoint(weights)


@pytest.mark.parametrize(
    ("part", "change", "named"),
    [
        ("vision_config", {"hidden_size": None}, "hidden_size"),
        ("text_config", {"vocab_size": None}, "vocab_size"),
        ("vision_config", {"add_time_attn": False}, "not a LanguageBind video model"),
        ("vision_config", {"tube_size": 2, "clip_type": "vl_new"}, "tube_size 2"),
    ],
)
def test_a_configuration_of_another_model_is_refused(
    part: str, change: dict[str, object], named: str
) -> None:
    config = config_of("vl")
    config[part] = {**config[part], **change}
    with pytest.raises(ValueError, match=named):
        LanguageBindConfig.read(config)


def test_a_published_folder_loads_and_embeds(folder: Path) -> None:
    encoder = load_encoder(f"languagebind:{folder}", "cpu")
    assert encoder.clip_frames == 3
    assert encoder.frame_size(180, 320) == (16, 28)
    assert encoder.frame_size(320, 180) == (28, 16)
    clips = [clip(seed) for seed in range(20)]  # more than a batch
    rows = encoder.encode_clips(clips)
    assert rows.shape == (20, 10)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(rows[17], encoder.encode_clips(clips[17:18])[0], atol=1e-5)
    texts = ["w1 w2", "w7"]
    scores = encoder.score_clips(texts, clips)
    np.testing.assert_allclose(scores, encoder.encode_texts(texts) @ rows.T, atol=1e-5)
    for empty in (lambda: encoder.encode_clips([]), lambda: encoder.score_clips([], clips)):
        with pytest.raises(ValueError, match="nothing to embed"):
            empty()


def test_texts_are_embedded_as_the_published_ids_are(folder: Path) -> None:
    encoder = load_encoder(f"languagebind:{folder}", "cpu")
    rows = encoder.encode_texts(["w5 w6 w7 w8 w9 w10 w11", "w20 w21"])
    np.testing.assert_allclose(rows, golden("vl")["text_embeds"][:2], atol=1e-4)
    # A text that is too long is cut, and still ends with its end token.
    long = encoder.encode_texts(["w5 w6 w7 w8 w9 w10 w11 w30 w31"])
    np.testing.assert_allclose(long[0], rows[0], atol=1e-5)


def test_folders_that_cannot_be_used_are_named(folder: Path, tmp_path: Path) -> None:
    def refused(path: Path, named: str, **options: str) -> None:
        with pytest.raises((ConfigError, ModelError), match=named):
            load_encoder(f"languagebind:{path}", "cpu", **options)

    refused(folder, "'int8'", dtype="int8")
    (tmp_path / "config.json").write_text(json.dumps(config_of("vl")))
    refused(tmp_path, r"neither model\.safetensors nor")
    endless = shutil.copytree(folder, tmp_path / "endless")
    settings = json.loads((folder / "tokenizer.json").read_text()) | {"post_processor": None}
    (endless / "tokenizer.json").write_text(json.dumps(settings))
    refused(endless, "end token")
    with pytest.raises(ValueError, match="2 frames, but this encoder takes 3"):
        LanguageBindEncoder(str(folder), device="cpu").encode_clips([clip(1, frames=2)])


def test_a_missing_pocket_encoder_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moved = replace(ENCODER, checkpoint=str(tmp_path))
    monkeypatch.setattr(encoders, "read_encoder", lambda spec: (moved, moved.checkpoint))
    with pytest.raises(ModelError, match=r"python -m videopro\.train\.pocket"):
        load_encoder("pocket", "cpu")
