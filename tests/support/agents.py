"""The four agents on the minute of coloured scenes, with models that reply what a test gives them: devices
for tests, never results.

`ScriptedModel` replies lines in order and keeps what it was sent; `scripted` is any agent with such models.
VCA: `explore` with `scores`. VideoAgent: `SceneVideoAgent` with `predict`, `reflect` and `search`, an encoder
that knows colours and seconds, and a captioner that names colours. Deep Video Discovery: `ask` with `call`s,
six clips of ten seconds. LVAgent: `discuss` between `agents`.
"""

import json
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import numpy as np

from tests.support import scenes as world
from tests.support.colours import COLOURS, colour_of
from tests.support.number_encoder import NumberEncoder
from tests.support.scenes import SceneBackbone, SceneIndex, context, item
from videopro.backbones import Sampling
from videopro.benchmarks import Item
from videopro.methods import create
from videopro.methods.agents import AgentModel, ModelReply, Prepared, Tool, ToolCall, ToolsRefused, Turn
from videopro.methods.dvd.database import DatabaseBuilder
from videopro.methods.dvd.settings import DvdSettings
from videopro.modules.models.encoders import TextEncoder
from videopro.question import Answer, Question
from videopro.traces import Result, Step
from videopro.video import Frame, Subtitles

Line: TypeAlias = str | Mapping[str, Any] | Exception | Callable[[str, Sequence[Frame]], Any]
"""A reply: text, an object that is sent as JSON, an error to raise, or a function of prompt and frames."""


@dataclass
class Request:
    """What the model was sent."""

    prompt: str
    frames: tuple[Frame, ...] = ()
    schema: Mapping[str, Any] | None = None
    sampling: Sampling | None = None
    turns: tuple[Turn, ...] = ()


@dataclass
class ScriptedModel(AgentModel):
    """Replies `lines` in order, and fails the test if it is asked more often; with `forever`, the last line
    is repeated. A ModelReply in `lines` is returned as it is (for calls of tools)."""

    lines: Sequence[Line | ModelReply]
    name: str = "scripted"
    frames: int = 16
    forever: bool = False
    offers_tools: bool = False
    requests: list[Request] = field(default_factory=list)
    _lock: Any = field(default_factory=threading.Lock)

    def identity(self) -> dict[str, object]:
        return {"kind": "scripted"}

    def frame_size(self, height: int, width: int, count: int) -> tuple[int, int] | None:
        return None

    def reply(
        self, prompt: str, frames: Sequence[Frame], sampling: Sampling, schema: Any = None
    ) -> ModelReply:
        assert len(frames) <= self.frames
        return self._next(Request(prompt, tuple(frames), schema, sampling))

    def choose(self, question: Question, prompt: str, frames: Sequence[Frame]) -> Answer:
        return self._answer(question.letters, prompt, frames)

    def decide(self, prompt: str, frames: Sequence[Frame]) -> Answer:
        return self._answer(("Yes", "No"), prompt, frames)

    def _answer(self, known: Sequence[str], prompt: str, frames: Sequence[Frame]) -> Answer:
        reply = self._next(Request(prompt, tuple(frames)))
        letter = reply.text if reply.text in known else None
        return Answer(letter, 0.9 if letter else 0.0, {}, reply.text, reply.tokens_in, reply.tokens_out)

    def converse(self, turns: Sequence[Turn], tools: Sequence[Tool], sampling: Sampling) -> ModelReply:
        if not self.offers_tools:
            raise ToolsRefused("scripted without tools")
        return self._next(Request(turns[-1].text, turns=tuple(turns), sampling=sampling))

    def _next(self, request: Request) -> ModelReply:
        with self._lock:
            place = len(self.requests)
            self.requests.append(request)
        last = len(self.lines) - 1
        assert self.forever or place <= last, f"asked once too often: {request.prompt!r}"
        line = self.lines[min(place, last)]
        if callable(line):
            line = line(request.prompt, request.frames)
        if isinstance(line, Exception):
            raise line
        if isinstance(line, ModelReply):
            return line
        text = line if isinstance(line, str) else json.dumps(line)
        return ModelReply(text, tokens_in=100, tokens_out=len(text.split()))


def scripted(name: str, models: Mapping[str, AgentModel], **settings: Any) -> Any:
    """The agent of this name with these models by role."""
    agent: Any = create(name, settings)
    agent.models = lambda backbone: {role: models[role] for role in agent.equipment().roles}
    return agent


def kinds(result: Result) -> str:
    """What each step was for, with its round if it is not the first."""
    return " ".join(f"{step.kind}{step.round or ''}" for step in result.steps)


def steps(result: Result, *kinds: str) -> list[Step]:
    return [step for step in result.steps if step.kind in kinds]


# ---- VCA ---------------------------------------------------------------------------------------------------


@dataclass
class Ended:
    """A question after VCA."""

    result: Any
    model: ScriptedModel

    @property
    def kinds(self) -> str:
        return kinds(self.result)

    def steps(self, kind: str) -> list[Step]:
        return steps(self.result, kind)

    @property
    def asked_for_scores(self) -> list[Request]:
        return [each for each in self.model.requests if "\nNew parts, " in each.prompt]

    @property
    def asked_for_action(self) -> list[Request]:
        return [each for each in self.model.requests if "The frames are what you have kept." in each.prompt]


def scores(*values: int, first: int = 0) -> dict[str, dict[str, Any]]:
    """A reply of the reward model: scores of segments, numbered from `first`."""
    return {str(n): {"why": f"seen in {n}", "score": value} for n, value in enumerate(values, first)}


def flat(value: int, first: int = 0, parts: int = 7) -> dict[str, dict[str, Any]]:
    """The same score for all parts."""
    return scores(*[value] * parts, first=first)


def explore(
    lines: Sequence[Line | ModelReply], *, frames: int = 16, asked: Any = None, **settings: Any
) -> Ended:
    """Answer a question with a model of these lines that takes `frames` frames."""
    model = ScriptedModel(lines, frames=frames)
    agent = scripted("vca", {"llm": model}, **settings)
    return Ended(agent.run(asked or item(), context(SceneBackbone())), model)


def listed(request: Request) -> list[int]:
    """The open segments that a prompt lists."""
    part = request.prompt.partition("Parts to look into, with their scores:\n")[2]
    return [int(line.partition(":")[0]) for line in part.splitlines() if line[0].isdigit()]


# ---- VideoAgent --------------------------------------------------------------------------------------------


class SceneEncoder(NumberEncoder):
    """A clip is its middle frame's colour and time. A text is a colour, a time in seconds, or a time and a
    letter of its own, which fits a little worse."""

    def encode_clips(self, clips: Sequence[Sequence[Frame]]) -> np.ndarray:
        return np.stack([_vector(colour_of(clip[1]), clip[1].time) for clip in clips])

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        return np.stack([_text(text) for text in texts])


def _text(text: str) -> np.ndarray:
    if text in COLOURS:
        return _vector(text, None)
    return _vector("", float(text.rstrip("z")), 0.1 * text.endswith("z"))


def _vector(colour: str, time: float | None, noise: float = 0.0) -> np.ndarray:
    angle = (time or 0.0) / 60 * math.pi
    moment = [0.0, 0.0] if time is None else [math.cos(angle), math.sin(angle)]
    return unit_rows([*(float(name == colour) for name in COLOURS), *moment, noise])


def unit_rows(rows: Any) -> np.ndarray:
    """The rows as vectors of length 1."""
    vectors: np.ndarray = np.array(rows, dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors


class SceneVideoAgent:
    """VideoAgent with these models."""

    def __init__(
        self, lines: Sequence[Line], *, frames: int = 16, encoder: bool = True, **settings: Any
    ) -> None:
        self.llm = ScriptedModel(lines, frames=frames)
        self.captioner = ScriptedModel([_caption], name="captioner", frames=frames, forever=True)
        self.method = scripted("videoagent", {"llm": self.llm, "captioner": self.captioner}, **settings)
        encoders = SimpleNamespace(encoder=lambda: SceneEncoder() if encoder else None)
        self.method.module_models = lambda scene, settings: encoders

    def answer(self, **changes: Any) -> Any:
        """The result of one question about the minute; all lines must have been used."""
        (result,) = self.answers(item(**changes))
        assert len(self.llm.requests) == len(self.llm.lines), "lines were left over"
        return result

    def answers(self, *items: Item) -> list[Any]:
        """The results of several questions about the minute."""
        return [result for _, result in self.method.run_video(items, context(SceneBackbone()))]


def _colours(frames: Sequence[Frame], between: str) -> str:
    return between.join(dict.fromkeys(colour_of(frame) for frame in frames))


def _caption(prompt: str, frames: Sequence[Frame]) -> str:
    return f"a {_colours(frames, ' then ')}\nwall"


def predict(answer: str, why: str = "it fits") -> dict[str, Any]:
    return {"reasoning": why, "final_answer": answer}


def reflect(confidence: int) -> dict[str, Any]:
    return {"confidence": confidence}


def search(*wanted: tuple[int, str] | str) -> dict[str, Any]:
    """Look for descriptions, in segments if they are named."""
    names = ("description", "segment_id", "duration")
    found = [(each,) if isinstance(each, str) else (each[1], each[0], "") for each in wanted]
    return {"frame_descriptions": [dict(zip(names, each, strict=False)) for each in found]}


def looked_at(result: Result) -> list[float]:
    """The seconds of all frames in the steps, in order of time."""
    return sorted({frame[0] for step in result.steps for frame in step.frames})


# ---- Deep Video Discovery ----------------------------------------------------------------------------------

FAST: dict[str, Any] = {"clip_seconds": 10.0, "fps": 1.0, "text_encoder": "none"}


def describe(prompt: str, frames: Sequence[Frame]) -> Mapping[str, Any]:
    """A caption of the clip, with one subject: the place of that colour."""
    colour = colour_of(frames[0])
    subject = {"name": f"{colour} place", "appearance": f"plain {colour}", "actions": ["glows"]}
    return {"caption": f"A {colour} place, and nothing else.", "subjects": [subject]}


def captioner(**changes: Any) -> ScriptedModel:
    """Describes every clip, as often as it is asked."""
    return ScriptedModel([describe], forever=True, **changes)


def vqa(**changes: Any) -> ScriptedModel:
    """Names the colours that it sees, in order."""
    return ScriptedModel([lambda prompt, frames: _colours(frames, ", ")], forever=True, **changes)


def builder(
    root: Path, model: ScriptedModel, *, subtitles: Any = None, text_encoder: Any = None, **settings: Any
) -> DatabaseBuilder:
    """Of the minute's database."""
    given = {"root": root, "subtitles": subtitles, "text_encoder": text_encoder}
    return DatabaseBuilder(world.video(), model, DvdSettings(**{**FAST, **settings}), **given)


def ask(llm: ScriptedModel, question: Item | None = None, **changes: Any) -> Any:
    """The result of a question (default: what is shown at the red place, B). Models in `changes` are roles,
    the rest are settings."""
    models = {"captioner": captioner(), "vqa": vqa(), "llm": llm}
    models |= {role: changes.pop(role) for role in ("captioner", "vqa") if role in changes}
    return scripted("dvd", models, **{**FAST, **changes}).run(question or item(), context(SceneBackbone()))


def call(tool: str, **arguments: Any) -> ToolCall:
    return ToolCall(tool, json.dumps(arguments))


BROWSE = call("global_browse", query="coloured places")
SEARCH = call("clip_search", query="a red place", top_k=2)
INSPECT = call("frame_inspect", question="Which colours?", time_ranges=[[12, 18]])
ANSWER = call("answer", text="B. red")


def by_tools(*steps: Sequence[ToolCall]) -> ScriptedModel:
    """A language model with tool calls: what it calls in each step."""
    replies = [ModelReply("Hm.", 100, 10, calls=tuple(calls)) for calls in steps]
    return ScriptedModel(replies, offers_tools=True)


def as_text(*steps: ToolCall) -> list[dict[str, Any]]:
    """The same as lines of a model without."""
    return [{"reason": "Hm.", "tool": step.name, "arguments": json.loads(step.arguments)} for step in steps]


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
        return unit_rows([[*row, float(not any(row))] for row in rows])


LINES = Subtitles(world.LINES, "test")


# ---- LVAgent -----------------------------------------------------------------------------------------------


def team_of(models: Mapping[str, AgentModel], **settings: Any) -> Any:
    """LVAgent with given models, and the six scenes as its chunks."""
    named = {} if "team" in settings else {"agents": list(models)}
    agent = scripted("lvagent", models, **named, **settings)
    # The backbone of the run takes 12 frames.
    agent.prepare = lambda scene: Prepared((SceneIndex(), 12), agent._selected())
    return agent


def agents(*scripts: Sequence[Line]) -> dict[str, ScriptedModel]:
    """A scripted agent for each script: "one", "two", "three", "four"."""
    names = ("one", "two", "three", "four")
    return {name: ScriptedModel(lines) for name, lines in zip(names, scripts, strict=False)}


def discuss(models: Mapping[str, AgentModel], asked: Item | None = None, **settings: Any) -> Any:
    """The result of the question about the red place."""
    return team_of(models, **settings).run(asked or item(), context(SceneBackbone()))
