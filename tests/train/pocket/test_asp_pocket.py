"""The comparison of poolings on pocket: its features, recall counted by hand, and the shipped weights."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from videopro.modules.models.encoders import load_encoder
from videopro.modules.models.encoders.asp_clip import AspClipConfig
from videopro.pocket.encoders import ASP_CLIP
from videopro.pocket.script import make_script
from videopro.train.pocket.asp_pocket import PooledChunks, compare_poolings, hits, summarize, with_interval
from videopro.train.pocket.chunk_features import (
    ChunkFeatures,
    chunk_bounds,
    chunk_times,
    compute,
    draw_chunks,
    events,
    train_scripts,
    visible_attributes,
)
from videopro.train.retrieval import training
from videopro.video import Frame

SMALL = AspClipConfig(width=96, heads=4, layers=1, base="pocket")


def test_an_event_belongs_to_the_chunk_with_most_of_its_scene() -> None:
    plan = make_script("medium", 200_000)
    bounds = chunk_bounds(plan.duration)
    assert len(bounds) == 6
    assert bounds[0][0] == 0
    assert bounds[-1][1] == plan.duration
    acted = [scene for scene in plan.scenes if scene.actor]
    for scene, event in zip(acted, events(plan), strict=True):
        assert scene.place in event.text
        start, end = bounds[event.chunk]
        inside = min(end, scene.end) - max(start, scene.start)
        assert inside >= (scene.end - scene.start) / 2 or scene.end - scene.start > end - start
        times = chunk_times(plan.duration)[event.chunk]
        assert event.frames == len([time for time in times if scene.start <= time < scene.end])
        assert event.frames == 0 or event.attributes in visible_attributes(plan)[event.chunk]


@pytest.fixture(scope="module")
def drawn() -> list[np.ndarray]:
    """The pictures of the first training video."""
    return draw_chunks(next(train_scripts(1)))


def test_training_videos_are_those_of_no_split(drawn: list[np.ndarray]) -> None:
    scripts = list(train_scripts(3))
    assert [plan.length for plan in scripts] == ["short", "medium", "long"]
    assert min(plan.seed for plan in scripts) > 6_000_000
    assert [chunk.shape for chunk in drawn] == [(16, 96, 160, 3)] * 6


def test_features_are_those_of_the_encoder_before_its_projections(drawn: list[np.ndarray]) -> None:
    plan = next(train_scripts(1))
    made = compute([plan], lambda number: [list(chunk) for chunk in drawn], "one video")
    assert made.frames.shape == (6, 16, 128)
    assert made.own.tolist() == [event.chunk for event in events(plan)]
    encoder, own = load_encoder("pocket", "cpu"), PooledChunks("mean", SMALL, 0)
    with torch.no_grad():
        words = own.text_projection(torch.from_numpy(made.captions))
        still = own.visual_projection(torch.from_numpy(made.frames[2, 5]))
    texts = [event.text for event in events(plan)]
    np.testing.assert_allclose(normalize(words, dim=-1), encoder.encode_texts(texts), atol=1e-5)
    (same,) = encoder.encode_clips([[Frame(drawn[2][5], 0.0)] * 4])
    np.testing.assert_allclose(normalize(still, dim=-1), same, atol=1e-5)


def features(**changes: object) -> ChunkFeatures:
    """Two videos of six chunks, three captions: chunk 7 shows the second's scene too, none the third's."""
    rng = np.random.default_rng(0)
    facts = [[] for _ in range(12)]
    facts[1], facts[3], facts[7] = ["a"], ["b"], ["b"]
    given: dict[str, object] = {
        "frames": rng.normal(size=(12, 16, 128)).astype(np.float32),
        "captions": rng.normal(size=(3, 128)).astype(np.float32),
        "own": np.array([1, 3, 8]),
        "shown": np.array([4, 2, 0]),
        "facts": np.array(["a", "b", "c"]),
        "chunk_facts": np.array([json.dumps(each) for each in facts]),
    }
    return ChunkFeatures(**{**given, **changes})  # type: ignore[arg-type]


def test_a_chunk_fits_a_caption_if_it_is_its_own_or_shows_the_same() -> None:
    fit = features().fit(np.array([0, 1, 2]), np.arange(12))
    assert [np.flatnonzero(row).tolist() for row in fit] == [[1], [3, 7], [8]]


def test_hits_are_counted_within_the_video_and_over_all(monkeypatch: pytest.MonkeyPatch) -> None:
    data, model = features(), PooledChunks("mean", SMALL, 0)
    scores = torch.zeros(2, 12)
    scores[0, 1], scores[0, 9] = 0.5, 0.9  # best of its video, second of all
    scores[1, 4], scores[1, 7] = 0.5, 0.8  # not of its video; of all, another chunk that shows it
    monkeypatch.setattr(PooledChunks, "forward", lambda self, frames, texts: scores)
    found = hits(model, data)
    assert {name: each.tolist() for name, each in found.items()} == {
        "1 of six": [True, False],
        "1 of all": [False, True],
        "5 of all": [True, True],
        "10 of all": [True, True],
    }


def cosine(left: np.ndarray, right: np.ndarray) -> float:
    return left @ right / np.linalg.norm(left) / np.linalg.norm(right)


@pytest.mark.parametrize("pooling", ["mean", "temporal", "asp", "frame"])
def test_the_poolings_are_what_they_say(pooling: str) -> None:
    data, model = features(), PooledChunks(pooling, SMALL, 0)
    with torch.no_grad():
        found = model(torch.from_numpy(data.frames), torch.from_numpy(data.captions)).numpy()
        seen = model.visual_projection(torch.from_numpy(data.frames))
        temporal = (model.temporal(seen) if model.temporal else torch.zeros_like(seen)).numpy()
        words = model.text_projection(torch.from_numpy(data.captions)).numpy()
    for i, word in enumerate(words):
        for j, frames in enumerate(seen.numpy()):
            added = temporal[j]
            if pooling == "asp":
                added = max(temporal[j], key=lambda frame, word=word: cosine(frame, word))
            sums = frames + added
            near = cosine(word, (sums / np.linalg.norm(sums, axis=1, keepdims=True)).mean(0))
            if pooling == "frame":
                near = max(cosine(word, frame) for frame in frames)
            assert found[i, j] == pytest.approx(near, abs=1e-5)


def test_gaps_have_an_interval_over_seeds_and_one_over_videos() -> None:
    # Student's t with 2 degrees of freedom: 4.3027 (table); the deviation of 1, 2, 3 is 1.
    half = 4.3027 * 0.1 / 3**0.5
    found = with_interval([0.1, 0.2, 0.3], "seeds")
    assert found == {
        "mean": 0.2,
        "ci95": [round(0.2 - half, 4), round(0.2 + half, 4)],
        "seeds": [0.1, 0.2, 0.3],
    }
    videos = with_interval([0.1, 0.2, 0.3], "videos")
    assert (videos["mean"], videos["videos"]) == (0.2, 3)
    outcomes = {"mean": [(0, 0), (1, 0)], "temporal": [(1, 0), (1, 0)], "asp": [(1, 1), (1, 0)]}
    runs = {name: [{"1 of six": np.array(run)} for run in own] for name, own in outcomes.items()}
    rows = summarize(runs, np.array([0, 1]))["1 of six"]
    assert isinstance(rows, dict)
    assert rows["asp - mean"]["seeds"] == [1.0, 0.0]
    assert rows["asp - temporal"]["mean"] == 0.25
    assert rows["asp - mean, over videos"]["mean"] == 0.5


@pytest.mark.long
def test_a_run_learns_resumes_and_can_be_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    # A caption's state is that of one frame of its chunk: what ASP can find, and the mean hides.
    frames, own = rng.normal(size=(60, 16, 128)).astype(np.float32), np.arange(60)
    data = features(
        frames=frames,
        captions=frames[own, rng.integers(16, size=60)],
        own=own,
        shown=np.ones(60, int),
        facts=np.array([str(i) for i in own]),
        chunk_facts=np.array(["[]"] * 60),
    )
    for name in ("train", "val"):
        np.savez(tmp_path / f"{name}.npz", **vars(data))
    runs = tmp_path / "runs"
    recipe = training.RetrieverRecipe(steps=40, batch=16)
    monkeypatch.setattr(training, "SAVE_EVERY", 20)

    def compare() -> None:
        compare_poolings(tmp_path, runs, recipe=recipe, layers=1, seeds=(1, 2), splits=["val"])

    compare()
    record = json.loads((runs / "record.json").read_text())
    assert record["pairs"]["val"]["captions"] == 60
    log = [json.loads(line) for line in (runs / "asp-1" / "log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in log if "held_out" in line] == [20, 40]
    assert [line["step"] for line in log if "loss" in line] == [25]
    weights = (runs / "model" / "asp_clip.safetensors").read_bytes()
    compare()  # every run is done: nothing is trained again
    assert json.loads((runs / "record.json").read_text())["recall"] == record["recall"]
    assert (runs / "model" / "asp_clip.safetensors").read_bytes() == weights
    encoder = load_encoder(f"asp-clip:{runs / 'model'}", "cpu")
    assert (encoder.clip_frames, encoder.clip_shape) == (16, (32, 96))


def test_the_shipped_weights_are_small_and_score_a_chunk_by_the_text(drawn: list[np.ndarray]) -> None:
    folder = Path(ASP_CLIP.checkpoint)
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 700_000
    record = json.loads((folder / "training_record.json").read_text())
    trained = record["recall"]["test"]["1 of six"]["asp"]["mean"]
    assert trained > record["untrained"]["mean"]["test"]["1 of six"]
    encoder = load_encoder("pocket-asp", "cpu")
    chunks = [[Frame(image, 0.0) for image in chunk] for chunk in drawn]
    asked = [event for event in events(next(train_scripts(1))) if event.frames]
    scores = encoder.score_clips([event.text for event in asked], chunks)
    assert scores.shape == (len(asked), 6)
    right = [int(row.argmax()) == event.chunk for row, event in zip(scores, asked, strict=True)]
    assert sum(right) >= len(right) / 2  # a sixth by chance
