"""Deep Video Discovery on the minute of coloured scenes (`reason_world`): six clips of ten seconds, and a
captioner that sees their colours."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.support import scenes as world
from tests.support.method_world import context, item
from tests.support.scenes import SceneBackbone, colour_of
from tests.support.scripted_model import ScriptedModel, scripted
from videopro.benchmarks import Item
from videopro.methods.agents import AgentModel, ModelReply, ToolCall
from videopro.methods.dvd.database import DatabaseBuilder
from videopro.methods.dvd.settings import DvdSettings
from videopro.modules.models.encoders import TextEncoder
from videopro.traces import Result, Step
from videopro.video import Frame, Subtitles

COLOURS = ("grey", "red", "blue", "green")


FAST: dict[str, Any] = {"clip_seconds": 10.0, "fps": 1.0, "text_encoder": "none"}


def describe(prompt: str, frames: Sequence[Frame]) -> Mapping[str, Any]:
    """A caption of the clip, with one subject: the place of that colour."""
    colour = colour_of(frames[0])
    subject = {"name": f"{colour} place", "appearance": f"plain {colour}", "actions": ["glows"]}
    return {"caption": f"A {colour} place, and nothing else.", "subjects": [subject]}


def captioner(**changes: Any) -> ScriptedModel:
    """Describes every clip, as often as it is asked."""
    return ScriptedModel([describe], **{"forever": True, **changes})


def seen_colours(prompt: str, frames: Sequence[Frame]) -> str:
    """The colours that frames show, in order."""
    return ", ".join(dict.fromkeys(colour_of(frame) for frame in frames))


def vqa(**changes: Any) -> ScriptedModel:
    """Names the colours that it sees."""
    return ScriptedModel([seen_colours], **{"forever": True, **changes})


def builder(root: Path, model: ScriptedModel, **changes: Any) -> DatabaseBuilder:
    """Of the minute's database. `subtitles`, `text_encoder`: the builder's; the rest are settings."""
    given = {name: changes.pop(name) for name in ("subtitles", "text_encoder") if name in changes}
    return DatabaseBuilder(
        world.video(), model, DvdSettings(**{**FAST, **changes}), root=root, **{"subtitles": None, **given}
    )


def dvd(llm: ScriptedModel, **changes: Any) -> Any:
    """The method. Models in `changes` are roles, the rest are settings."""
    models: dict[str, Any] = {"captioner": captioner(), "vqa": vqa(), "llm": llm}
    models |= {name: value for name, value in changes.items() if isinstance(value, AgentModel)}
    given = {name: value for name, value in changes.items() if name not in models}
    return scripted("dvd", models, **{**FAST, **given})


def ask(llm: ScriptedModel, question: Item | None = None, **changes: Any) -> Any:
    """The result of a question (default: what is shown at the red place, B)."""
    return dvd(llm, **changes).run(question or item(), context(SceneBackbone()))


def call(tool: str, **arguments: Any) -> ToolCall:
    return ToolCall(tool, json.dumps(arguments))


BROWSE = call("global_browse", query="coloured places")
SEARCH = call("clip_search", query="a red place", top_k=2)
INSPECT = call("frame_inspect", question="Which colours?", time_ranges=[[12, 18]])
ANSWER = call("answer", text="B. red")


def by_tools(*steps: Sequence[ToolCall], thought: str = "Hm.") -> ScriptedModel:
    """A language model with tool calls: what it calls in each step."""
    replies = [ModelReply(thought, 100, 10, calls=tuple(calls)) for calls in steps]
    return ScriptedModel(replies, offers_tools=True)


def as_text(*steps: ToolCall, thought: str = "Hm.") -> list[dict[str, Any]]:
    """The same as lines of a model without."""
    return [{"reason": thought, "tool": step.name, "arguments": json.loads(step.arguments)} for step in steps]


def tools_of(result: Result) -> list[Step]:
    """The steps that are calls of tools."""
    return [step for step in result.steps if step.kind != "act"]


class ColourWords(TextEncoder):
    """Embeds a text by the colours that it names. Notes what it embedded."""

    name = "colours"

    def __init__(self) -> None:
        self.embedded: list[str] = []

    def identity(self) -> dict[str, object]:
        return {"encoder": "colours"}

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        self.embedded += texts
        return self.encode_queries(texts)

    def encode_queries(self, queries: Sequence[str]) -> np.ndarray:
        # The last direction is that of texts without a colour.
        rows = [[float(c in query) for c in COLOURS] for query in queries]
        rows = [[*row, float(not any(row))] for row in rows]
        vectors: np.ndarray = np.array(rows, dtype=np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors


LINES = Subtitles(world.LINES, "test")
"""At 12, 22 and 34 s."""
