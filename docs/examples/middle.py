"""The method `middle`: one direct answer from the middle of the video, the example in CONTRIBUTING.md."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from videopro.benchmarks import Item
from videopro.cli import setting
from videopro.errors import ConfigError
from videopro.methods.base import Method, MethodContext, one_by_one
from videopro.modules.calls import frame_refs
from videopro.question import prompts
from videopro.traces import Call, Execution, Result, Round, recorded_prompt
from videopro.video import uniform_times


@dataclass(frozen=True)
class MiddleSettings:
    """Settings of the method `middle`."""

    length: float = field(default=60.0, metadata=setting("seconds of the part that is shown"))

    def __post_init__(self) -> None:
        if not self.length > 0:
            raise ConfigError(f"middle: length is {self.length:g}; it must be above 0")


class MiddleMethod(Method):
    """Show the backbone frames from the middle of the video, and ask once."""

    name = "middle"
    Settings = MiddleSettings
    settings: MiddleSettings

    def run_video(self, items: Sequence[Item], context: MethodContext) -> Iterator[tuple[Item, Result]]:
        return one_by_one(self._answered, items, context)

    def _answered(self, item: Item, context: MethodContext) -> Result:
        duration = context.video.duration
        around = min(self.settings.length, duration) / 2
        times = uniform_times(duration / 2 - around, duration / 2 + around, context.backbone.frames)
        frames = context.frames(times)
        prompt = prompts.multiple_choice(item.question)
        answer = context.backbone.answer(frames, item.question, prompt=prompt)
        # What the trace shows: one call, with the frames that it saw and what was replied.
        execution = Execution(
            "ok" if answer.letter is not None else "empty",
            answer,
            calls=(Call("answer", {"frames": len(frames)}, answer.raw, frame_refs(frames)),),
        )
        shown = recorded_prompt(prompt, item.question)
        only = Round("native", answer.raw, execution=execution, mode="native", prompt=shown)
        return Result((only,), answer, answer, selected=0)
