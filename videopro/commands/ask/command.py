"""videopro ask VIDEO "question" --choices ...: ask one question about your own file.

    videopro ask video.mp4 "What does she pick up?" --choices "a cup" "a book" \\
        --model Qwen/Qwen3-VL-2B-Instruct

The question is answered like a benchmark question: with a choice, or in words if there are no choices.
Programs and agent steps are shown as they run (`console`) or printed as JSON, and the question can be stored
in a run folder (`output`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from videopro.backbones import Backbone, Sampling, find_video, load_backbone
from videopro.benchmarks import ROBUST, Item, Protocol
from videopro.cli import CommandLine, check_needs, exit_status, option, setting
from videopro.commands.ask.console import ConsoleObserver
from videopro.commands.ask.output import JsonObserver, Keeper, errors_as_json
from videopro.commands.infer_settings import QUESTIONS, AnswerSettings, VideoSettings, WordsSettings
from videopro.errors import ConfigError, SubtitleError
from videopro.methods import (
    METHOD_OPTIONS,
    PreparedRun,
    QuestionFailed,
    Questions,
    RunRequest,
    answer_one,
    favouring_answers,
    prepare,
)
from videopro.question import Question, without_own_labels
from videopro.runs import Abstention
from videopro.storage import encodable
from videopro.traces import Result
from videopro.video import (
    Video,
    check_nearest_intact,
    is_container,
    load_subtitles,
    subtitles_of,
)

_OUTPUT = "Output"


@dataclass(frozen=True, kw_only=True)
class AskConfig(AnswerSettings, WordsSettings, VideoSettings):
    """One question about one file."""

    video: Path = field(metadata=setting("video file, or NAME:VIDEO for a plug-in's video", positional=True))
    question: str = field(metadata=setting("question about the video", positional=True))
    choices: tuple[str, ...] = option(
        (), "2 to 26 answer choices, with or without letters; unset: answer in words", group=QUESTIONS
    )
    subtitles: Path | None = option(
        None,
        "subtitle file, or video file with embedded subtitles; unset: methods that search subtitles use "
        "those in the video, or next to it (video.srt, video.en.srt)",
        group=QUESTIONS,
    )
    output: Path | None = option(
        None,
        "run folder to add the question and its trace to, for videopro view; a folder contains questions of "
        "one model and one method",
        group=_OUTPUT,
    )
    json: bool = option(
        False,
        "print one JSON object per line: each event, the evidence and the answer, or the error",
        group=_OUTPUT,
    )


COMMAND = CommandLine("ask", AskConfig, options=METHOD_OPTIONS)


def main(argv: Sequence[str] | None = None, *, load: Callable[..., Backbone] = load_backbone) -> int:
    """The command line. Returns the exit status: 0, or 2 for an error that the user can fix."""
    argv = sys.argv[1:] if argv is None else argv
    # Before parsing, which may fail already.
    errors = errors_as_json() if "--json" in argv else nullcontext()
    with exit_status("stopped") as status, errors:
        config = COMMAND.parse(argv)
        ask(config, load=load)
    return status.code


def ask(config: AskConfig, *, load: Callable[..., Backbone] = load_backbone) -> Result:
    """Answer the question and print the answer. Raises VideoProError."""
    # A shell passes bytes that are not UTF-8 as lone surrogates.
    config = replace(
        config,
        question=encodable(config.question),
        choices=without_own_labels(tuple(map(encodable, config.choices))),
    )
    # Invalid requests are rejected before a model is loaded.
    is_open = not config.choices
    question = Question.open(config.question) if is_open else Question(config.question, config.choices)
    Sampling(config.max_new_tokens)  # raises ConfigError
    check_nearest_intact(config.nearest_intact)
    protocol = Protocol(parser=ROBUST, reply_tokens=config.max_new_tokens)
    questions = Questions(protocol, open=int(is_open), videos=[config.video], remedy="pass --choices")
    keeper = Keeper(config.output) if config.output is not None else None
    prepared = prepare(
        RunRequest(
            config.method,
            _options(config),
            config.model,
            config.backbone,
            lambda: questions,
            recorded=keeper.recorded_method if keeper is not None else {},
            load=load,
        )
    )
    if keeper is not None:
        keeper.check(prepared, protocol, config.seed, config.nearest_intact)
    abstention = Abstention.of(config.abstain, prepared, load)
    abstention.check(prepared, is_open=is_open)
    check_needs(prepared.needs())
    path = find_video(config.video)
    video = Video.open(path, nearest_intact=config.nearest_intact)
    subtitles, track = config.subtitles or _own_subtitles(config, path), config.subtitle_track
    if track is not None and not is_container(subtitles or path):
        raise ConfigError(f"--subtitle-track {track}: {subtitles or path} is not a video file; leave it out")
    if config.subtitles is not None or track is not None:
        load_subtitles(subtitles or path, duration=video.duration, track=track)
    for note in prepared.notes:
        print(note, file=sys.stderr)
    with JsonObserver() if config.json else ConsoleObserver() as observer, ExitStack() as stack:
        observer.on_wait("loading the model")
        backbone = prepared.load()
        stack.callback(backbone.close)
        if keeper is not None:
            keeper.open(_run_settings(config, prepared), backbone)

        observer.on_wait("answering" if config.method == "native" else "preparing the video")
        item = Item(
            id="ask",
            video=path,
            video_key=video.id,
            question=question,
            subtitles=subtitles,
            subtitle_track=track,
        )
        result = abstention.applied(
            answer_one(prepared.method, item, video, backbone, protocol, seed=config.seed, observer=observer)
        )
        stored = keeper.keep(item, result, video, protocol) if keeper is not None else None
        if result.error is not None:
            raise QuestionFailed(result.error, result.cost)
        observer.show(result, question, video, stored)
        return result


def _run_settings(config: AskConfig, prepared: PreparedRun) -> dict[str, Any]:
    """The settings in a run's config.yaml, without its identity, as `videopro infer` writes them."""
    return {
        "method": config.method,
        "options": config.options,
        "model": config.model,
        "backbone": dict(prepared.backbone),
        "max_new_tokens": config.max_new_tokens,
        "seed": config.seed,
        "nearest_intact": config.nearest_intact,
    }


def _own_subtitles(config: AskConfig, video: Path) -> Path | None:
    """The subtitles in the file, or next to it; also for a plug-in's video."""
    if video != config.video:
        return video.with_suffix(".srt")
    try:
        subtitles = subtitles_of(video)
    except SubtitleError as error:
        print(f"no subtitles used: {error} (or pass --subtitles)", file=sys.stderr)
        return None
    if subtitles is not None and subtitles != video:
        print(f"subtitles next to the video, for methods that read them: {subtitles.name}", file=sys.stderr)
    return subtitles


def _options(config: AskConfig) -> dict[str, Any]:
    shows_subtitles = config.subtitles is not None or config.subtitle_track is not None
    return favouring_answers(config.method, config.options, shows_subtitles=shows_subtitles)
