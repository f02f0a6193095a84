"""Runs the programs of a training run in parallel in the background, each once.

Uses inference's own path: `videopro.methods.program.execution` over the modules of the row's video.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import lru_cache

from cachetools import LRUCache

from videopro.backbones import Backbone, check_alive, sharing_gpu
from videopro.backbones.wrappers import Meter, MeteredBackbone, ThreadMeter, share_backbone
from videopro.errors import (
    BackboneError,
    ExceptionRecord,
    NativeError,
    Streaks,
    SubtitleError,
    UnexpectedError,
    VideoError,
    VideoProError,
    WorkerBug,
    failure_lines,
    unexpected_as,
)
from videopro.executor import Limits, Program, parse_program
from videopro.methods.program import REASONED, OtherVideos, execute
from videopro.modules import ModuleModels, VideoContext
from videopro.modules.calls import CallCache
from videopro.traces import Execution, Failure, ReasonedRule
from videopro.traces.scoring import Mode
from videopro.train.rewards.rows import RewardRow
from videopro.video import Video, load_subtitles

# The number of programs and contexts kept: more than a few batches need.
_RUNS = 1024
_CONTEXTS = 256


@dataclass(frozen=True)
class ProgramOutcome:
    """The outcome of running a program."""

    execution: Execution | None = None
    log: str = ""
    """The program's log, for a refinement prompt."""
    error: VideoProError | None = None
    """Why the row cannot be rewarded; there is then no execution."""


@dataclass(frozen=True)
class TurnOutcome:
    """A reply, the program in it, and the outcome of running that program."""

    reply: str
    program: Program
    outcome: ProgramOutcome

    @property
    def mode(self) -> Mode | None:
        """The program's mode; None if there is no program."""
        return self.program.mode if self.program.code.strip() else None


class ProgramRunner:
    """Runs programs on threads. A reply is parsed once, equal programs about the same question run once, and
    module calls are cached for the lifetime of the process.

    `backbone` answers the modules' questions, with any adapter off (the base model answers, not the policy
    that writes programs): the model in training, a frozen copy of its base, or a server. `models`: those
    behind the modules. `workers`: programs run in parallel. `limits`: None for the limits of inference.
    `reasoned`: how to compute the confidence of a letter that no call returned directly. `nearest_intact`: as
    of `Video.open`. Raises ConfigError for an invalid `workers`.
    """

    def __init__(
        self,
        backbone: Backbone,
        models: ModuleModels,
        *,
        workers: int = 8,
        limits: Limits | None = None,
        reasoned: ReasonedRule = REASONED,
        nearest_intact: float = 0.0,
    ) -> None:
        self.executions = 0
        """Programs started so far, without repeats."""
        self.late = 0
        """Programs started only when their outcome was needed."""
        self.left_out: dict[tuple[str, str], str] = {}
        """Why rows were left out, by their video (and "", if it cannot be read) or by their video and id (if
        the backbone refused a request)."""
        self._unreadable: dict[tuple[str, ...], VideoProError] = {}
        self._backbone = share_backbone(backbone, adapter=False)
        self._counted = ThreadMeter()
        self._metered = MeteredBackbone(self._backbone, self._counted)
        self._models = models
        self._limits = limits if limits is not None else Limits()
        self._reasoned = reasoned
        self._nearest_intact = nearest_intact
        self._others = OtherVideos()
        self._contexts: CallCache[VideoContext] = CallCache(_CONTEXTS)
        # Needed when a reply is written, and again when it is rewarded.
        self._program = lru_cache(_RUNS)(parse_program)
        self._runs: LRUCache[object, Future[ProgramOutcome]] = LRUCache(_RUNS)
        self._lock = threading.Lock()
        self._streaks = Streaks()
        self._reported: set[tuple[str, str]] = set()
        self._threads = ThreadPoolExecutor(workers, "program", initializer=sharing_gpu())

    def prepare(self, rows: Sequence[RewardRow]) -> None:
        """Open and index the videos of rows in the background; returns at once. Errors appear when a program
        needs them."""
        for row in {_source(row): row for row in rows}.values():
            self._threads.submit(self._context, row)

    def submit(self, row: RewardRow, reply: str) -> Future[ProgramOutcome]:
        """Start the program of a reply, unless an equal one about the same question was started."""
        return self._begin(row, self._program(reply))[0]

    def _begin(self, row: RewardRow, program: Program) -> tuple[Future[ProgramOutcome], bool]:
        """Its run, and whether that was started now."""
        question = row.question
        # By content: rows of several prompts may ask the same question.
        key = (*_source(row), question.text, question.choices, program.digest)
        with self._lock:
            future = self._runs.get(key)
            is_new = future is None
            if future is None:
                future = self._runs[key] = self._threads.submit(self._run, row, program)
                self.executions += 1
        return future, is_new

    def run(self, rows: Sequence[RewardRow], replies: Sequence[str]) -> list[TurnOutcome]:
        """The outcome of each reply's program, started before or now. Returns when all have ended, within the
        executor's limits.

        Raises the machine's errors, WorkerBug for an exception that leaves out the rows of several videos,
        and BackboneError when the backbone serves no request at all, or no request of these programs.
        """
        programs = [self._program(reply) for reply in replies]
        begun = [self._begin(row, program) for row, program in zip(rows, programs, strict=True)]
        self.late += sum(is_new for _, is_new in begun)
        futures = [future for future, _ in begun]
        try:
            # What a run raises is the machine's (`_run` turns all else into an outcome), so the others are
            # not waited for.
            wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            # After an error or an interruption no further program may begin.
            for future in futures:
                future.cancel()
            wait(futures)
            self._forget()
            self._others.settle()
        bug = next((error for run in futures if not run.cancelled() and (error := run.exception())), None)
        if bug is not None:
            raise bug
        outcomes = [future.result() for future in futures]
        self._check_backbone([outcome.error for outcome in outcomes])
        self._check_streak(rows, outcomes)
        return [TurnOutcome(*turn) for turn in zip(replies, programs, outcomes, strict=True)]

    def close(self) -> None:
        """Cancel queued programs and wait for running ones. No program can be started after this."""
        self._threads.shutdown(cancel_futures=True)

    # ---- one program ---------------------------------------------------------------------------------------

    def _run(self, row: RewardRow, program: Program) -> ProgramOutcome:
        """Run a program. What shows without it (`execute`) leaves its row out; whatever else goes wrong is
        its own failure, and earns what a wrong answer earns."""
        try:
            with unexpected_as(NativeError):
                context = self._context(row)
            with unexpected_as():
                execution, log = execute(
                    program,
                    row.question,
                    context,
                    limits=self._limits,
                    thread_meter=self._counted,
                    reasoned=self._reasoned,
                    others=self._others,
                )
        except (VideoError, SubtitleError) as error:
            self._leave_out(str(row.video), "", error)
            return ProgramOutcome(error=error)
        except (BackboneError, NativeError) as error:
            self._leave_out(str(row.video), row.id, error)
            return ProgramOutcome(error=error)
        except UnexpectedError as error:
            failure = Failure(type(error).__name__, str(error), log=str(error))
            exceptions = () if error.record is None else (error.record,)
            execution, log = Execution("failed", error=failure, exceptions=exceptions), failure.log
        self._tell(execution.exceptions)
        return ProgramOutcome(execution, log)

    @property
    def left_out_lines(self) -> list[str]:
        """The rows that were left out, grouped by reason."""
        failures = [(*subject, reason) for subject, reason in self.left_out.items()]
        return ["left out of the rewards:", *failure_lines(failures)] if failures else []

    def _leave_out(self, video: str, row: str, error: VideoProError) -> None:
        with self._lock:
            if (video, row) in self.left_out:
                return
            self.left_out[video, row] = str(error)
        (line,) = failure_lines([(video, row, str(error))])
        print(f"rewards: skipped {line.strip()}", file=sys.stderr)

    def _check_streak(self, rows: Sequence[RewardRow], outcomes: Sequence[ProgramOutcome]) -> None:
        """Raise WorkerBug if one exception leaves out video after video."""
        for row, outcome in zip(rows, outcomes, strict=True):
            if outcome.error is None:
                self._streaks.spare()
            if not isinstance(outcome.error, NativeError) or (ends := outcome.error.record) is None:
                continue
            self._tell([ends])
            if self._streaks.end(ends, str(row.video)):
                raise WorkerBug(
                    f"{ends.traceback}\nthe same exception ({ends.type} at {ends.place}) failed all rows of "
                    f"{self._streaks.videos} videos in a row"
                )

    def _tell(self, exceptions: Sequence[ExceptionRecord]) -> None:
        """Print the first traceback of each unexpected exception."""
        for exception in exceptions:
            with self._lock:
                is_new = exception.key not in self._reported
                self._reported.add(exception.key)
            if is_new:
                print(f"rewards: a program raised an exception:\n{exception.traceback}", file=sys.stderr)

    def _context(self, row: RewardRow) -> VideoContext:
        source = _source(row)
        # Opening an unreadable video again could take the whole time limit for every program.
        if source in self._unreadable:
            raise self._unreadable[source]
        try:
            context, _ = self._contexts.get(source, lambda: self._make_context(row))
        except (VideoError, SubtitleError) as error:
            self._unreadable[source] = error
            raise
        return context

    def _make_context(self, row: RewardRow) -> VideoContext:
        video = Video.open(row.video, nearest_intact=self._nearest_intact)
        subtitles = None
        if row.subtitles is not None:
            subtitles = load_subtitles(row.subtitles, duration=video.duration, track=row.subtitle_track)
        # Models are loaded by one thread at a time.
        with self._counted.into(Meter()):
            return self._models.context(video, self._metered, subtitles, row.without)

    # ---- the backbone --------------------------------------------------------------------------------------

    def _check_backbone(self, errors: Sequence[VideoProError | None]) -> None:
        refused = [error for error in errors if isinstance(error, BackboneError)]
        if not refused:
            return
        check_alive(self._backbone, str(refused[0]))
        if len(refused) == len(errors):
            raise BackboneError(
                f"{refused[0]}\nThe backbone refused the requests of all {len(errors)} programs in this "
                "batch, so there is nothing to learn from; fix this and re-run the same command to resume"
            )

    def _forget(self) -> None:
        """Drop failed runs, so that they can be retried."""
        with self._lock:
            for key, future in list(self._runs.items()):
                if future.done() and not _is_over(future):
                    del self._runs[key]


def _is_over(future: Future[ProgramOutcome]) -> bool:
    """Whether a finished run has an execution."""
    return not future.cancelled() and future.exception() is None and future.result().error is None


def _source(row: RewardRow) -> tuple[str, ...]:
    """The key of a context: its video and subtitles, and what it does without."""
    return str(row.video), str(row.subtitles or ""), row.subtitle_track or "", *row.without
