"""The native method: frames sampled over the whole video, and one direct answer.

It is the baseline of every other method, and adaptive methods use it for easy questions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from videopro.backbones import ChoiceRequest, GenerateRequest, Interleaved, Sampling, Visual, reply_notes
from videopro.benchmarks import AnswerPrompt, Item
from videopro.cli import check_least, option
from videopro.errors import BackboneError, ConfigError, SubtitleError, VideoError
from videopro.methods.base import Adaptation, BudgetSettings, Method, MethodContext, RunRequest, one_by_one
from videopro.modules import (
    SPEECH_HELP,
    Spoken,
    Transcripts,
    check_speech,
    resolve_speech,
    speech_identity,
    speech_needs,
)
from videopro.modules.calls import frame_refs
from videopro.question import (
    Answer,
    extract_intervals,
    extract_letter,
    letter_confidence,
    prompts,
)
from videopro.traces import (
    Call,
    Execution,
    Preparation,
    Prompt,
    Result,
    Round,
    recorded_prompt,
)
from videopro.video import Frame, LineRule, SampleRule, SubtitleLine, Subtitles, clue_times, frame_times

# For a benchmark without its own prompt: ours is used, and this says how lines are put into it.
_PLAIN = AnswerPrompt(source="", text="")


@dataclass(frozen=True)
class NativeSettings(BudgetSettings):
    """Settings of the native method. It makes one call, which every budget allows."""

    frames: int | None = option(
        None, "frames of the whole video; unset: the backbone's budget", client="frames", answers=True
    )
    fps: float | None = option(
        None,
        "frames per second, at most `frames` in total; unset: evenly spaced",
        client="less",
        answers=True,
    )
    subtitles: LineRule = option(
        "none",
        "subtitle lines in the prompt: none, frames (lines at the sampled frames; frames_until: not at their "
        "ends; frames_inside: at neither end; frames_widened: by LongVideoBench's rule; interleaved: the "
        "same between the frames; interleaved_overlapping: by Video-MME-v2's rule), or all; unset: as in the "
        "benchmark's protocol",
        client="any",
        answers=True,
    )
    speech: str = option(
        "none", f"{SPEECH_HELP}; with it, subtitles unset: those at the sampled frames", answers=True
    )
    reply: Literal["letter", "text"] | None = option(
        None,
        "how to read the letter: from one token, or from a generated reply; unset: as in the benchmark's "
        "protocol",
        client="any",
        answers=True,
    )
    reply_tokens: int | None = option(
        None,
        "maximum length of a generated reply in tokens, thinking included; unset: as in the benchmark's "
        "protocol",
        answers=True,
    )
    sampling: SampleRule | None = option(
        None,
        "which frames to sample: in the middles of equal parts, from the first to the last frame (ends, or "
        "ends_floor, rounded down), at the starts of the parts, or evenly between the ends (between); unset: "
        "as in the benchmark's protocol",
        client="any",
        answers=True,
    )
    system: str | None = option(None, "system turn; unset: as in the benchmark's protocol", answers=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, 1, "frames", "reply_tokens", where="native: ")
        if self.fps is not None and not self.fps > 0:
            raise ConfigError(f"native: fps is {self.fps}; it must be above 0")
        check_speech(self.speech)


@dataclass(frozen=True)
class _Turn:
    """How one question is asked: its frames with what stands between them, and its prompt."""

    visual: Sequence[Frame]
    prompt: str
    notes: tuple[str, ...]
    """Notes on what the prompt lacks."""
    prepared: tuple[Preparation, ...] = ()
    """The transcript whose lines it shows."""


class NativeMethod(Method):
    """Sample frames uniformly and ask once. Questions about a video share its frames and their encoding."""

    name = "native"
    about = "Looks at frames spread over the whole video and answers at once. Fast."
    Settings = NativeSettings
    makes_requests = False
    answers_open_questions = True
    settings: NativeSettings

    def __init__(self, settings: NativeSettings) -> None:
        super().__init__(settings)
        self._transcripts = Transcripts(settings.speech)

    def identity(self) -> dict[str, Any]:
        return super().identity() | speech_identity(self.settings.speech)

    def adapt(self, request: RunRequest) -> Adaptation:
        """With the protocol's subtitles, unless the options say otherwise."""
        protocol, options = request.questions().protocol, request.options
        subtitles = options.get("subtitles")
        if protocol.subtitles == "none" and subtitles not in (None, "none"):
            raise ConfigError(
                f"native: subtitles is {subtitles!r}, but protocol {protocol.name!r} has none; leave it out, "
                "or pass another --protocol"
            )
        hears = resolve_speech(self.settings.speech) != "none"
        if hears and "none" in (subtitles, protocol.subtitles):
            shown = "subtitles is 'none'" if subtitles else f"protocol {protocol.name!r} has no subtitles"
            raise ConfigError(
                f"native: speech is {self.settings.speech!r}, but {shown}: leave one of them out"
            )
        if subtitles is None and protocol.subtitles not in ("none", "offered"):
            options = {**options, "subtitles": protocol.subtitles}
        elif subtitles is None and hears:
            options = {**options, "subtitles": "frames"}
        adapted = self.with_options(options)
        needs = speech_needs(self.settings.speech, self.flag_without_model)
        return Adaptation(adapted, options, request.backbone, needs=lambda model: needs)

    def run_video(self, items: Sequence[Item], context: MethodContext) -> Iterator[tuple[Item, Result]]:
        """Answer all questions in one batch on a shared prefix, and divide the cost equally."""
        results = self._batch(items, context) if len(items) > 1 else None
        if results is None:
            # One bad request fails the whole batch; sent alone, only that one fails.
            yield from one_by_one(self._alone, items, context)
            return
        cost = context.meter.take().share(len(items))
        for item, result in zip(items, results, strict=True):
            yield item, replace(result, cost=cost)

    def _alone(self, item: Item, context: MethodContext) -> Result:
        turn = self._turn(item, self._frames(context, item.shown), context)
        (result,) = self._answer([item], [turn], turn.visual, context)
        return result

    def _batch(self, items: Sequence[Item], context: MethodContext) -> list[Result] | None:
        """All results; None if the questions cannot share a prefix, or one of them cannot be asked."""
        if len({item.shown for item in items}) > 1:
            return None
        try:
            frames = self._frames(context, items[0].shown)
            turns = [self._turn(item, frames, context) for item in items]
            if len({_between(turn.visual) for turn in turns}) > 1:
                return None
            with context.backbone.prefix(turns[0].visual, system=self._system(context)) as prefix:
                return self._answer(items, turns, prefix, context)
        except (VideoError, SubtitleError, BackboneError):
            return None

    def _answer(
        self,
        items: Sequence[Item],
        turns: Sequence[_Turn],
        visual: Visual,
        context: MethodContext,
    ) -> list[Result]:
        """Ask questions about one visual, each in its own way. Raises BackboneError."""
        system, prefill = self._system(context), _form(context).prefill
        names_intervals = context.protocol.reply == "intervals"
        written = [i for i, item in enumerate(items) if self._is_written(item, context)]
        chosen = [i for i in range(len(items)) if i not in set(written)]
        answers: dict[int, Answer] = {}
        notes: dict[int, Mapping[str, str]] = {}
        if written:
            limit = self.settings.reply_tokens or context.protocol.reply_tokens
            replies = context.backbone.generate_batch(
                [GenerateRequest(visual, turns[i].prompt, system=system, prefill=prefill) for i in written],
                Sampling(limit),
            )
            for i, reply in zip(written, replies, strict=True):
                question = items[i].question
                has_letter = not (question.is_open or names_intervals)
                letter = extract_letter(reply.text, question) if has_letter else None
                confidence = reply.confidence if question.is_open else 0.0
                if letter:
                    confidence = letter_confidence(reply.tokens, reply.logprobs, letter, question)
                cut_at = limit if reply.finish == "length" else None
                notes[i] = reply_notes(reply.thoughts, cut_at)
                answers[i] = Answer(
                    letter, confidence, {}, reply.text, reply.tokens_in, reply.tokens_out, cut_at
                )
        if chosen:
            requests = [
                ChoiceRequest(visual, items[i].question, turns[i].prompt, system, prefill) for i in chosen
            ]
            answers.update(zip(chosen, context.backbone.answer_batch(requests), strict=True))
        return [
            _result(
                answers[i],
                notes.get(i, {}),
                prompt,
                recorded_prompt(_user_turn(prompt), items[i].question, system=system, prefill=prefill),
                extract_intervals(answers[i].raw) if names_intervals else (),
                is_open=items[i].question.is_open,
            )
            for i, prompt in enumerate(turns)
        ]

    def _is_written(self, item: Item, context: MethodContext) -> bool:
        return item.question.is_open or (self.settings.reply or context.protocol.reply) != "letter"

    def _system(self, context: MethodContext) -> str:
        return _form(context).system if self.settings.system is None else self.settings.system

    def _frames(self, context: MethodContext, clues: Sequence[tuple[float, float]] = ()) -> list[Frame]:
        protocol, video = context.protocol, context.video
        budget = self.settings.frames or context.backbone.frames
        if protocol.max_frames is not None:
            budget = min(budget, protocol.max_frames)
        if clues:
            return context.frames(clue_times(clues, video.duration, video.fps, budget))
        rule = self.settings.sampling or protocol.sampling
        return context.frames(frame_times(video, rule, budget, self.settings.fps or protocol.fps))

    def _turn(self, item: Item, frames: Sequence[Frame], context: MethodContext) -> _Turn:
        """What the model is shown. Raises SubtitleError."""
        times = [frame.time for frame in frames]
        spoken = self._spoken(item, context)
        lines: Sequence[SubtitleLine] = ()
        if spoken.subtitles is not None:
            lines = shown_lines(spoken.subtitles, self.settings.subtitles, times)
        form, visual = _form(context), frames
        if self.settings.subtitles.startswith("interleaved"):
            if self.settings.subtitles == "interleaved_overlapping":
                *before, lines = lines_after(lines, times, context.video.duration)
            else:
                *before, lines = lines_before(lines, times)
            texts = ["".join(f"{form.subtitle_line(line)}{form.join}" for line in group) for group in before]
            visual = Interleaved(frames, texts)
        subtitles = [form.subtitle_line(line) for line in lines]
        if self.settings.subtitles == "frames_inside":
            subtitles = list(dict.fromkeys(subtitles))
        if form is _PLAIN:
            prompt = prompts.with_context("\n".join(subtitles), prompts.direct(item.question))
        else:
            prompt = form.fill(item.question, subtitles, len(frames), times)
        return _Turn(visual, prompt, spoken.notes, spoken.prepared)

    def _spoken(self, item: Item, context: MethodContext) -> Spoken:
        """What is said, if the prompt shows any of it. Raises SubtitleError."""
        if self.settings.subtitles == "none":
            return Spoken()
        spoken = context.spoken(item, self._transcripts.of)
        if spoken.subtitles is None:
            return replace(spoken, notes=("no subtitles listed", *spoken.notes))
        return spoken


# ---- subtitle lines --------------------------------------------------------------------------------------


def shown_lines(subtitles: Subtitles, rule: LineRule, times: Sequence[float]) -> Sequence[SubtitleLine]:
    """The lines for frames at `times` (s), by rule.

    frames: spoken at a frame, start <= t <= end. frames_until: start <= t < end, as one row each (Video-MME,
    lmms_eval/tasks/videomme/utils.py of lmms-eval). frames_inside: start < t < end, as one row each, in the
    order of the frames (CG-Bench, get_subtitles of run/utils.py). frames_widened and interleaved: see
    `Subtitles.visible_at` (LongVideoBench). interleaved_overlapping: all; `lines_after` places them
    (Video-MME-v2).
    """
    lines = subtitles.lines
    if rule == "none":
        return ()
    if rule in ("all", "interleaved_overlapping"):
        return lines
    if rule in ("frames_widened", "interleaved"):
        return subtitles.visible_at(times)
    if rule == "frames_inside":
        inside = [line for time in times for line in lines if line.start < time < line.end]
        return list(dict.fromkeys(map(_one_row, inside)))
    if rule == "frames_until":
        return [_one_row(line) for line in lines if any(line.start <= time < line.end for time in times)]
    return [line for line in lines if any(line.start <= time <= line.end for time in times)]


def lines_before(lines: Sequence[SubtitleLine], times: Sequence[float]) -> list[list[SubtitleLine]]:
    """Where LongVideoBench puts lines between frames at `times` (s): one list for each frame, of the lines
    before it, and one of those after the last frame.

    A line stands after every frame up to its middle, and never before an earlier line
    (insert_subtitles_into_frames of longvideobench_dataset.py).
    """
    reached = 0
    placed: list[list[SubtitleLine]] = [[] for _ in range(len(times) + 1)]
    for line in lines:
        middle = (line.start + line.end) / 2
        while reached < len(times) and times[reached] <= middle:
            reached += 1
        placed[reached].append(line)
    return placed


def lines_after(
    lines: Sequence[SubtitleLine], times: Sequence[float], duration: float
) -> list[list[SubtitleLine]]:
    """As `lines_before`, where Video-MME-v2 puts them: after each frame at `times` (s) the lines that are on
    until the next one, or until the end of the video, at `duration` (s). A long line stands after several
    (segments_between_timestamps of evaluation/test_video_mme_v2.py)."""
    gaps = zip(times, [*times[1:], duration], strict=True)
    return [[], *([line for line in lines if line.end >= start and line.start < end] for start, end in gaps)]


def _one_row(line: SubtitleLine) -> SubtitleLine:
    return replace(line, text=" ".join(line.text.split("\n")))


def _form(context: MethodContext) -> AnswerPrompt:
    """How the prompt is put together: as the benchmark's own, or plainly."""
    return context.protocol.answer_prompt or _PLAIN


def _between(visual: Sequence[Frame]) -> tuple[str, ...]:
    return visual.texts if isinstance(visual, Interleaved) else ()


def _user_turn(prompt: _Turn) -> str:
    """All that the model read of a user turn. Frames between texts are named by their times."""
    if not isinstance(prompt.visual, Interleaved):
        return prompt.prompt
    pairs = zip(prompt.visual.texts, prompt.visual, strict=True)
    return "".join(f"{text}[frame at {frame.time:.2f} s]\n" for text, frame in pairs) + prompt.prompt


def _result(
    answer: Answer,
    notes: Mapping[str, str],
    prompt: _Turn,
    recorded: Prompt,
    intervals: tuple[tuple[float, float], ...],
    *,
    is_open: bool,
) -> Result:
    refs = frame_refs(prompt.visual)
    call = Call("answer", {"frames": len(refs)}, answer.raw, refs, intervals=intervals)
    is_answered = answer.letter is not None or bool(intervals) or (is_open and bool(answer.raw.strip()))
    execution = Execution("ok" if is_answered else "empty", answer, calls=(call,))
    only = Round("native", answer.raw, execution=execution, mode="native", notes=notes, prompt=recorded)
    return Result((only,), answer, answer, selected=0, notes=prompt.notes, prepared=prompt.prepared)
