"""The native method: frames sampled over the whole video, and one direct answer.

It is the baseline of every other method, and adaptive methods use it for easy questions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from videopro import prompts
from videopro.backbones import ChoiceRequest, GenerateRequest, Sampling, Visual
from videopro.benchmarks import Item, Protocol
from videopro.errors import QUESTION_ERRORS, BackboneError, ConfigError, SubtitleError, VideoError
from videopro.methods.base import Method, MethodContext
from videopro.methods.frames import frame_refs
from videopro.question import Answer, extract_letter
from videopro.settings import setting
from videopro.traces import Call, Execution, Result, Round, failed_result
from videopro.video import Frame, SubtitleLine, fps_times, uniform_times

# CG-Bench's limit of frames for a clue.
_CLUE_FRAMES = 32


@dataclass(frozen=True)
class NativeSettings:
    """Settings of the native method."""

    frames: int | None = field(
        default=None, metadata=setting("frames over the whole video; unset: the backbone's budget")
    )
    fps: float | None = field(
        default=None, metadata=setting("frames per second, at most `frames` in total; unset: evenly spaced")
    )
    subtitles: Literal["none", "frames", "frames_widened", "all"] = field(
        default="none",
        metadata=setting(
            "subtitle lines in the prompt: none, those at the sampled frames (frames_widened: by "
            "LongVideoBench's rule), or all; unset: as in the benchmark's protocol"
        ),
    )

    def __post_init__(self) -> None:
        if self.frames is not None and self.frames < 1:
            raise ConfigError(f"native: frames is {self.frames}; it must be at least 1")
        if self.fps is not None and not self.fps > 0:
            raise ConfigError(f"native: fps is {self.fps}; it must be above 0")


class NativeMethod(Method):
    """Sample frames uniformly and ask once. Questions about a video share its frames and their encoding."""

    name = "native"
    Settings = NativeSettings
    settings: NativeSettings

    @classmethod
    def follow(cls, protocol: Protocol, options: Mapping[str, Any]) -> dict[str, Any]:
        """Use the protocol's subtitles unless the options say otherwise."""
        subtitles = options.get("subtitles")
        if protocol.subtitles == "none" and subtitles not in (None, "none"):
            raise ConfigError(
                f"native: subtitles is {subtitles!r}, but protocol {protocol.name!r} has none; leave it out, "
                "or use another --protocol"
            )
        if subtitles is None and protocol.subtitles not in ("none", "offered"):
            return {**options, "subtitles": protocol.subtitles}
        return dict(options)

    def check_open_questions(self, open_questions: int) -> None:
        """Open questions are fine: they are answered in words."""

    def _alone(self, item: Item, context: MethodContext) -> Result:
        """Answer one question from frames over its parts of the video. Raises one of QUESTION_ERRORS."""
        frames = self._frames(context, item.shown)
        prompt, notes = self._prompt(item, frames, context)
        if _is_generated(item, context):
            return self._generate([item], frames, frames, [prompt], [notes], context)[0]
        answer = context.backbone.answer(frames, item.question, prompt=prompt)
        return _result(answer, frames, notes)

    def run_video(self, items: Sequence[Item], context: MethodContext) -> Iterator[tuple[Item, Result]]:
        """Answer all questions in one batch on a shared prefix, and divide the cost equally."""
        # Questions that are shown different parts of the video share no prefix.
        share_frames = len({item.shown for item in items}) == 1
        results = self._batch(items, context) if len(items) > 1 and share_frames else None
        if results is None:
            # One bad request fails the whole batch; sent alone, only that one fails.
            for item in items:
                try:
                    result = self._alone(item, context)
                except QUESTION_ERRORS as error:
                    result = failed_result(error)
                yield item, replace(result, cost=context.meter.take())
            return
        cost = context.meter.take().share(len(items))
        for item, result in zip(items, results, strict=True):
            yield item, replace(result, cost=cost)

    def _batch(self, items: Sequence[Item], context: MethodContext) -> list[Result] | None:
        if len({_is_generated(item, context) for item in items}) > 1:
            return None  # some are answered in words, and others by a letter
        try:
            frames = self._frames(context, items[0].shown)
        except VideoError as error:
            return [failed_result(error) for _ in items]
        prompts_and_notes: dict[int, tuple[str, tuple[str, ...]]] = {}
        results: dict[int, Result] = {}
        for i, item in enumerate(items):
            try:
                prompts_and_notes[i] = self._prompt(item, frames, context)
            except SubtitleError as error:
                results[i] = failed_result(error)
        if prompts_and_notes:
            numbers = list(prompts_and_notes)
            texts = [prompts_and_notes[i][0] for i in numbers]
            notes = [prompts_and_notes[i][1] for i in numbers]
            try:
                with context.backbone.prefix(frames) as prefix:
                    batch = [items[i] for i in numbers]
                    answer = self._generate if _is_generated(batch[0], context) else self._choose
                    answered = answer(batch, prefix, frames, texts, notes, context)
            except BackboneError:
                return None
            results.update(zip(numbers, answered, strict=True))
        return [results[i] for i in range(len(items))]

    def _choose(
        self,
        items: Sequence[Item],
        visual: Visual,
        frames: Sequence[Frame],
        texts: Sequence[str],
        notes: Sequence[tuple[str, ...]],
        context: MethodContext,
    ) -> list[Result]:
        """Choose each letter by the distribution over the next token."""
        answers = context.backbone.answer_batch(
            [ChoiceRequest(visual, item.question, text) for item, text in zip(items, texts, strict=True)]
        )
        return [_result(answer, frames, own) for answer, own in zip(answers, notes, strict=True)]

    def _generate(
        self,
        items: Sequence[Item],
        visual: Visual,
        frames: Sequence[Frame],
        texts: Sequence[str],
        notes: Sequence[tuple[str, ...]],
        context: MethodContext,
    ) -> list[Result]:
        """Generate replies in words, and read a letter in each."""
        replies = context.backbone.generate_batch(
            [GenerateRequest(visual, text) for text in texts], Sampling(context.protocol.reply_tokens)
        )
        results = []
        for item, reply, own in zip(items, replies, notes, strict=True):
            letter = None if item.question.is_open else extract_letter(reply.text, item.question)
            is_answered = letter is not None or item.question.is_open
            confidence = reply.confidence if is_answered else 0.0
            answer = Answer(letter, confidence, {}, reply.text, reply.tokens_in, len(reply.token_ids))
            results.append(_result(answer, frames, own, is_open=item.question.is_open))
        return results

    def _frames(self, context: MethodContext, shown: Sequence[tuple[float, float]] = ()) -> list[Frame]:
        budget = self.settings.frames or context.backbone.frames
        duration = context.video.duration
        if shown:
            return context.frames(_clue_times(shown, duration, budget))
        if self.settings.fps is None:
            return context.frames(uniform_times(0.0, duration, budget))
        return context.frames(fps_times(0.0, duration, self.settings.fps, budget))

    def _prompt(
        self, item: Item, frames: Sequence[Frame], context: MethodContext
    ) -> tuple[str, tuple[str, ...]]:
        """The prompt, and notes on what is missing from it."""
        lines, notes = self._lines(item, frames, context)
        official = context.protocol.answer_prompt
        if official is not None:
            return official.fill(item.question, [line.text for line in lines], len(frames)), notes
        if item.question.is_open:
            prompt = prompts.open_ended(item.question.text)
        else:
            prompt = prompts.multiple_choice(item.question)
        return prompts.with_context("\n".join(line.text for line in lines), prompt), notes

    def _lines(
        self, item: Item, frames: Sequence[Frame], context: MethodContext
    ) -> tuple[Sequence[SubtitleLine], tuple[str, ...]]:
        if self.settings.subtitles == "none":
            return (), ()
        subtitles = context.subtitles(item)
        if subtitles is None:
            return (), ("no subtitles listed",)
        if self.settings.subtitles == "all":
            return subtitles.lines, ()
        times = [frame.time for frame in frames]
        if self.settings.subtitles == "frames_widened":
            return subtitles.visible_at(times), ()
        return [line for line in subtitles.lines if any(line.start <= t <= line.end for t in times)], ()


def _is_generated(item: Item, context: MethodContext) -> bool:
    return item.question.is_open or context.protocol.reply == "text"


def _clue_times(shown: Sequence[tuple[float, float]], duration: float, budget: int) -> list[float]:
    """Times (s) spread over intervals in proportion to their lengths, at least one in each (CG-Bench's clue
    accuracy, run/utils.py, which shows at most 32 frames)."""
    inside = [(min(start, duration), min(end, duration)) for start, end in sorted(shown)]
    total = sum(end - start for start, end in inside)
    count = min(budget, _CLUE_FRAMES)
    times: list[float] = []
    for start, end in inside[:count]:
        own = max(1, int(count * (end - start) / total)) if total > 0 else 1
        times += uniform_times(start, end, own) if end > start else [start]
    return sorted(times)[:budget]


def _result(
    answer: Answer, frames: Sequence[Frame], notes: tuple[str, ...], *, is_open: bool = False
) -> Result:
    execution = Execution(
        "ok" if answer.letter is not None or (is_open and answer.raw.strip()) else "empty",
        answer,
        calls=(Call("answer", {"frames": len(frames)}, answer.raw, frame_refs(frames)),),
    )
    only = Round("native", answer.raw, execution=execution, mode="native")
    return Result((only,), answer, answer, selected=0, notes=notes)
