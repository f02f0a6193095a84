"""VideoAgent at work on the minute of coloured scenes, with a scripted language model: an encoder that knows
colours and seconds, and a captioner that names the colour it is shown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.support.colours import COLOURS
from tests.support.method_world import context, item
from tests.support.scenes import SceneBackbone, colour_of
from tests.support.scripted_model import Line, ScriptedModel, scripted
from videopro.benchmarks import Item
from videopro.modules.models.encoders import VideoTextEncoder
from videopro.traces import Result
from videopro.video import Frame


class SceneEncoder(VideoTextEncoder):
    """A clip is its middle frame's colour and time. A text is a colour, a time in seconds, or a time and a
    letter of its own, which fits a little worse."""

    clip_frames = 3

    def __init__(self) -> None:
        super().__init__("scenes")

    def identity(self) -> dict[str, object]:
        return {"encoder": "scenes"}

    def frame_size(self, height: int, width: int) -> tuple[int, int]:
        return height, width

    def encode_clips(self, clips: Sequence[Sequence[Frame]]) -> np.ndarray:
        return np.stack([_vector(colour_of(clip[1]), clip[1].time) for clip in clips])

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        return np.stack([_text(text) for text in texts])

    def _embed_clips(self, clips: Any) -> Any:
        raise NotImplementedError

    _embed_texts: Any = _embed_clips


def _text(text: str) -> np.ndarray:
    if text in COLOURS:
        return _vector(text, None)
    return _vector("", float(text.rstrip("z")), 0.1 if text.endswith("z") else 0.0)


def _vector(colour: str, time: float | None, noise: float = 0.0) -> np.ndarray:
    angle = None if time is None else time / 60 * math.pi
    moment = [0.0, 0.0] if angle is None else [math.cos(angle), math.sin(angle)]
    row = np.array([*(float(name == colour) for name in COLOURS), *moment, noise], dtype=np.float32)
    unit: np.ndarray = row / np.linalg.norm(row)
    return unit


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


def _caption(prompt: str, frames: Sequence[Frame]) -> str:
    return f"a {' then '.join(dict.fromkeys(colour_of(frame) for frame in frames))}\nwall"


def predict(answer: str, why: str = "it fits") -> dict[str, Any]:
    return {"reasoning": why, "final_answer": answer}


def reflect(confidence: int) -> dict[str, Any]:
    return {"confidence": confidence}


def search(*wanted: tuple[int, str] | str) -> dict[str, Any]:
    """Look for descriptions, in segments if they are named."""
    return {
        "frame_descriptions": [
            {"description": each}
            if isinstance(each, str)
            else {"segment_id": each[0], "duration": "", "description": each[1]}
            for each in wanted
        ]
    }


def looked_at(result: Result) -> list[float]:
    """The seconds of all frames in the steps, in order of time."""
    return sorted({frame[0] for step in result.steps for frame in step.frames})
