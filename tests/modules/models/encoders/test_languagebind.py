"""The LanguageBind_Video port: its outputs against those of the published package
(languagebind_golden/make.py), and properties that hold for any weights."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from tests.support.tiny_encoders import GOLDEN, clip, config_of, golden, languagebind_folder, weights_of
from videopro.errors import ConfigError
from videopro.modules.errors import ModelError
from videopro.modules.models import encoders
from videopro.modules.models.encoders import languagebind_model, load_encoder
from videopro.modules.models.encoders.interfaces import StagedClips, short_side
from videopro.modules.models.encoders.languagebind import LanguageBindEncoder, to_pixels
from videopro.modules.models.encoders.languagebind_model import LanguageBindConfig, LanguageBindVideo
from videopro.pocket.encoders import ENCODER

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


@pytest.mark.parametrize("kind", KINDS)
def test_every_text_position_is_the_published_one(kind: str) -> None:
    known = golden(kind)
    with torch.inference_mode():
        hidden = ported(kind).text_model.hidden(torch.from_numpy(known["ids"])).numpy()
    real = known["mask"] == 1
    np.testing.assert_allclose(hidden[real], known["text_hidden"][real], atol=1e-4, rtol=0)


@pytest.mark.parametrize("name", ["wide", "tall"])
def test_frames_are_prepared_as_published(name: str) -> None:
    seen = to_pixels(list(GOLDEN[f"frames_{name}"]), 224).numpy()
    assert seen.shape == (3, 2, 224, 224)
    np.testing.assert_allclose(seen[:, :, 3::31, 5::29], GOLDEN[f"seen_{name}"], atol=1e-4, rtol=0)


def test_a_later_token_changes_no_earlier_position() -> None:
    model, ids = ported("vl"), torch.tensor([[48, 5, 6, 7, 8, 49]])
    other = ids.clone()
    other[0, 4] = 30
    with torch.inference_mode():
        a, b = model.text_model.hidden(ids)[0], model.text_model.hidden(other)[0]
    assert torch.equal(a[:4], b[:4])
    assert (a[4:] - b[4:]).abs().max() > 1e-3


def test_the_order_of_frames_matters_and_nothing_is_random() -> None:
    model, pixels = ported("vl"), torch.from_numpy(golden("vl")["pixels"])
    with torch.inference_mode():
        once, again = model.encode_video(pixels), model.encode_video(pixels)
        turned = model.encode_video(pixels.flip(2))
    assert torch.equal(once, again)
    assert (once - turned).abs().max() > 1e-2


def test_one_clip_does_not_see_another() -> None:
    model, pixels = ported("vl_new"), torch.from_numpy(golden("vl_new")["pixels"])
    with torch.inference_mode():
        np.testing.assert_allclose(model.encode_video(pixels)[1:], model.encode_video(pixels[1:]), atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("joined", [2, 5])
def test_sequences_that_are_attended_together_do_not_see_each_other(
    kind: str, joined: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, pixels = ported(kind), torch.from_numpy(golden(kind)["pixels"])
    seen: list[tuple[int, int]] = []

    def join(n: int, length: int, device: torch.device) -> int:
        seen.append((n, length))
        return joined if n % joined == 0 else 1

    with torch.inference_mode():
        expected = model.encode_video(pixels)
        monkeypatch.setattr(languagebind_model, "joined_sequences", join)
        got = model.encode_video(pixels)
    assert any(n % joined == 0 for n, _ in seen)
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


def test_every_key_is_consumed() -> None:
    model = LanguageBindVideo(LanguageBindConfig.read(config_of("vl")))
    with torch.no_grad():
        for weight in model.parameters():
            weight.fill_(torch.nan)
    given = weights_of("vl")
    model.load_checkpoint(given)
    own = model.state_dict()
    assert all(torch.equal(own[key], value) for key, value in given.items() if "position_ids" not in key)
    assert {key for key in given if "position_ids" not in key} == set(own)


def test_weights_that_do_not_fit_are_refused() -> None:
    model, given = LanguageBindVideo(LanguageBindConfig.read(config_of("vl"))), weights_of("vl")
    lacking = {k: v for k, v in given.items() if k != "visual_projection.weight"}
    with pytest.raises(RuntimeError, match=r'Missing key.*"visual_projection.weight"'):
        model.load_checkpoint(lacking)
    with pytest.raises(RuntimeError, match=r'Unexpected key.*"one_more"'):
        model.load_checkpoint({**given, "one_more": torch.zeros(1)})
    with pytest.raises(RuntimeError, match=r"size mismatch for logit_scale"):
        model.load_checkpoint({**given, "logit_scale": torch.zeros(2)})
    with pytest.raises(ValueError, match="use the fully fine-tuned checkpoint"):
        model.load_checkpoint({**given, "vision_model.x.lora_A.weight": torch.zeros(1)})


@pytest.mark.parametrize(
    ("part", "change", "message"),
    [
        ("vision_config", {"hidden_size": None}, "vision_config has no hidden_size"),
        ("text_config", {"vocab_size": None}, "text_config has no vocab_size"),
        ("vision_config", {"add_time_attn": False}, "not a LanguageBind video model"),
        ("vision_config", {"tube_size": 2, "clip_type": "vl_new"}, "tube_size 2 is not supported"),
    ],
)
def test_sizes_come_from_the_configuration_alone(part: str, change: dict[str, object], message: str) -> None:
    config = config_of("vl")
    config[part] = {**config[part], **change}
    with pytest.raises(ValueError, match=message):
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
    with pytest.raises(ValueError, match="nothing to embed"):
        encoder.encode_clips([])


def test_in_bfloat16_embeddings_are_those_of_float32_but_for_its_rounding(folder: Path) -> None:
    full, half = (
        load_encoder(f"languagebind:{folder}", "cpu", dtype=dtype) for dtype in ("float32", "bfloat16")
    )
    clips, texts = [clip(seed) for seed in range(20)], [f"w{number} w{number + 9}" for number in range(20)]
    seen, read = full.encode_clips(clips), full.encode_texts(texts)
    narrow_seen, narrow_read = half.encode_clips(clips), half.encode_texts(texts)
    for rows, narrow in ((seen, narrow_seen), (read, narrow_read)):
        # Unit rows in float32; a step of bfloat16 is 2**-8 of a number.
        assert narrow.dtype == np.float32
        np.testing.assert_allclose(np.linalg.norm(narrow, axis=1), 1, atol=1e-6)
        assert 0 < np.abs(rows - narrow).max() < 0.02
    # What a search goes by, beside how far clips are apart.
    spread = np.ptp(full.similarities(read, seen), axis=1).min()
    assert np.abs(full.similarities(read, seen) - half.similarities(narrow_read, narrow_seen)).max() < 0.02
    assert spread > 0.05


def test_texts_are_embedded_as_the_published_ids_are(folder: Path) -> None:
    encoder = load_encoder(f"languagebind:{folder}", "cpu")
    rows = encoder.encode_texts(["w5 w6 w7 w8 w9 w10 w11", "w20 w21"])
    np.testing.assert_allclose(rows, golden("vl")["text_embeds"][:2], atol=1e-4)
    # A text that is too long is cut, and still ends with its end token.
    long = encoder.encode_texts(["w5 w6 w7 w8 w9 w10 w11 w30 w31"])
    np.testing.assert_allclose(long[0], rows[0], atol=1e-5)


def test_safetensors_give_the_same_and_identity_follows_the_weights(folder: Path, tmp_path: Path) -> None:
    pickled = load_encoder(f"languagebind:{folder}", "cpu")
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    (other / "pytorch_model.bin").unlink()
    weights = weights_of("vl")
    save_file(weights, other / "model.safetensors")
    same = load_encoder(f"languagebind:{other}", "cpu")
    np.testing.assert_array_equal(same.encode_clips([clip(1)]), pickled.encode_clips([clip(1)]))
    before = same.identity()
    assert before == load_encoder(f"languagebind:{other}", "cpu").identity()
    weights["logit_scale"] += 1
    save_file(weights, other / "model.safetensors")
    assert load_encoder(f"languagebind:{other}", "cpu").identity() != before


def test_errors_name_the_cause(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown encoder 'languagebnd'; did you mean 'languagebind'"):
        load_encoder("languagebnd")
    with pytest.raises(ConfigError, match="dtype is 'int8'"):
        load_encoder(f"languagebind:{folder}", "cpu", dtype="int8")
    with pytest.raises(ModelError, match="neither a directory nor a checkpoint"):
        load_encoder(f"languagebind:{tmp_path / 'nothing'}")
    (tmp_path / "config.json").write_text(json.dumps(config_of("vl")))
    with pytest.raises(ModelError, match=r"neither model\.safetensors nor"):
        load_encoder(f"languagebind:{tmp_path}")
    shutil.copytree(folder, tmp_path / "endless")
    settings = json.loads((folder / "tokenizer.json").read_text()) | {"post_processor": None}
    (tmp_path / "endless" / "tokenizer.json").write_text(json.dumps(settings))
    with pytest.raises(ModelError, match="does not end a text with its end token"):
        load_encoder(f"languagebind:{tmp_path / 'endless'}")
    encoder = LanguageBindEncoder(str(folder), device="cpu")
    with pytest.raises(ValueError, match="a clip of 2 frames; this encoder takes 3"):
        encoder.encode_clips([clip(1, frames=2)])


def test_a_missing_pocket_encoder_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moved = replace(ENCODER, checkpoint=str(tmp_path))
    monkeypatch.setattr(encoders, "read_encoder", lambda spec: (moved, moved.checkpoint))
    with pytest.raises(ModelError, match=r"make it with python -m videopro\.train\.pocket"):
        load_encoder("pocket", "cpu")
    languagebind_folder(tmp_path)
    save_file(weights_of("vl"), tmp_path / "model.safetensors")
    assert load_encoder("pocket", "cpu").name == "pocket"


def test_the_short_side_is_rounded_down() -> None:
    assert short_side(100, 100, 224) == (224, 224)
    assert short_side(1080, 1920, 224) == (224, 398)
