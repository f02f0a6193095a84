"""ASP-CLIP: its pooling against a computation in numpy for each text and clip, its folder, the encoder, the
index, and what a bad folder says."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import CLIPModel, CLIPProcessor

from tests.support.asp_folders import asp_folder, tiny_clip
from tests.support.making_videos import make
from tests.support.tiny_encoders import clip
from videopro.errors import ConfigError
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


def test_a_worked_example_in_the_plane() -> None:
    # Frames to the right and up, temporal features alike. A text to the right chooses the first: sums (2, 0)
    # and (1, 1), directions (1, 0) and (0.7071, 0.7071), mean (0.8536, 0.3536), cosine 0.9239.
    frames = torch.eye(2)[None]
    clips = pool_by_each(frames, torch.eye(2)[None])
    right = torch.tensor([[1.0, 0.0]])
    assert score_pooled(right, clips).item() == pytest.approx(0.9239, abs=1e-4)
    # The plain mean of the frames would give 0.7071.
    assert score_pooled(right, clips).item() > 0.71
    # Between both, the first is chosen, and the pooled clip is
    # (0.9239, 0.3827): 0.9239 again.
    between = torch.tensor([[0.5**0.5, 0.5**0.5]])
    assert score_pooled(between, clips).item() == pytest.approx((0.8536 + 0.3536) * 0.7071 / 0.9239, abs=1e-3)


def test_no_gradient_passes_the_choice_and_it_reaches_only_the_chosen_feature() -> None:
    frames = torch.randn(1, 4, 6, requires_grad=True)
    temporal = torch.randn(1, 4, 6, requires_grad=True)
    text = torch.nn.functional.normalize(torch.randn(1, 6), dim=-1)
    score_pooled(text, pool_by_each(frames, temporal)).sum().backward()
    chosen = int((torch.nn.functional.normalize(temporal[0], dim=-1) @ text[0]).argmax())
    assert temporal.grad is not None
    assert frames.grad is not None
    touched = temporal.grad[0].abs().sum(-1) > 0
    assert touched.tolist() == [k == chosen for k in range(4)]
    assert (frames.grad[0].abs().sum(-1) > 0).all()


def test_the_encoder_is_clip_with_its_temporal_transformer(tmp_path: Path) -> None:
    folder, _ = asp_folder(tmp_path / "asp")
    encoder = load_encoder(f"asp-clip:{folder}", "cpu")
    assert encoder.clip_frames == 4
    clips = [clip(seed, 4, *encoder.frame_size(40, 70)) for seed in range(3)]
    texts = ["w1 w2 w3", "w7"]
    # From the files alone: transformers' own CLIP, and the temporal transformer with torch's layers.
    model, processor = CLIPModel.from_pretrained(folder).eval(), CLIPProcessor.from_pretrained(folder)
    state = {
        name.removeprefix("temporal."): w.float()
        for name, w in load_file(folder / "asp_clip.safetensors").items()
    }
    with torch.no_grad():
        tokens = processor.tokenizer(texts, padding=True, return_tensors="pt")
        words = model.get_text_features(**tokens).pooler_output.numpy()
        wanted = np.zeros((2, 3))
        for j, frames in enumerate(clips):
            pixels = processor.image_processor([frame.image for frame in frames], return_tensors="pt")
            features = model.get_image_features(**pixels).pooler_output
            temporal = plain_layers(features + state["position_embedding.weight"], state)
            for i in range(2):
                wanted[i, j] = by_hand(words[i], features.numpy(), temporal.numpy())
    found = encoder.score_clips(texts, clips)
    np.testing.assert_allclose(found, wanted, atol=2e-5)
    assert np.abs(wanted[0] - wanted[1]).max() > 1e-3
    assert encoder.encode_clips(clips).shape == (3, *encoder.clip_shape) == (3, 8, 16)


def plain_layers(x: torch.Tensor, state: dict[str, torch.Tensor]) -> torch.Tensor:
    """(n, width) through two pre-norm layers of two heads, without batches or fused attention."""
    for layer in range(2):
        own = {
            name.removeprefix(f"encoder.layers.{layer}."): weight
            for name, weight in state.items()
            if name.startswith(f"encoder.layers.{layer}.")
        }

        def linear(name: str, y: torch.Tensor, own: dict[str, torch.Tensor] = own) -> torch.Tensor:
            return y @ own[f"{name}.weight"].T + own[f"{name}.bias"]

        def norm(name: str, y: torch.Tensor, own: dict[str, torch.Tensor] = own) -> torch.Tensor:
            y = (y - y.mean(-1, keepdim=True)) / (y.var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt()
            return y * own[f"{name}.weight"] + own[f"{name}.bias"]

        y = norm("layer_norm1", x)
        q, k, v = (linear(f"self_attn.{part}_proj", y) for part in "qkv")
        heads = [
            torch.softmax(q[:, part] @ k[:, part].T / 8**0.5, dim=-1) @ v[:, part]
            for part in (slice(0, 8), slice(8, 16))
        ]
        x = x + linear("self_attn.out_proj", torch.cat(heads, dim=1))
        y = linear("mlp.fc1", norm("layer_norm2", x))
        x = x + linear("mlp.fc2", y * torch.sigmoid(1.702 * y))
    return x


def test_the_temporal_transformer_starts_as_the_text_tower(tmp_path: Path) -> None:
    clip_model = CLIPModel.from_pretrained(tiny_clip(tmp_path / "clip"))
    temporal = TemporalTransformer(AspClipConfig(width=16, heads=2, layers=2, frames=4))
    temporal.initialize_from_text_tower(clip_model.text_model)
    tower = clip_model.text_model.state_dict()
    for name, weight in temporal.state_dict().items():
        if name == "position_embedding.weight":
            assert torch.equal(weight, tower["embeddings.position_embedding.weight"][:4])
        else:
            assert torch.equal(weight, tower[name])
    narrow = TemporalTransformer(AspClipConfig(width=8, heads=2, layers=2, frames=4))
    with pytest.raises(ModelError, match=r"cannot start from this text tower: .* differs"):
        narrow.initialize_from_text_tower(clip_model.text_model)
    deep = TemporalTransformer(AspClipConfig(width=16, heads=2, layers=4, frames=4))
    with pytest.raises(ModelError, match="cannot start from this text tower"):
        deep.initialize_from_text_tower(clip_model.text_model)


def test_an_index_keeps_what_a_text_may_choose(tmp_path: Path) -> None:
    make(tmp_path / "numbered.mp4", list(range(0, 400, 2)), rate=5)
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


def test_the_identity_depends_on_both_models(tmp_path: Path) -> None:
    folder, _ = asp_folder(tmp_path / "asp")
    about = load_encoder(f"asp-clip:{folder}", "cpu").identity()
    assert about["encoder"] == "asp-clip"
    json.dumps(about)
    state = load_file(folder / "asp_clip.safetensors")
    save_file({name: weight * 2 for name, weight in state.items()}, folder / "asp_clip.safetensors")
    assert load_encoder(f"asp-clip:{folder}", "cpu").identity() != about


def test_weights_without_the_prefix_replace_the_bases(tmp_path: Path) -> None:
    folder, _ = asp_folder(tmp_path / "asp")
    before = load_encoder(f"asp-clip:{folder}", "cpu").encode_texts(["w1"])
    state = load_file(folder / "asp_clip.safetensors")
    other = torch.randn(16, 16, generator=torch.Generator().manual_seed(5))
    save_file({**state, "text_projection.weight": other}, folder / "asp_clip.safetensors")
    after = load_encoder(f"asp-clip:{folder}", "cpu").encode_texts(["w1"])
    assert np.abs(before - after).max() > 1e-2


def test_bad_folders_say_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'asp-clip' needs the directory"):
        load_encoder("asp-clip")
    with pytest.raises(ConfigError, match="did you mean 'asp-clip'"):
        load_encoder("asp-clp:x")
    with pytest.raises(ModelError, match=r"is not an ASP-CLIP folder: asp_clip.json cannot be read"):
        load_encoder(f"asp-clip:{tiny_clip(tmp_path / 'plain')}", "cpu")
    folder, _ = asp_folder(tmp_path / "asp")
    good = json.loads((folder / "asp_clip.json").read_text())
    state = load_file(folder / "asp_clip.safetensors")

    def refused(config: object, message: str) -> None:
        (folder / "asp_clip.json").write_text(json.dumps(config))
        with pytest.raises(ModelError, match=message):
            load_encoder(f"asp-clip:{folder}", "cpu")
        (folder / "asp_clip.json").write_text(json.dumps(good))

    refused([], "asp_clip.json cannot be read .*should be an object")
    refused({**good, "layers": 2.5}, "layers Input should be a valid integer")
    refused({**good, "heads": 3}, "width 16 is not a multiple of heads 3")
    refused({**good, "layers": 3}, r"does not fit asp_clip.json: encoder.layers.2.* \(16 such weights\)")
    refused({**good, "base": f"pe_video:{tmp_path}"}, "pe_video")

    narrow = TemporalTransformer(AspClipConfig(width=8, heads=2, layers=2, frames=4)).state_dict()
    save_file({f"temporal.{k}": v for k, v in narrow.items()}, folder / "asp_clip.safetensors")
    refused({**good, "width": 8}, "has embeddings of width 16, the temporal transformer in .* 8")
    save_file({**state, "nothing.weight": torch.zeros(2)}, folder / "asp_clip.safetensors")
    refused(good, r"does not fit its base '.': nothing.weight is missing, unexpected or of another shape")
    first = next(iter(state))
    save_file({**state, first: torch.full_like(state[first], float("nan"))}, folder / "asp_clip.safetensors")
    refused(good, "is damaged: its tensor .* holds NaN")
    (folder / "asp_clip.safetensors").write_bytes(b"short")
    refused(good, "asp_clip.safetensors cannot be read")
    (folder / "asp_clip.safetensors").unlink()
    refused(good, "asp_clip.safetensors cannot be read")
