"""Check before a long run which files of a benchmark exist, and optionally whether every video and subtitle
file opens.
"""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from videopro.benchmarks import (
    BENCHMARKS,
    NO_OPTION,
    Archive,
    Benchmark,
    Issue,
    Item,
    downloaded,
    manifest,
    packed,
    unpack,
)
from videopro.cli import option, setting
from videopro.commands.infer_settings import BenchmarkSettings, load_benchmark
from videopro.errors import BenchmarkError, SubtitleError, VideoError, first_of
from videopro.traces.scoring import GROUP_SEPARATOR
from videopro.video import (
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
# Frames that a direct answer is shown, as a backbone's default.
_FRAMES = 64
# (height, width) of pictures that nobody looks at.
_SMALL = (8, 8)


@dataclass(frozen=True, kw_only=True)
class CheckConfig(BenchmarkSettings):
    """The settings of `videopro benchmarks check`."""

    benchmark: str = field(
        metadata=setting(
            "one of " + ", ".join(BENCHMARKS.ours()) + ", or your own file (.py)",
            positional=True,
        )
    )
    open: bool = option(
        False,
        "open every existing video and subtitle file, and decode the frames of a direct answer",
    )
    unpack: bool = option(False, "unpack archives with missing files first")
    remove_archives: bool = option(
        False, "with --unpack: delete each archive, or piece of one, when its files are unpacked"
    )

    def __post_init__(self) -> None:
        check_nearest_intact(self.nearest_intact)
        if self.remove_archives and not self.unpack:
            raise BenchmarkError("--remove-archives: has no effect without --unpack; add it")


@dataclass
class CheckReport:
    """Which files exist, are missing or unreadable."""

    lines: list[str] = field(default_factory=list)
    is_complete: bool = True
    """Whether every question can be asked."""
    archives: list[Archive] = field(default_factory=list)
    """Archives that are not unpacked, if videos or subtitles are missing."""

    def issues(self, title: str, issues: Sequence[Issue], more: str = "", *, is_fault: bool = True) -> None:
        """Add a line with the number of issues and some of them, if there are any."""
        if issues:
            self.lines.append(f"{title}: {len(issues)}{more}")
            self.lines += [f"  {issue}" for issue in issues[:_MAX_EXAMPLES]]
            if len(issues) > _MAX_EXAMPLES:
                self.lines.append(f"  and {len(issues) - _MAX_EXAMPLES} more")
            self.is_complete &= not is_fault


def check(config: CheckConfig) -> CheckReport:
    """Check a benchmark's files. Raises BenchmarkError if the questions cannot be read, or an archive cannot
    be unpacked."""
    if config.unpack:
        for archive in _without_subtitles(config).archives:
            print(f"unpacking {archive} into {archive.target}", flush=True)
            unpack(archive, remove=config.remove_archives)
    try:
        return _checked(config)
    except BenchmarkError as error:
        # A protocol that shows subtitles refuses a folder in which they are still packed.
        archives = [each for each in _without_subtitles(config).archives if each.has_subtitles]
        if not archives:
            raise
        raise BenchmarkError(f"{error}; unpack {archives[0].name}: {_command(config)}") from error


def _without_subtitles(config: CheckConfig) -> CheckReport:
    """The report under a protocol that can do without subtitles; they are looked for all the same."""
    protocols = BENCHMARKS[config.benchmark].protocols
    offered = [protocol.name for protocol in protocols if protocol.subtitles == "offered"]
    return _checked(replace(config, protocol=offered[0]) if offered else config)


def _checked(config: CheckConfig) -> CheckReport:
    benchmark = load_benchmark(replace(config, skip_broken=True))
    if benchmark.fetch is not None:
        benchmark.fetch(benchmark.items)
    # Reversed: of the questions about one video, the first stays.
    by_video: dict[str, Item] = {item.video_key: item for item in reversed(benchmark.items)}
    by_video = dict(sorted(by_video.items()))
    missing = [key for key, item in by_video.items() if not (item.video.is_dir() or _is_there(item.video))]
    listed = {key: item.subtitles for key, item in by_video.items() if item.subtitles is not None}
    lost = [key for key, subtitles in listed.items() if not _is_there(subtitles)]
    # Folders of frames are no videos, and refused by their names.
    opened = {
        key: item
        for key, item in by_video.items()
        if item.video.is_dir() or (config.open and key not in missing)
    }

    report = CheckReport()
    protocol = benchmark.protocol
    report.lines = [
        f"{benchmark.name}, split {benchmark.split!r}, protocol {protocol.name or 'default'!r}",
        f"questions: {len(benchmark.items)}{_kinds(benchmark)}",
    ]
    report.issues(
        "broken records", benchmark.broken, " (left out with --skip-broken)", is_fault=not config.skip_broken
    )
    report.issues("annotation errors (asked anyway)", benchmark.defects, is_fault=False)
    _report_missing(report, benchmark, by_video, missing)
    if protocol.subtitles == "none":
        report.lines.append("subtitles: not used by this protocol")
    else:
        has = f"{len(listed) - len(lost)} of {len(by_video)} videos have subtitles"
        report.lines.append(f"subtitles: {has} ({protocol.subtitles})")
    if lost:
        report.lines.append(f"  listed but missing for: {first_of(lost)}")
        report.is_complete = False
    # The protocol may show subtitles, and not a single video has any.
    no_subtitles = bool(lost) or (protocol.subtitles != "none" and not listed)
    report.archives = list(_archives(config, benchmark.items, missing, needs_subtitles=no_subtitles))
    if report.archives:
        report.lines.append(f"archives not unpacked yet; run {_command(config)}")
        report.lines += [f"  {archive}" for archive in report.archives]
    _report_opened(report, config, benchmark, opened, lost)
    for kind in protocol.groups:
        names = (item.groups.get(kind, "(none)").split(GROUP_SEPARATOR) for item in benchmark.items)
        counts = sorted(Counter(chain.from_iterable(names)).items())
        shown = ", ".join(f"{name} {count}" for name, count in counts)
        has_any = any(kind in item.groups for item in benchmark.items)
        report.lines.append(f"{kind}: {shown if has_any else 'no question is in this group'}")
    # A name that is misspelt in the protocol would only be missed in the report of a finished run.
    for metric in protocol.metrics:
        found = {
            name
            for item in benchmark.items
            for name in item.groups.get(metric.over, "").split(GROUP_SEPARATOR)
        }
        if metric.over and (unknown := set(metric.of) - found or ({metric.over} if found == {""} else ())):
            report.lines.append(f"metric {metric.name!r}: no question is in {first_of(sorted(unknown))}")
    if report.is_complete:
        report.lines.append("complete")
    elif benchmark.broken:
        report.lines.append("incomplete; a run needs --skip-broken, and reports what is missing")
    else:
        report.lines.append("incomplete; a run continues, and reports what is missing")
    return report


def _report_missing(
    report: CheckReport, benchmark: Benchmark, by_video: Mapping[str, Item], missing: Sequence[str]
) -> None:
    report.lines.append(f"videos: {len(by_video) - len(missing)} of {len(by_video)} found")
    if missing:
        lost = set(missing)
        hit = sum(item.video_key in lost for item in benchmark.items)
        first = next(item.video for item in benchmark.items if item.video_key in lost)
        questions = f"{hit} question{'s' * (hit != 1)}"
        report.lines.append(f"  missing: {first_of(missing)}; {questions}; the first is expected at {first}")
        report.is_complete = False


def _report_opened(
    report: CheckReport,
    config: CheckConfig,
    benchmark: Benchmark,
    opened: Mapping[str, Item],
    lost: Sequence[str],
) -> None:
    """Open the files, and report those that cannot be read or are damaged, and evidence past their end."""
    unreadable, damaged, durations = list[Issue](), list[Issue](), dict[str, float]()
    is_stood_in = True
    for key, item in opened.items():
        try:
            video = Video.open(item.video, timeout=_TIMEOUT, nearest_intact=config.nearest_intact)
            durations[key] = video.duration
            issue, fits = _damage(video, _shown_times(benchmark, video))
            if issue is not None:
                damaged.append(issue)
                is_stood_in &= fits
        except VideoError as error:
            unreadable.append(Issue(str(item.video), str(error).removeprefix(f"{item.video}: ")))
        if item.subtitles is not None and key not in lost:
            try:
                load_subtitles(item.subtitles, duration=durations.get(key, math.inf))
            except SubtitleError as error:
                unreadable.append(Issue(str(item.subtitles), str(error)))
    report.issues("files that cannot be read", unreadable)
    report.issues("videos with damaged frames", damaged, is_fault=not is_stood_in)
    report.issues("evidence past the end of the video", list(_beyond(benchmark.items, durations)))


def _shown_times(benchmark: Benchmark, video: Video) -> list[float]:
    """The times (s) of the frames that a direct answer about a video gets."""
    protocol = benchmark.protocol
    budget = min(_FRAMES, protocol.max_frames or _FRAMES)
    shown = {item.shown for item in benchmark.items if item.video == video.path}
    times = [
        clue_times(clues, video.duration, video.fps, budget)
        if clues
        else frame_times(video, protocol.sampling, budget, protocol.fps)
        for clues in shown
    ]
    return sorted(set(chain.from_iterable(times)))


def _damage(video: Video, times: Sequence[float]) -> tuple[Issue | None, bool]:
    """Which seconds of a video that a run uses are damaged, and whether intact frames replace them."""
    spans = video.damage(times)
    if not spans:
        return None, True
    seconds = ", ".join(f"{start:.2f} to {end:.2f} s" for start, end in spans)
    try:
        video.frames(times, size=_SMALL)
        fix, is_stood_in = "the nearest intact frames replace them", True
    except VideoError:
        option = "a larger --nearest-intact" if video.nearest_intact else "--nearest-intact SECONDS"
        fix, is_stood_in = f"download it again, or set {option}", False
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
                    "correct the interval, or use the right video",
                )
                break


# ---- archives ----------------------------------------------------------------------------------------------


def _command(config: CheckConfig) -> str:
    """The command that unpacks the archives."""
    given = {"--split": config.split, "--protocol": config.protocol, "--root": config.root}
    flags = [word for flag, value in given.items() if value for word in (flag, str(value))]
    return shlex.join(["videopro", "benchmarks", "check", config.benchmark, *flags, "--unpack"])


def _archives(
    config: CheckConfig, items: Sequence[Item], missing: Sequence[str], *, needs_subtitles: bool
) -> Iterator[Archive]:
    """The archives in the benchmark's folder that contain missing files; all of them if they are to be
    removed."""
    if config.root is None:
        return
    root = downloaded(config.root, config.benchmark)
    root = root if root.is_dir() else root.parent
    if not (missing or needs_subtitles or config.remove_archives):
        return
    lost = set(missing)
    video = next((item.video for item in items if item.video_key in lost), items[0].video)
    folders = BENCHMARKS[config.benchmark].subtitle_folders
    hub, kept = manifest(config.benchmark), config.remove_archives
    for archive in packed(root, video.parent, root / folders[0] if folders else None, hub, kept=kept):
        if missing or kept or (needs_subtitles and archive.has_subtitles):
            yield archive


def _is_there(path: Path) -> bool:
    try:
        return path.is_file() and path.stat().st_size > 0
    except OSError:
        return False


def _kinds(benchmark: Benchmark) -> str:
    items, kinds = benchmark.items, []
    if count := sum(item.question.is_open for item in items):
        kinds.append(f"{count} open{' (graded by a judge)' if benchmark.protocol.judge is not None else ''}")
    if count := sum(item.answer is None and not item.question.is_open for item in items):
        kinds.append(f"{count} without a known answer")
    if count := sum(item.answer == NO_OPTION for item in items):
        kinds.append(f"{count} with no correct option")
    return f" ({', '.join(kinds)})" if kinds else ""
