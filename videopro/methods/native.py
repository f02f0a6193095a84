"""The native method: frames sampled over the whole video, one direct answer.

It is what every other method is compared with, and what adaptive methods fall back to for easy questions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from videopro import prompts
from videopro.backbones.base import Answer, ChoiceRequest, Visual
from videopro.benchmarks.base import Item
from videopro.config import about
from videopro.errors import BackboneError, ConfigError, SubtitleError, VideoError
from videopro.methods.base import Context, Method, Result, failed
from videopro.subtitles import Line
from videopro.trace import Call, Execution, FrameRef, Reply, Round
from videopro.video import Frame, fps_times, uniform_times


@dataclass(frozen=True)
class NativeSettings:
    """Settings of the native method."""

    frames: int | None = field(
        default=None, metadata=about("frames over the whole video; unset: the backbone's budget")
    )
    fps: float | None = field(
        default=None, metadata=about("frames a second, at most `frames` of them; unset: even steps")
    )
    subtitles: Literal["none", "frames", "all"] = field(
        default="none", metadata=about("lines in the prompt: none, those at the sampled frames, or all")
    )

    def __post_init__(self) -> None:
        if self.frames is not None and self.frames < 1:
            raise ConfigError(f"native: frames is {self.frames}; it must be at least 1")
        if self.fps is not None and not self.fps > 0:
            raise ConfigError(f"native: fps is {self.fps}; it must be above 0")


class Native(Method):
    """Sample frames uniformly, ask once. The questions about a video share its frames and their encoding."""

    name = "native"
    Settings = NativeSettings
    settings: NativeSettings

    def run(self, item: Item, context: Context) -> Result:
        """Answer one question from frames over the whole video."""
        frames = self._frames(context)
        prompt, notes = self._prompt(item, frames, context)
        answer = context.backbone.answer(frames, item.question, prompt=prompt)
        return _result(answer, frames, notes)

    def run_video(self, items: Sequence[Item], context: Context) -> Iterator[tuple[Item, Result]]:
        """Answer all questions in one batch on a shared prefix. What was shared is paid in equal parts."""
        results = self._together(items, context) if len(items) > 1 else None
        if results is None:
            # One request that cannot be served makes a batch fail; alone, each question fails or passes by
            # itself.
            yield from super().run_video(items, context)
            return
        cost = context.meter.take().share(len(items))
        for item, result in zip(items, results, strict=True):
            yield item, replace(result, cost=cost)

    def _together(self, items: Sequence[Item], context: Context) -> list[Result] | None:
        try:
            frames = self._frames(context)
        except VideoError as error:
            return [failed(error) for _ in items]
        asked: dict[int, tuple[str, tuple[str, ...]]] = {}
        results: dict[int, Result] = {}
        for i, item in enumerate(items):
            try:
                asked[i] = self._prompt(item, frames, context)
            except SubtitleError as error:
                results[i] = failed(error)
        if asked:
            try:
                with context.backbone.prefix(frames) as prefix:
                    visual: Visual = prefix
                    answers = context.backbone.answer_batch(
                        [ChoiceRequest(visual, items[i].question, prompt) for i, (prompt, _) in asked.items()]
                    )
            except BackboneError:
                return None
            for (i, (_, notes)), answer in zip(asked.items(), answers, strict=True):
                results[i] = _result(answer, frames, notes)
        return [results[i] for i in range(len(items))]

    def _frames(self, context: Context) -> list[Frame]:
        budget = self.settings.frames or context.backbone.frames
        duration = context.video.duration
        if self.settings.fps is None:
            return context.frames(uniform_times(0.0, duration, budget))
        return context.frames(fps_times(0.0, duration, self.settings.fps, budget))

    def _prompt(self, item: Item, frames: Sequence[Frame], context: Context) -> tuple[str, tuple[str, ...]]:
        """The prompt, and notes on what it lacks."""
        prompt = prompts.multiple_choice(item.question)
        if self.settings.subtitles == "none":
            return prompt, ()
        subtitles = context.subtitles(item)
        if subtitles is None:
            return prompt, ("no subtitles listed",)
        if self.settings.subtitles == "all":
            lines: Sequence[Line] = subtitles.lines
        else:
            times = [frame.time for frame in frames]
            lines = [line for line in subtitles.lines if any(line.start <= t <= line.end for t in times)]
        return prompts.with_context("\n".join(line.text for line in lines), prompt), ()


def frame_refs(frames: Sequence[Frame]) -> tuple[FrameRef, ...]:
    """What a trace keeps of frames: times, sizes and boxes."""
    return tuple(
        (round(frame.time, 3), *map(float, frame.image.shape[:2]), *(frame.box or ())) for frame in frames
    )


def _result(answer: Answer, frames: Sequence[Frame], notes: tuple[str, ...]) -> Result:
    reply = Reply(answer.letter, answer.confidence, dict(answer.letters), answer.raw)
    execution = Execution(
        status="ok" if answer.letter is not None else "empty",
        answer=answer.letter,
        confidence=answer.confidence,
        letters=dict(answer.letters),
        raw=answer.raw,
        calls=(Call("answer", {"frames": len(frames)}, answer.raw, frame_refs(frames)),),
    )
    only = Round("native", answer.raw, execution=execution, mode="native")
    return Result((only,), reply, reply, settled=0, notes=notes)
