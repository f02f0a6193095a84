"""The pocket encoder's training: texts that fit clips, the loss, what is shipped, and a short run."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from videopro.modules.models.encoders import load_encoder
from videopro.modules.models.encoders.languagebind_model import LanguageBindConfig
from videopro.pocket import vocabulary
from videopro.train.pocket import encoder as retriever
from videopro.train.pocket.encoder import (
    ClipTextPairs,
    QueryText,
    evidence_clips,
    flatten_scene,
    retriever_tokenizer,
    text_about,
)
from videopro.train.retrieval import training
from videopro.train.retrieval.training import contrastive_loss
from videopro.video import Frame

BEACH = {"place": "beach", "sign": "OPEN", "actor": "ring", "shape": "ring", "color": "red"}
EMPTY = {"place": "beach", "sign": None, "actor": None, "shape": None, "color": None}


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """240 scenes of 16 pictures, a pattern for each place; the first pixel says place and frame."""
    folder, rng = tmp_path_factory.mktemp("pool"), np.random.default_rng(0)
    patterns = rng.integers(0, 256, (20, 4, 6, 3), dtype=np.uint8).repeat(8, 1).repeat(9, 2)
    frames, facts = np.zeros((240, 16, 32, 54, 3), np.uint8), []
    for i in range(240):
        frames[i] = patterns[i % 20]
        frames[i, :, 0, 0, 0] = 12 * (i % 20)
        frames[i, :, 0, 0, 2] = np.arange(16)
        actor = {"shape": "ring", "color": "red", "move": "rests"} if i % 3 else None
        facts.append({
            "place": vocabulary.PLACES[i % 20], "seconds": 8.0 + i % 7, "actor": actor,
            "sign": "OPEN" if i % 5 == 0 else None,
        })  # fmt: skip
    np.save(folder / "scenes.npy", frames)
    (folder / "scenes.json").write_text(json.dumps(facts))
    return folder


def test_a_text_fits_scenes_of_its_facts() -> None:
    assert flatten_scene({"place": "beach", "sign": None, "actor": None}) == EMPTY
    text = QueryText("the ring at the beach", (("shape", "ring"), ("place", "beach")))
    assert text.fits(BEACH)
    assert not text.fits({**BEACH, "shape": "ball"})
    assert not text.fits(EMPTY)
    sign = QueryText("the sign", (("sign", None),))
    assert sign.fits(BEACH)
    assert not sign.fits(EMPTY)


def test_texts_say_what_they_need_and_no_heldout_wording_is_used() -> None:
    rng = np.random.default_rng(0)
    texts = [text_about(facts, rng) for facts in (BEACH, EMPTY) for _ in range(400)]
    heldout = {
        form.format(place="beach", shape="ring")
        for kind in ("shape", "color", "move", "after", "before", "count", "sign")
        for form in vocabulary.PHRASINGS[kind]["heldout"]
    }
    assert not heldout & {text.text for text in texts}
    for text, facts in zip(texts, [BEACH] * 400 + [EMPTY] * 400, strict=True):
        assert text.fits(facts), text
        assert ("beach" in text.text) == (("place", "beach") in text.needs)
        assert ("ring" in text.text) == (("shape", "ring") in text.needs)
        assert ("red" in text.text) == (("color", "red") in text.needs)
    assert len({text.text for text in texts}) > 30


def test_a_clip_shows_ten_seconds_in_order_and_fit_is_the_share(pool: Path) -> None:
    pairs = ClipTextPairs(pool, 4)
    batch = pairs.batch(100, (0, 0))
    assert batch.frames.shape == (100, 4, 32, 54, 3)
    places, moments = batch.frames[:, :, 0, 0, 0] // 12, batch.frames[:, :, 0, 0, 2].astype(int)
    cut = (places != places[:, :1]).any(1)
    assert 0.2 < cut.mean() < 0.5
    for i in range(100):
        # Frames continue within a scene; at a cut, the next scene begins at its start.
        same = places[i, 1:] == places[i, :-1]
        assert (np.diff(moments[i])[same] > 0).all()
        if not cut[i]:
            assert moments[i, 3] - moments[i, 0] >= 7  # 7.5 of at most 14 s
        own = batch.fit[i, i]
        assert own > 0
        text = batch.texts[i]
        named = next((p for p in vocabulary.PLACES if f" {p}" in f" {text}"), None)
        if named is not None:
            share = (places[i] == vocabulary.PLACES.index(named)).mean()
            assert own <= share
    again = pairs.batch(100, (0, 0))
    assert again.texts == batch.texts
    assert (again.frames == batch.frames).all()


def test_the_loss_is_that_of_clip_where_each_text_fits_its_own_clip_alone() -> None:
    torch.manual_seed(0)
    scores = torch.randn(5, 5)
    own = torch.arange(5)
    wanted = [torch.nn.functional.cross_entropy(each, own).item() for each in (scores, scores.T)]
    assert contrastive_loss(scores, torch.eye(5)).item() == pytest.approx(sum(wanted) / 2)
    # With two that fit alike, the best is to give half to each.
    fit = torch.tensor([[1.0, 1.0, 0.0]])
    best = training._cross_entropy(torch.tensor([[30.0, 30.0, -30.0]]), fit)
    assert best.item() == pytest.approx(math.log(2), abs=1e-5)


def test_evidence_lies_in_clips_by_half_or_in_the_one_with_most_of_it() -> None:
    clips = [(0.0, 10.0), (10.0, 20.0), (20.0, 25.0)]
    assert evidence_clips(clips, [[4.0, 14.0]]) == [0]
    assert evidence_clips(clips, [[5.0, 21.0]]) == [0, 1]
    assert evidence_clips(clips, [[8.0, 13.0]]) == [1]
    assert evidence_clips(clips, [[0.0, 3.0], [6.0, 9.0]]) == [0]
    assert evidence_clips(clips, [[22.0, 25.0]]) == [2]


@pytest.mark.long
def test_a_few_steps_learn_and_ship(pool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = retriever.pocket_config(len(retriever_tokenizer()))
    small["vision_config"] |= {"image_size": 32, "num_hidden_layers": 1}  # type: ignore[operator]
    monkeypatch.setattr(retriever, "pocket_config", lambda size: small)
    monkeypatch.setattr(retriever, "HELD_OUT", 40)
    monkeypatch.setattr(training.RetrieverRecipe, "rate", lambda self, step: 2e-3 * min(1.0, (step + 1) / 15))

    retriever.train_encoder(pool, tmp_path, training.RetrieverRecipe(steps=50, batch=48), splits=())
    log = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in log if "loss" in line] == [25, 50]
    held = [line["held_out"]["top1"] for line in log if "held_out" in line]
    assert held[-1] > 0.6  # a tenth of the clips fit a text
    encoder = load_encoder(f"languagebind:{tmp_path / 'model'}", "cpu")
    assert sum(p.stat().st_size for p in (tmp_path / "model").iterdir()) <= retriever.MAX_BYTES
    record = json.loads((tmp_path / "model" / "training_record.json").read_text())
    assert record["recipe"]["steps"] == 50
    assert record["held_out"]["top1"] == held[-1]
    clips = ClipTextPairs(pool, 4).batch(4, (5, 5)).frames
    assert encoder.encode_clips([[Frame(f, 0.0) for f in frames] for frames in clips]).shape == (4, 96)


def test_the_real_size_may_be_shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = retriever.pocket_config(len(retriever_tokenizer()))
    model = retriever.new_model(LanguageBindConfig.read(plain), 0)
    retriever.write(model, plain, tmp_path / "model", {})
    loaded = load_encoder(f"languagebind:{tmp_path / 'model'}", "cpu")
    assert loaded.frame_size(192, 320) == (96, 160)  # the size of the pool's frames
    monkeypatch.setattr(retriever, "MAX_BYTES", 1000)
    with pytest.raises(RuntimeError, match="at most 1000 are shipped"):
        retriever.write(model, plain, tmp_path / "model", {})
