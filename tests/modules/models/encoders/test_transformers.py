"""CLIP, SigLIP 2, pe_video and sentence-transformers behind the encoder interfaces: tiny models from
configurations, their embeddings against what transformers' own forward passes give for the same inputs."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch.nn.functional import normalize

from tests.support.tiny_encoders import clip, languagebind_folder, spread, tiny_clip, tokenizer
from videopro.modules.errors import ModelError
from videopro.modules.models.encoders import load_encoder, load_text_encoder
from videopro.modules.models.encoders.interfaces import VideoTextEncoder

TEXTS = ["w1 w2 w3", "w7"]
_TOWER = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
_TEXT = {**_TOWER, "vocab_size": 50, "bos_token_id": 48, "eos_token_id": 49, "pad_token_id": 49}


def siglip_folder(path: Path) -> Path:
    config = transformers.SiglipConfig(
        text_config={**_TEXT, "max_position_embeddings": 12, "projection_size": 16},
        vision_config={**_TOWER, "image_size": 32, "patch_size": 16},
    )
    spread(transformers.SiglipModel(config)).save_pretrained(path)
    transformers.SiglipProcessor(
        transformers.SiglipImageProcessor(size={"height": 32, "width": 32}), tokenizer()
    ).save_pretrained(path)
    return path


def naflex_folder(path: Path) -> Path:
    config = transformers.Siglip2Config(
        text_config={**_TEXT, "max_position_embeddings": 12, "projection_size": 16},
        vision_config={**_TOWER, "num_patches": 16, "patch_size": 8},
    )
    spread(transformers.Siglip2Model(config)).save_pretrained(path)
    images = transformers.Siglip2ImageProcessor(patch_size=8, max_num_patches=16)
    marks = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "▁", "w", *"0123456789"]
    letters = transformers.Siglip2Tokenizer(vocab={mark: i for i, mark in enumerate(marks)}, merges=[])
    transformers.Siglip2Processor(images, letters).save_pretrained(path)
    return path


def pe_video_folder(path: Path) -> Path:
    pytest.importorskip("timm")
    text = transformers.ModernBertConfig(
        **_TEXT, max_position_embeddings=32, cls_token_id=48, sep_token_id=49, global_attn_every_n_layers=1
    )
    config = transformers.PeVideoConfig(
        text_config=text.to_dict(),
        video_config={
            "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2,
            "head_dim": 8,
            "vision_config": {
                "architecture": "test_vit", "num_classes": 12, "global_pool": "map", "do_pooling": True,
                "model_args": {"img_size": 32},
            },
        },
    )  # fmt: skip
    spread(transformers.PeVideoModel(config)).save_pretrained(path)
    transformers.PeVideoVideoProcessor(size={"height": 32, "width": 32}, num_frames=3).save_pretrained(path)
    tokenizer().save_pretrained(path)
    return path


FOLDERS: dict[str, tuple[str, Callable[[Path], Path]]] = {
    "clip": ("clip", tiny_clip),
    "siglip2": ("siglip2", siglip_folder),
    "siglip2-naflex": ("siglip2", naflex_folder),
    "pe_video": ("pe_video", pe_video_folder),
}


@pytest.fixture(scope="module", params=list(FOLDERS))
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, Path]:
    kind, make = FOLDERS[request.param]
    return request.param, kind, make(tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="module")
def encoder(made: tuple[str, str, Path]) -> VideoTextEncoder:
    return load_encoder(f"{made[1]}:{made[2]}", "cpu")


def own_outputs(kind: str, folder: Path, frames: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Embeddings of one clip and of TEXTS by the model's own forward pass over both."""
    if kind == "pe_video":
        model = transformers.PeVideoModel.from_pretrained(folder).eval()
        seen = transformers.PeVideoVideoProcessor.from_pretrained(folder)(
            [np.stack(frames)], do_sample_frames=False, return_tensors="pt"
        )
        read = tokenizer()(TEXTS, padding=True, return_tensors="pt")
        with torch.no_grad():
            out = model(read.input_ids, seen["pixel_values_videos"], attention_mask=read.attention_mask)
        return normalize(out.video_embeds, dim=-1)[0].numpy(), normalize(
            out.text_video_embeds, dim=-1
        ).numpy()
    classes: dict[str, tuple[Any, Any]] = {
        "clip": (transformers.CLIPModel, transformers.CLIPProcessor),
        "siglip2": (transformers.SiglipModel, transformers.SiglipProcessor),
        "siglip2-naflex": (transformers.Siglip2Model, transformers.Siglip2Processor),
    }
    model_class, processor_class = classes[kind]
    model, processor = model_class.from_pretrained(folder).eval(), processor_class.from_pretrained(folder)
    padding = {"padding": True} if kind == "clip" else {"padding": "max_length", "max_length": 12}
    read = processor.tokenizer(TEXTS, return_tensors="pt", return_attention_mask=kind == "clip", **padding)
    seen = processor.image_processor(frames, return_tensors="pt")
    with torch.no_grad():
        out = model(**read, **seen)
    # These models' own outputs are rows of length 1 already.
    return normalize(out.image_embeds.mean(0), dim=-1).numpy(), out.text_embeds.numpy()


def test_embeds_as_the_models_own_forward(made: tuple[str, str, Path], encoder: VideoTextEncoder) -> None:
    name, _, folder = made
    frames = clip(3, encoder.clip_frames, *encoder.frame_size(40, 70))
    seen, read = own_outputs(name, folder, [frame.image for frame in frames])
    np.testing.assert_allclose(encoder.encode_clips([frames])[0], seen, atol=1e-5)
    np.testing.assert_allclose(encoder.encode_texts(TEXTS), read, atol=1e-5)
    # The test would see nothing if everything looked alike.
    other = encoder.encode_clips([clip(4, encoder.clip_frames, *encoder.frame_size(40, 70))])
    assert np.abs(other[0] - seen).max() > 1e-4
    assert np.abs(read[0] - read[1]).max() > 1e-3


def test_many_clips_come_out_as_one_by_one(encoder: VideoTextEncoder) -> None:
    clips = [clip(seed, encoder.clip_frames, *encoder.frame_size(40, 70)) for seed in range(18)]
    together = encoder.encode_clips(clips)
    assert together.shape[0] == 18
    assert together.dtype == np.float32
    np.testing.assert_allclose(together[17], encoder.encode_clips(clips[17:])[0], atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
    texts = [f"w{i}" for i in range(20)]
    np.testing.assert_allclose(encoder.encode_texts(texts)[19], encoder.encode_texts(["w19"])[0], atol=1e-5)


def test_what_an_encoder_knows(made: tuple[str, str, Path], encoder: VideoTextEncoder) -> None:
    name, kind, folder = made
    about = json.loads(json.dumps(encoder.identity()))
    assert (about["encoder"], about["frames"]) == (kind, encoder.clip_frames)
    # Frames are wanted as the processor would scale them.
    sizes = {"clip": (32, 64), "siglip2": (32, 32), "siglip2-naflex": (23, 45), "pe_video": (32, 32)}
    assert encoder.frame_size(180, 360) == sizes[name]
    frames = clip(3, encoder.clip_frames, *encoder.frame_size(40, 70))
    half = load_encoder(f"{kind}:{folder}", "cpu", dtype="bfloat16")
    assert half.identity() != encoder.identity()
    assert (encoder.encode_clips([frames]) @ half.encode_clips([frames]).T).item() > 0.99
    # Only video models know the order of frames.
    change = np.abs(encoder.encode_clips([frames]) - encoder.encode_clips([frames[::-1]])).max()
    assert (change > 1e-5) == (kind == "pe_video")
    if kind == "siglip2":
        np.testing.assert_array_equal(encoder.encode_texts(["W1 w2"]), encoder.encode_texts(["w1 w2"]))
    # A frame alone is embedded by encoders of images.
    single = encoder.for_frames()
    if kind == "pe_video":
        assert single is encoder
        return
    assert (single.clip_frames, encoder.clip_frames) == (1, 8)
    assert single.identity() != encoder.identity()
    (frame,) = clip(7, 1, 40, 40)
    # The mean of equal frames is the frame.
    np.testing.assert_allclose(single.encode_clips([[frame]]), encoder.encode_clips([[frame] * 8]), atol=1e-5)


def test_a_checkpoint_of_another_kind_is_refused(tmp_path: Path) -> None:
    folder, other = tiny_clip(tmp_path / "clip"), languagebind_folder(tmp_path / "lb")
    for spec, named in (
        (f"siglip2:{folder}", "contains a 'clip' model, not one for 'siglip2'"),
        (f"pe_video:{folder}", "not one for 'pe_video'"),
        (f"clip:{other}", "cannot be loaded"),
    ):
        with pytest.raises(ModelError, match=named):
            load_encoder(spec, "cpu")


def sentences_folder(path: Path, bert: Any) -> Path:
    """As BGE-M3 and its like are published: a model, pooling by the first token, normalization."""
    bert.save_pretrained(path)
    tokenizer().save_pretrained(path)
    kinds = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    modules = [
        {"idx": i, "name": str(i), "path": where, "type": f"sentence_transformers.models.{kind}"}
        for i, (where, kind) in enumerate(kinds)
    ]
    (path / "modules.json").write_text(json.dumps(modules))
    (path / "sentence_bert_config.json").write_text('{"max_seq_length": 32, "do_lower_case": false}')
    (path / "config_sentence_transformers.json").write_text('{"prompts": {"query": "w9 "}}')
    (path / "1_Pooling").mkdir()
    (path / "1_Pooling" / "config.json").write_text(
        '{"word_embedding_dimension": 16, "pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}'
    )
    (path / "2_Normalize").mkdir()
    return path


def test_sentences_are_embedded_with_the_models_own_prompts(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    kept = {key: value for key, value in _TEXT.items() if key not in ("bos_token_id", "eos_token_id")}
    bert = spread(transformers.BertModel(transformers.BertConfig(**kept, max_position_embeddings=32)))
    encoder = load_text_encoder(str(sentences_folder(tmp_path / "sentences", bert)), "cpu")

    def first_token(text: str) -> np.ndarray:
        read = tokenizer()(text, return_tensors="pt")
        with torch.no_grad():
            states = bert(read.input_ids, attention_mask=read.attention_mask).last_hidden_state
        return normalize(states[0, 0], dim=-1).numpy()

    np.testing.assert_allclose(encoder.encode_texts(TEXTS), [first_token(t) for t in TEXTS], atol=1e-5)
    np.testing.assert_allclose(
        encoder.encode_queries(TEXTS), [first_token(f"w9 {t}") for t in TEXTS], atol=1e-5
    )
    assert encoder.identity()["encoder"] == "sentences"
    with pytest.raises(ModelError, match="neither a directory nor"):
        load_text_encoder(str(tmp_path / "nothing"), "cpu")
