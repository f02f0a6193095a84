"""ASP-CLIP: its pooling against a computation in numpy for each text and clip, its folder, the encoder, the
index, and what a bad folder says."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import CLIPModel, CLIPProcessor

from tests.support.making_videos import make
from tests.support.tiny_encoders import asp_folder, clip, tiny_clip
from videopro.modules.errors import ModelError
from videopro.modules.models.encoders import load_encoder
from videopro.modules.models.encoders.asp_clip import (
    AspClipConfig,
    TemporalTransformer,
    pool_by_each,
    score_pooled,
)
from videopro.modules.search import build_index
from videopro.video import Video


def by_hand(text: np.ndarray, frames: np.ndarray, temporal: np.ndarray) -> float:
    """The similarity of one text, (d,), with one clip of (n, d) frame and temporal features, step by step."""
    cosines = [float(text @ row / np.linalg.norm(text) / np.linalg.norm(row)) for row in temporal]
    chosen = temporal[int(np.argmax(cosines))]
    sums = [frame + chosen for frame in frames]
    mean = np.mean([row / np.linalg.norm(row) for row in sums], axis=0)
    return float(text @ mean / np.linalg.norm(text) / np.linalg.norm(mean))


def test_the_pooling_is_that_of_the_paper_for_each_text_and_clip() -> None:
    rng = np.random.default_rng(0)
    # Frames of different lengths: the sum is of features that are not normalized.
    frames = rng.normal(size=(5, 4, 6)) * rng.uniform(0.2, 5, (5, 4, 1))
    temporal, texts = rng.normal(size=(5, 4, 6)), rng.normal(size=(7, 6))
    texts /= np.linalg.norm(texts, axis=1, keepdims=True)
    wanted = [[by_hand(text, f, t) for f, t in zip(frames, temporal, strict=True)] for text in texts]
    clips = pool_by_each(torch.from_numpy(frames), torch.from_numpy(temporal))
    assert clips.shape == (5, 8, 6)
    np.testing.assert_allclose(clips.norm(dim=-1), 1, atol=1e-9)
    np.testing.assert_allclose(score_pooled(torch.from_numpy(texts), clips), wanted, atol=1e-9)


def test_the_encoder_is_clip_with_its_temporal_transformer(tmp_path: Path) -> None:
    folder, _ = asp_folder(tmp_path / "asp")
    encoder = load_encoder(f"asp-clip:{folder}", "cpu")
    assert encoder.clip_frames == 4
    clips = [clip(seed, 4, *encoder.frame_size(40, 70)) for seed in range(3)]
    texts = ["w1 w2 w3", "w7"]
    # From the files alone: transformers' own CLIP, and the layers, as tested in test_languagebind.py.
    model, processor = CLIPModel.from_pretrained(folder).eval(), CLIPProcessor.from_pretrained(folder)
    stored = load_file(folder / "asp_clip.safetensors")
    transformer = TemporalTransformer(AspClipConfig(width=16, heads=2, layers=2, frames=4))
    transformer.load_state_dict({name.removeprefix("temporal."): w.float() for name, w in stored.items()})
    with torch.no_grad():
        tokens = processor.tokenizer(texts, padding=True, return_tensors="pt")
        words = model.get_text_features(**tokens).pooler_output.numpy()
        wanted = np.zeros((2, 3))
        for j, frames in enumerate(clips):
            pixels = processor.image_processor([frame.image for frame in frames], return_tensors="pt")
            features = model.get_image_features(**pixels).pooler_output
            positions = stored["temporal.position_embedding.weight"].float()
            (temporal,) = transformer.encoder((features + positions)[None])
            for i in range(2):
                wanted[i, j] = by_hand(words[i], features.numpy(), temporal.numpy())
    found = encoder.score_clips(texts, clips)
    np.testing.assert_allclose(found, wanted, atol=2e-5)
    assert np.abs(wanted[0] - wanted[1]).max() > 1e-3
    assert encoder.encode_clips(clips).shape == (3, *encoder.clip_shape) == (3, 8, 16)


def test_the_temporal_transformer_starts_as_the_text_tower(tmp_path: Path) -> None:
    def temporal(**changes: int) -> TemporalTransformer:
        return TemporalTransformer(
            AspClipConfig(**{"width": 16, "heads": 2, "layers": 2, "frames": 4, **changes})
        )

    tower = CLIPModel.from_pretrained(tiny_clip(tmp_path / "clip")).text_model
    made, given = temporal(), tower.state_dict()
    made.initialize_from_text_tower(tower)
    for name, weight in made.state_dict().items():
        positions = given["embeddings.position_embedding.weight"][:4]
        assert torch.equal(weight, positions if name == "position_embedding.weight" else given[name])
    for other in (temporal(width=8), temporal(layers=4)):
        with pytest.raises(ModelError, match="cannot start from this text tower"):
            other.initialize_from_text_tower(tower)


def test_an_index_keeps_what_a_text_may_choose(tmp_path: Path) -> None:
    make(tmp_path / "numbered.mp4", list(range(0, 200, 2)), rate=5)
    folder, _ = asp_folder(tmp_path / "asp")
    encoder, video = load_encoder(f"asp-clip:{folder}", "cpu"), Video.open(tmp_path / "numbered.mp4")
    made = build_index(video, encoder, root=tmp_path / "index")
    assert made.vectors.shape == (len(made.clips), 8, 16)
    size = encoder.frame_size(video.height, video.width)
    clips = [video.frames(encoder.clip_times(start, end), size=size) for start, end in made.clips]
    (scores,) = encoder.score_clips(["w3 w9"], clips)
    found = made.search("w3 w9", len(clips))
    assert [number for number, _ in found] == np.argsort(-scores, kind="stable").tolist()
    np.testing.assert_allclose([score for _, score in found], np.sort(scores)[::-1], atol=1e-5)
    again = build_index(video, load_encoder(f"asp-clip:{folder}", "cpu"), root=tmp_path / "index")
    np.testing.assert_array_equal(again.vectors, made.vectors)


def test_bad_folders_say_what_is_wrong(tmp_path: Path) -> None:
    folder, _ = asp_folder(tmp_path / "asp")
    about, stored = folder / "asp_clip.json", folder / "asp_clip.safetensors"
    good, state = json.loads(about.read_text()), load_file(stored)

    def refused(config: object, named: str) -> None:
        about.write_text(json.dumps(config))
        with pytest.raises(ModelError, match=named):
            load_encoder(f"asp-clip:{folder}", "cpu")

    refused([], "asp_clip.json cannot be read")
    refused({**good, "layers": 2.5}, "layers")
    refused({**good, "heads": 3}, "width 16 is not a multiple of heads 3")
    refused({**good, "layers": 3}, r"encoder.layers.2.* \(16 such weights\)")
    refused({**good, "base": f"pe_video:{tmp_path}"}, "pe_video")
    narrow = TemporalTransformer(AspClipConfig(width=8, heads=2, layers=2, frames=4)).state_dict()
    save_file({f"temporal.{key}": weight for key, weight in narrow.items()}, stored)
    refused({**good, "width": 8}, "has embeddings of width 16, but the temporal transformer in .* has 8")
    save_file({**state, "nothing.weight": torch.zeros(2)}, stored)
    refused(good, "nothing.weight")
    first = next(iter(state))
    save_file({**state, first: torch.full_like(state[first], float("nan"))}, stored)
    refused(good, "is damaged: its tensor .* contains NaN")
    stored.write_bytes(b"short")
    refused(good, "asp_clip.safetensors cannot be read")
    about.unlink()
    with pytest.raises(ModelError, match="is not an ASP-CLIP folder"):
        load_encoder(f"asp-clip:{folder}", "cpu")
