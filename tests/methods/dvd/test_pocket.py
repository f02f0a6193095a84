"""The pocket model as captioner and VQA model, on a video of the pocket world."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.dvd_world import ScriptedDvd, by_tools, call, settings, tools_of
from videopro.backbones import load_backbone
from videopro.backbones.wrappers import Meter
from videopro.benchmarks import Item, Protocol
from videopro.methods import MethodContext
from videopro.methods.agents import ModelLoader
from videopro.modules.search import clip_bounds
from videopro.pocket import world
from videopro.question import Question
from videopro.video import Video


def test_the_pocket_model_captions_and_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = world.ensure("val", tmp_path / "world", videos=["short_000"], quiet=True)
    monkeypatch.setenv("VIDEOPRO_CACHE", str(tmp_path / "cache"))
    rows = [json.loads(line) for line in (folder / "questions.jsonl").read_text().splitlines()]
    (row,) = [row for row in rows if row["id"] == "val_short_000_shape"]
    assert row["question"] == "Which shape is at the kitchen?"
    llm = by_tools(
        [call("global_browse", query="the kitchen"), call("clip_search", query="at the kitchen", top_k=3)],
        [call("frame_inspect", question=row["question"], time_ranges=row["evidence"])],
        [call("answer", text=row["answer"])],
    )
    backbone = load_backbone("pocket")
    pocket = ModelLoader(backbone)["self"]
    method = ScriptedDvd(settings(clip_seconds=5.0, fps=2.0, registry="none"), llm=llm)
    method.scripted.update(captioner=pocket, vqa=pocket)
    video = Video.open(folder / row["video"])
    question = Question(row["question"], tuple(row["choices"]))
    asked = Item(row["id"], video.path, "short_000", question, answer=row["answer"])
    context = MethodContext(video, backbone, Protocol(parser="robust"), meter=Meter())
    result: Any = method.run(asked, context)
    assert result.final.letter == row["answer"]
    browse, search, inspect, _ = tools_of(result)
    assert (len(browse.frames), browse.raw.strip() != "") == (16, True)
    assert "at most 16 frames a call: the maximum of vqa" in result.notes
    # The pocket model's own captions, and the search by words, find the place that the question is about.
    assert "kitchen" in search.segments[0].text
    start, end = row["evidence"][0]
    assert start < search.segments[0].end
    assert search.segments[0].start < end
    assert all(start <= frame[0] <= end for frame in inspect.frames)
    cost = result.prepared[0].cost
    assert cost.calls == len(clip_bounds(video.duration, 5.0))
    assert cost.tokens_out > 5 * cost.calls
