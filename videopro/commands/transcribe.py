"""videopro transcribe: transcribe the speech of videos, so that every method can read it.

    videopro transcribe video.mp4 --language en --write srt
    videopro transcribe FOLDER --speech whisper:openai/whisper-large-v3-turbo
    videopro transcribe --benchmark lvbench --root DATA/lvbench
    videopro transcribe --benchmark videopro --root DATA

Runs with the same `speech` use the transcripts. Re-run the same command to resume. Several commands can work
on the same files at the same time.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from shlex import quote
from typing import Literal

import pysubs2
from rich.console import Console

from videopro.benchmarks import Item
from videopro.cli import (
    CommandLine,
    Counter,
    TextTable,
    cache_root,
    check_needs,
    exit_status,
    option,
)
from videopro.commands.infer_settings import InferConfig, load_benchmark, runs_of
from videopro.commands.video_files import Unprepared, VideosConfig, asked_items, named_videos
from videopro.engine import Walk
from videopro.errors import ConfigError, writing_file
from videopro.modules import WHISPER, cache_need, check_speech, part_needs, resolve_speech
from videopro.modules.models import (
    SpeechSpec,
    Transcript,
    TranscriptBusy,
    read_speech,
    transcribe_video,
)
from videopro.storage import write_atomically
from videopro.video import Video

_BENCHMARK, _MODEL, _OUTPUT = "Benchmark", "Model", "Output"
_MOST_ROWS = 20
"""Videos that the table lists one by one."""


@dataclass(frozen=True)
class TranscribeConfig(VideosConfig):
    """The settings of `videopro transcribe`."""

    benchmark: str | None = option(
        None, "transcribe a benchmark's videos instead of files; named as in videopro infer", group=_BENCHMARK
    )
    split: str = option("", "split of the benchmark; unset: the benchmark's default", group=_BENCHMARK)
    root: Path | None = option(None, "folder of the benchmark's files", group=_BENCHMARK)
    subtitles: Literal["listed", "none"] = option(
        "listed",
        "listed: skip a benchmark's videos that have listed subtitles; none: transcribe them too",
        group=_BENCHMARK,
    )
    speech: str = option(
        "whisper",
        "whisper:NAME, or whisper for the best one on this machine; runs read the "
        "transcripts with the same --options speech=...",
        group=_MODEL,
    )
    language: str | None = option(
        None, "spoken language, such as en (same as @en after the model); unset: detected", group=_MODEL
    )
    write: Literal["srt", "vtt"] | None = option(
        None,
        "also write a subtitle file for each video, srt or vtt, to review and correct",
        group=_OUTPUT,
    )
    output: Path | None = option(None, "folder for these files; unset: next to each video", group=_OUTPUT)


COMMAND = CommandLine("transcribe", TranscribeConfig)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status: 0, 2 for errors that the user can fix, 130 when
    interrupted."""
    with exit_status() as status:
        status.code = transcribe(COMMAND.parse(argv))
    return status.code


def transcribe(config: TranscribeConfig) -> int:
    """Transcribe every video. A video whose audio cannot be read is reported and skipped, and the status is
    then 2 unless the settings say otherwise. Raises VideoProError for errors that affect all videos."""
    if config.output is not None and config.write is None:
        raise ConfigError("--output: sets the folder of subtitle files; add --write srt or --write vtt")
    speech = _speech(config)
    paths, with_subtitles = _videos(config)
    paths = config.part_of(paths)
    check_needs([*part_needs({"speech": speech}, "--speech whisper:FOLDER"), cache_need()])
    outcomes: list[Outcome] = []
    unprepared = Unprepared("transcribed")
    try:
        _transcribe_all(paths, read_speech(speech), config, outcomes, unprepared)
    finally:
        # After Ctrl-C too: what is done stays done.
        if outcomes or with_subtitles:
            _print_outcomes(outcomes, with_subtitles)
        unprepared.print_all()
    transcribed = [each.path for each in outcomes if each.transcript is not None]
    if transcribed:
        print(f"next: {_next_command(config, speech, transcribed[0])}")
    return config.status(len(unprepared), len(outcomes))


def _speech(config: TranscribeConfig) -> str:
    """The model, with its language. Raises ConfigError."""
    check_speech(config.speech)
    speech = resolve_speech(config.speech)
    if speech == "none":
        raise ConfigError(
            f"speech is {config.speech!r}: "
            + ("nothing would be transcribed; leave it out" if config.speech == "none" else
               "no Whisper model on this machine; pass one to download, such as --speech "
               f"whisper:{WHISPER[0]}, or a folder with --speech whisper:FOLDER")
        )  # fmt: skip
    if config.language is None:
        return speech
    named = read_speech(speech).language
    if named not in (None, config.language):
        raise ConfigError(f"--language {config.language}: --speech {speech} sets another; leave one out")
    return speech if named is not None else f"{speech}@{config.language}"


def _videos(config: TranscribeConfig) -> tuple[list[Path], int]:
    """The videos, each once, and the number of others, which have subtitles. Raises VideoProError."""
    if config.benchmark is None:
        for name in ("split", "root"):
            if getattr(config, name):
                raise ConfigError(f"--{name}: needs --benchmark; add it, or leave --{name} out")
        if not config.videos and not config.asked_by:
            raise ConfigError("pass a video file, a folder of videos, --benchmark or --asked-by")
        silent, others = _without_subtitles(asked_items(config.asked_by), config)
        return list(dict.fromkeys([*named_videos(config.videos), *silent])), others
    if config.videos or config.asked_by:
        other = config.videos[0] if config.videos else "--asked-by"
        raise ConfigError(f"--benchmark {config.benchmark}: already selects videos; leave out {other}")
    run_config = InferConfig(
        benchmark=config.benchmark,
        model="",
        output=Path(),
        split=config.split,
        root=config.root,
        # What a preset adds for a method's run is of no interest here.
        options={"subtitles": "none"},
    )
    items: list[Item] = []
    for run in runs_of(run_config):
        benchmark = load_benchmark(run)
        if benchmark.fetch is not None:
            benchmark.fetch(benchmark.items)
        items += benchmark.items
    return _without_subtitles(items, config)


def _without_subtitles(items: Sequence[Item], config: TranscribeConfig) -> tuple[list[Path], int]:
    """The videos without listed subtitles, and the number of others."""
    leaves_out = {item.video for item in items if item.subtitles is not None and config.subtitles == "listed"}
    # Some questions about a video may list subtitles, and others none.
    listed = {item.video for item in items if item.subtitles is None or config.subtitles == "none"}
    return list(dict.fromkeys(item.video for item in items if item.video in listed)), len(leaves_out - listed)


def _transcribe_all(
    paths: Sequence[Path],
    speech: SpeechSpec,
    config: TranscribeConfig,
    outcomes: list[Outcome],
    unprepared: Unprepared,
) -> None:
    walk = Walk(paths)
    # Loaded only if something has to be heard.
    load = cache(speech.load)
    doing, total = (paths[0].name, None) if len(paths) == 1 else ("transcribing", len(paths))
    with Counter(doing, total) as counter:

        def progress(done: float, seconds: float) -> None:
            if len(paths) == 1:
                counter.update(round(done), round(seconds))

        while (path := walk.take()) is not None:
            try:
                transcript = transcribe_video(
                    Video.open(path), speech, load, cache_root() / "speech", progress=progress, wait=False
                )
                outcome = Outcome(path, transcript, _write_subtitles(transcript, path, config))
                unprepared.prepared()
            except TranscriptBusy:
                walk.put_off(path)
                continue
            except Exception as error:
                unprepared.tell(path, error)
                outcome = Outcome(path)
            outcomes.append(outcome)
            if len(paths) > 1:
                counter.advance()


def _write_subtitles(transcript: Transcript, video: Path, config: TranscribeConfig) -> str:
    """Write the subtitle file of a video, if requested, and say so. An existing file is kept, because the
    user may have corrected it. Raises ConfigError if it cannot be written."""
    if config.write is None:
        return ""
    path = (config.output or video.parent) / f"{video.stem}.{config.write}"
    if not transcript.lines:
        # An empty file would be taken for a damaged one.
        return f"{path}: not written, because there is no speech"
    if path.exists():
        return f"{path}: kept the existing file; delete it to write a new one"
    subtitles = pysubs2.SSAFile()
    for line in transcript.lines:
        event = pysubs2.SSAEvent(round(line.start * 1000), round(line.end * 1000))
        event.plaintext = line.text
        subtitles.append(event)
    with writing_file(path, "set another folder with --output"):
        path.parent.mkdir(parents=True, exist_ok=True)
        # With tags kept, since a brace in a transcript is no formatting.
        write_atomically(path, subtitles.to_string(config.write, keep_ssa_tags=True), shared=True)
    return f"{path}: written"


def _next_command(config: TranscribeConfig, speech: str, video: Path) -> str:
    """A command that reads the transcripts."""
    # With the model that was used: it is part of where the transcripts are kept.
    options = f"--model MODEL --options {quote(f'speech={speech}')}"
    if config.asked_by:
        return f"videopro infer --config {quote(str(config.asked_by[0]))}"
    if config.benchmark is None:
        return f'videopro ask {quote(str(video))} "What is said?" {options}'
    settings = {"split": config.split, "root": config.root}
    flags = "".join(f" --{name} {quote(str(value))}" for name, value in settings.items() if value)
    return (
        f"videopro infer --benchmark {config.benchmark}{flags} --method videopro {options} --output runs/NAME"
    )


# ---- what became of each video -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """The result for a video."""

    path: Path
    transcript: Transcript | None = None
    """None: there is none; the reason was printed when it happened."""
    note: str = ""
    """What happened to its subtitle file."""

    @property
    def kind(self) -> str:
        """In a word."""
        if self.transcript is None:
            return "failed"
        if not self.transcript.has_sound:
            return "no audio"
        if not self.transcript.lines:
            return "no speech"
        return "transcribed" if self.transcript.is_new else "existed"

    @property
    def language(self) -> str:
        """The spoken language, if known."""
        return (self.transcript.language if self.transcript is not None else None) or ""


def _print_outcomes(outcomes: Sequence[Outcome], with_subtitles: int) -> None:
    """Print the videos, if there are few, and totals; then what was skipped, damaged or written.
    `with_subtitles`: the number of videos skipped because they have listed subtitles."""
    kinds, spoken = Tally(each.kind for each in outcomes), Tally(each.language for each in outcomes)
    # Of many videos, the sums are what can be read.
    few = outcomes if len(outcomes) <= _MOST_ROWS else ()
    rows = [(each.path.name, each.kind, each.language, *_figures([each])) for each in few]
    total = (
        f"{len(outcomes)} video{'s' if len(outcomes) != 1 else ''}",
        ", ".join(f"{count} {kind}" for kind, count in kinds.items()),
        ", ".join(f"{language}: {count}" for language, count in spoken.most_common() if language),
    )
    heads = ("video", "", "language", "audio, min", "took, s", "lines")
    table = (*rows, (*total, *_figures(outcomes)))
    Console().print(TextTable("", heads, table, lefts=frozenset(("", "language"))))
    if with_subtitles:
        print(
            f"skipped {with_subtitles} videos with listed subtitles (--subtitles none transcribes them too)"
        )
    for each in outcomes:
        if each.transcript is not None and each.transcript.damaged:
            packets = f"{each.transcript.damaged} audio packets"
            print(f"{each.path.name}: {packets} cannot be decoded and were skipped")
        if each.note:
            print(each.note)


def _figures(outcomes: Sequence[Outcome]) -> tuple[str, str, str]:
    """Minutes of audio, the seconds that this command took for them, and lines."""
    transcripts = [each.transcript for each in outcomes if each.transcript is not None]
    return (
        f"{sum(each.sound_seconds for each in transcripts) / 60:.1f}",
        f"{sum(each.seconds for each in transcripts):.1f}" if transcripts else "",
        str(sum(len(each.lines) for each in transcripts)),
    )
