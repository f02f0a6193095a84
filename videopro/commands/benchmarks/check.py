"""Check which files of a benchmark are there before a long run.

Looks for the files and, on request, opens every video and subtitle file.
"""

from __future__ import annotations

import math
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from videopro import benchmarks
from videopro.benchmarks import (
    BENCHMARKS,
    NO_OPTION,
    UNPACKING,
    Archive,
    Benchmark,
    Issue,
    Item,
    downloaded,
    packed,
)
from videopro.cli import setting
from videopro.errors import BenchmarkError, ConfigError, SubtitleError, VideoError, cannot_write
from videopro.traces.scoring import GROUP_SEPARATOR
from videopro.video import (
    NEAREST_INTACT_HELP,
    SampleRule,
    Video,
    check_nearest_intact,
    clue_times,
    frame_times,
    load_subtitles,
)

# Names shown in a line of the report.
_MAX_EXAMPLES = 5
# Seconds by which evidence in whole seconds may pass the end.
_ROUNDED = 1.0
# Seconds allowed for opening one file.
_TIMEOUT = 60.0
# (height, width) of pictures that nobody looks at.
_SMALL = (8, 8)


@dataclass(frozen=True)
class CheckConfig:
    """The settings of `videopro benchmarks check`."""

    name: str = field(
        metadata=setting(
            "one of " + ", ".join(BENCHMARKS.ours()) + ", or a file of your own (.py)",
            positional=True,
        )
    )
    root: Path | None = field(default=None, metadata=setting("folder of the benchmark's files, or hf:REPO"))
    split: str = field(default="", metadata=setting("split of the benchmark; unset: its default"))
    protocol: str = field(default="", metadata=setting("protocol; unset: the benchmark's default"))
    annotations: str = field(
        default="",
        metadata=setting("file with the questions, or hf:REPO:CONFIG:SPLIT; unset: the official one"),
    )
    open: bool = field(
        default=False,
        metadata=setting(
            "open every existing video and subtitle file, and decode the frames that a direct answer is shown"
        ),
    )
    frames: int = field(default=64, metadata=setting("frames of a run, for --open"))
    fps: float | None = field(
        default=None, metadata=setting("the run's frames per second, at most `frames` in total; unset: all")
    )
    sampling: SampleRule | None = field(
        default=None, metadata=setting("which frames the run shows; unset: as in the benchmark's protocol")
    )
    nearest_intact: float = field(default=0.0, metadata=setting(f"the run's setting: {NEAREST_INTACT_HELP}"))
    unpack: bool = field(
        default=False, metadata=setting("unpack archives first, if files are missing that they hold")
    )

    def __post_init__(self) -> None:
        check_nearest_intact(self.nearest_intact)
        if self.frames < 1:
            raise ConfigError(f"frames is {self.frames}; it must be at least 1")
        if self.fps is not None and not self.fps > 0:
            raise ConfigError(f"fps is {self.fps}; it must be above 0")


@dataclass(frozen=True)
class CheckReport:
    """Which files are there, missing or unreadable."""

    benchmark: Benchmark
    missing: tuple[str, ...]
    """Names of videos whose file is missing or empty."""
    unreadable: tuple[Issue, ...]
    """Files that are there but cannot be read (checked with `open` only)."""
    videos: int
    subtitles: int
    """Number of videos whose subtitle file is there."""
    subtitles_missing: tuple[str, ...]
    """Videos whose listed subtitle file is missing."""
    damaged: tuple[Issue, ...] = ()
    """Videos with damaged frames among those that a run shows (checked with `open` only)."""
    stood_in: int = 0
    """Of these, those in which intact frames stand in for all of them."""
    beyond: tuple[Issue, ...] = ()
    """Questions whose evidence lies past the end of their video (checked with `open` only)."""
    archives: tuple[Archive, ...] = ()
    """Archives that are not unpacked, if videos or subtitles are missing."""

    @property
    def is_complete(self) -> bool:
        """Whether every question can be asked."""
        faults = (self.missing, self.unreadable, self.subtitles_missing, self.beyond, self.benchmark.broken)
        is_intact = len(self.damaged) == self.stood_in
        return is_intact and not any(faults) and not any(archive.is_begun for archive in self.archives)

    def lines(self) -> Iterator[str]:
        """The lines of the report."""
        benchmark = self.benchmark
        protocol = benchmark.protocol
        yield f"{benchmark.name}, split {benchmark.split!r}, protocol {protocol.name or 'default'!r}"
        yield f"questions: {len(benchmark.items)}{_kinds(benchmark)}"
        if benchmark.broken:
            yield f"broken records: {len(benchmark.broken)} (left out with --skip-broken)"
            yield from _some([str(issue) for issue in benchmark.broken])
        if benchmark.defects:
            yield f"annotation errors, asked nevertheless: {len(benchmark.defects)}"
            yield from _some([str(issue) for issue in benchmark.defects])
        present = self.videos - len(self.missing)
        yield f"videos: {present} of {self.videos} found"
        if self.missing:
            lost = set(self.missing)
            hit = sum(item.video_key in lost for item in benchmark.items)
            questions = f"{hit} question{'s' * (hit != 1)}"
            first = next(item.video for item in benchmark.items if item.video_key in lost)
            yield f"  missing: {_names(self.missing)}; {questions}; expected the first at {first}"
        if protocol.subtitles == "none":
            yield "subtitles: not used under this protocol"
        else:
            yield f"subtitles: {self.subtitles} of {self.videos} videos have them ({protocol.subtitles})"
        if self.subtitles_missing:
            yield f"  listed but missing: those of {_names(self.subtitles_missing)}"
        if self.archives:
            yield "archives that are not unpacked; unpack them with"
            yield from (f"  {archive.command}" for archive in self.archives)
        if self.unreadable:
            yield f"files that cannot be read: {len(self.unreadable)}"
            yield from _some([str(issue) for issue in self.unreadable])
        if self.damaged:
            yield f"videos with damaged frames: {len(self.damaged)}"
            yield from _some([str(issue) for issue in self.damaged])
        if self.beyond:
            yield f"evidence past the end of the video: {len(self.beyond)}"
            yield from _some([str(issue) for issue in self.beyond])
        for kind in protocol.groups:
            counts = Counter(
                name
                for item in benchmark.items
                for name in item.groups.get(kind, "(none)").split(GROUP_SEPARATOR)
            )
            yield f"{kind}: " + ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
        if self.is_complete:
            yield "complete"
        elif benchmark.broken:
            yield "not complete; a run needs --skip-broken, and reports what is missing"
        else:
            yield "not complete; a run continues and reports what is missing"


def check(config: CheckConfig) -> CheckReport:
    """Check a benchmark's files. Raises BenchmarkError if the questions cannot be read, or an archive cannot
    be unpacked."""
    if config.unpack:
        for archive in _without_subtitles(config).archives:
            _unpack(archive)
    try:
        return _checked(config)
    except BenchmarkError as error:
        # A protocol that shows subtitles refuses a folder in which they are still packed.
        archives = [each for each in _without_subtitles(config).archives if each.has_subtitles]
        if not archives:
            raise
        raise BenchmarkError(f"{error}; {archives[0].name} is not unpacked: {archives[0].command}") from error


def _without_subtitles(config: CheckConfig) -> CheckReport:
    """The report under a protocol that can do without subtitles; they are looked for all the same."""
    protocols = BENCHMARKS[config.name].protocols
    offered = [protocol.name for protocol in protocols if protocol.subtitles == "offered"]
    return _checked(replace(config, protocol=offered[0]) if offered else config)


def _unpack(archive: Archive) -> None:
    if archive.name.endswith(".pkl"):
        raise BenchmarkError(
            f"{archive.name}: reading a pickle can run anything that is in it, so it is not unpacked here; "
            f"if you trust its source: {archive.command}"
        )
    print(archive.command, flush=True)
    try:
        archive.marker.touch()
    except OSError as error:
        raise BenchmarkError(cannot_write(archive.marker, error)) from error
    # As a shell reads it: pieces of an archive are joined by a pipe. unzip asks whether to go on where the
    # disk is full, and 7z whether to write over a file: nobody may be there to answer.
    done = subprocess.run(archive.command, shell=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise BenchmarkError(
            f"{archive.name}: cannot be unpacked (status {done.returncode}); if the disk is full, free some "
            f"space, else download it again, or unpack it with {archive.command}"
        )
    archive.marker.unlink(missing_ok=True)


def _checked(config: CheckConfig) -> CheckReport:
    benchmark = benchmarks.load(
        config.name,
        root=config.root,
        split=config.split or BENCHMARKS[config.name].splits[0],
        protocol=config.protocol,
        annotations=config.annotations,
        skip_broken=True,
    )
    if benchmark.fetch is not None:
        benchmark.fetch(benchmark.items)
    # Reversed: of the questions about one video, the first stays.
    by_video: dict[str, Item] = {item.video_key: item for item in reversed(benchmark.items)}
    by_video = dict(sorted(by_video.items()))
    folders = {key: item for key, item in by_video.items() if item.video.is_dir()}
    missing = [key for key, item in by_video.items() if not (key in folders or _is_there(item.video))]
    with_subtitles = [key for key, item in by_video.items() if item.subtitles and _is_there(item.subtitles)]
    lost = [key for key, item in by_video.items() if item.subtitles and not _is_there(item.subtitles)]
    # The protocol may show subtitles, and not a single video has any.
    no_subtitles = bool(lost) or (benchmark.protocol.subtitles != "none" and not with_subtitles)
    videos = dict[str, Video]()
    # Folders of frames are no videos, and refused by their names.
    opened = by_video if config.open else folders
    unreadable = list(_unreadable(opened, missing, with_subtitles, videos, config.nearest_intact))
    beyond = list(_beyond(benchmark.items, {key: video.duration for key, video in videos.items()}))
    damaged, stood_in = list[Issue](), 0
    for video in videos.values():
        try:
            issue, is_stood_in = _damage(video, _shown_times(config, benchmark, video))
        except VideoError as error:
            unreadable.append(_unread(video.path, error))
            continue
        if issue is not None:
            damaged.append(issue)
            stood_in += is_stood_in
    return CheckReport(
        benchmark,
        tuple(missing),
        tuple(unreadable),
        len(by_video),
        len(with_subtitles),
        tuple(lost),
        tuple(damaged),
        stood_in,
        tuple(beyond),
        tuple(_archives(config, benchmark.items, missing, needs_subtitles=no_subtitles)),
    )


def _is_there(path: Path) -> bool:
    try:
        return path.is_file() and path.stat().st_size > 0
    except OSError:
        return False


def _unreadable(
    videos: dict[str, Item],
    missing: Sequence[str],
    with_subtitles: Sequence[str],
    opened: dict[str, Video],
    nearest_intact: float,
) -> Iterator[Issue]:
    """What cannot be read; the videos that can are put into `opened`."""
    for key in sorted(videos.keys() - set(missing)):
        item, duration = videos[key], None
        try:
            opened[key] = Video.open(item.video, timeout=_TIMEOUT, nearest_intact=nearest_intact)
            duration = opened[key].duration
        except VideoError as error:
            yield _unread(item.video, error)
        if key in with_subtitles and item.subtitles is not None:
            try:
                load_subtitles(item.subtitles, duration=duration or float("inf"))
            except SubtitleError as error:
                yield Issue(str(item.subtitles), str(error))


def _unread(video: Path, error: VideoError) -> Issue:
    return Issue(str(video), str(error).removeprefix(f"{video}: "))


def _shown_times(config: CheckConfig, benchmark: Benchmark, video: Video) -> list[float]:
    """The times (s) of the frames that direct answers about a video are shown."""
    protocol, budget = benchmark.protocol, config.frames
    if protocol.max_frames is not None:
        budget = min(budget, protocol.max_frames)
    rule, fps = config.sampling or protocol.sampling, config.fps or protocol.fps
    shown = {item.shown for item in benchmark.items if item.video == video.path}
    times = [
        clue_times(clues, video.duration, video.fps, budget)
        if clues
        else frame_times(video, rule, budget, fps)
        for clues in shown
    ]
    return sorted(set(chain.from_iterable(times)))


def _damage(video: Video, times: Sequence[float]) -> tuple[Issue | None, bool]:
    """Which seconds of a video are damaged, of those that a run meets, and whether intact frames stand in."""
    spans = video.damage(times)
    if not spans:
        return None, False
    seconds = ", ".join(f"{start:.2f} to {end:.2f} s" for start, end in spans)
    try:
        video.frames(times, size=_SMALL)
        fix, is_stood_in = "the nearest intact frames stand in", True
    except VideoError:
        option = "a larger --nearest-intact" if video.nearest_intact else "--nearest-intact SECONDS"
        fix, is_stood_in = f"download it again, or give {option}", False
    return Issue(str(video.path), f"damaged at {seconds}", fix), is_stood_in


def _beyond(items: Sequence[Item], durations: Mapping[str, float]) -> Iterator[Issue]:
    """Questions whose evidence, or what may be shown of the video, ends after it."""
    for item in items:
        end = durations.get(item.video_key, math.inf)
        for start, last in dict.fromkeys((*item.evidence, *item.shown)):
            if start >= end or last > end + _ROUNDED:
                yield Issue(
                    f"question {item.id}",
                    f"its evidence {start:g} to {last:g} s ends after {item.video.name} ({end:.2f} s)",
                    "correct the interval, or give the video that it is about",
                )
                break


def _archives(
    config: CheckConfig, items: Sequence[Item], missing: Sequence[str], *, needs_subtitles: bool
) -> Iterator[Archive]:
    """The archives in the benchmark's folder that hold what is missing, and those whose unpacking was
    interrupted: their last file is there, and cut off."""
    if config.root is None:
        return
    root = downloaded(config.root, config.name)
    root = root if root.is_dir() else root.parent
    if not missing and not needs_subtitles and not any(root.rglob(f"*{UNPACKING}")):
        return
    lost = set(missing)
    video = next((item.video for item in items if item.video_key in lost), items[0].video)
    folders = BENCHMARKS[config.name].subtitle_folders
    for archive in packed(root, video.parent, root / folders[0] if folders else None):
        if missing or archive.is_begun or (needs_subtitles and archive.has_subtitles):
            yield archive


def _kinds(benchmark: Benchmark) -> str:
    items, kinds = benchmark.items, []
    if count := sum(item.question.is_open for item in items):
        kinds.append(f"{count} open{', for a judge' if benchmark.protocol.judge is not None else ''}")
    if count := sum(item.answer is None and not item.question.is_open for item in items):
        kinds.append(f"{count} without a known answer")
    if count := sum(item.answer == NO_OPTION for item in items):
        kinds.append(f"{count} with no correct option")
    return f" ({', '.join(kinds)})" if kinds else ""


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_EXAMPLES} more" if len(names) > _MAX_EXAMPLES else ""
    return ", ".join(names[:_MAX_EXAMPLES]) + more


def _some(lines: Sequence[str]) -> Iterator[str]:
    yield from (f"  {line}" for line in lines[:_MAX_EXAMPLES])
    if len(lines) > _MAX_EXAMPLES:
        yield f"  and {len(lines) - _MAX_EXAMPLES} more"
