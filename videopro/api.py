"""VideoPro from Python: ask about a video, run a benchmark, read a run.

from videopro import VideoPro

with VideoPro("Qwen/Qwen3-VL-8B-Instruct") as pro:
    answer = pro.ask("talk.mp4", "What is on the table?", choices=["a cup", "a book"])
    print(answer.letter, answer.confidence, answer.program)
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from queue import SimpleQueue
from types import MappingProxyType
from typing import Any, Self

from cachetools import LRUCache

from videopro.backbones import Backbone, find_video, knowing_models, load_backbone
from videopro.backbones.wrappers import share_backbone
from videopro.benchmarks import ROBUST, Item, Protocol
from videopro.cli import build_settings, check_needs, read_yaml
from videopro.commands.infer import run as run_infer
from videopro.commands.infer_settings import InferConfig
from videopro.errors import Cancellation, QuestionError, RunError, cancellable
from videopro.methods import (
    EventObserver,
    PreparedRun,
    QuestionFailed,
    Questions,
    RunRequest,
    answer_one,
    favouring_answers,
    last_events,
    make_trace,
    prepare,
    video_ref,
)
from videopro.question import Question, without_own_labels
from videopro.runs import Abstention, RunFolder
from videopro.storage import encodable, parse_json
from videopro.traces import Trace
from videopro.traces.scoring import score_trace
from videopro.video import Video, load_subtitles, subtitles_of

Event = dict[str, Any]
_KEPT = 8
_Path = str | os.PathLike[str]


@dataclass(frozen=True)
class VideoAnswer:
    """An answer, and what it rests on."""

    letter: str | None
    """Of the choice; None for a question without choices, and where the reply names none."""
    choice: str | None
    """The text of that choice."""
    text: str
    """The reply in words."""
    confidence: float | None
    """0 to 1 (paper, Eq. 2); None where nothing says how sure the answer is."""
    probabilities: Mapping[str, float]
    """Of each choice, by its letter; empty where the model gave none."""
    evidence: Sequence[Mapping[str, Any]]
    """Parts of the video that the answer rests on, in the order in which they were found: "kind" (frames,
    interval, subtitle, text or box), "start" and "end" in seconds, "box" in 0..1 of the picture, "text",
    "source"."""
    trace: Trace = field(repr=False)
    """All that happened: rounds, programs, calls, prompts and costs."""

    @property
    def program(self) -> str | None:
        """The program that gave the answer; None for a direct answer and for an agent's."""
        selected = self.trace.selected
        return None if selected is None else self.trace.rounds[selected].program


class VideoPro:
    """A model and a method, ready to answer. Loads the model once.

    `model` and `method` are those of `videopro infer`; `options` are the method's, `backbone` the model's
    settings (`dtype`, `adapter`, `frames`, ...). Raises ConfigError for a setting that is wrong and for what
    is missing on this machine, and BackboneError for a model that cannot be loaded.

    Threads may ask at the same time: a model in this process answers those that wait in batches.
    """

    def __init__(
        self,
        model: str,
        method: str = "videopro",
        *,
        options: Mapping[str, Any] | None = None,
        backbone: Mapping[str, Any] | None = None,
        seed: int = 0,
        max_new_tokens: int = 256,
        abstain: str = "",
        load: Callable[..., Backbone] = load_backbone,
    ) -> None:
        """`max_new_tokens` limits a direct answer in words. `abstain`: RISK@FILE, by a file of `videopro
        calibrate`; less confident answers have no letter. `load(model, **backbone)` makes the model."""
        self._request = (method, dict(options or {}), model, dict(backbone or {}))
        self._load, self._seed = load, seed
        self._protocol = Protocol(parser=ROBUST, reply_tokens=max_new_tokens)
        self._prepared: LRUCache[tuple[object, ...], PreparedRun] = LRUCache(_KEPT)
        self._kept: dict[Any, Any] = {}
        self._lock = threading.Lock()
        first = self._prepare([], is_open=False, shows_subtitles=False)
        self._abstention = Abstention.of(abstain, first, load)
        check_needs(first.needs())
        self._backbone = share_backbone(first.load())

    def ask(
        self,
        video: _Path,
        question: str,
        choices: Sequence[str] = (),
        *,
        subtitles: _Path | bool = True,
        calls: int | None = None,
        seconds: float | None = None,
        on_event: Callable[[Event], None] = lambda event: None,
        cancellation: Cancellation | None = None,
    ) -> VideoAnswer:
        """Answer a question about a video file; without `choices`, in words.

        `subtitles`: a file; True uses those in the video, or else next to it; False uses none. `calls` and
        `seconds` limit what the question costs; None: the method's options. `on_event` is called with each
        event, one at a time. `cancellation.cancel()` from another thread stops the question at its next step.
        Raises VideoError for a video that cannot be read, QuestionFailed for a question without an answer,
        Cancelled, and other VideoProErrors for what the caller can fix.
        """
        if isinstance(choices, str):
            raise QuestionError("choices is a string; pass a list of strings")
        with cancellable(cancellation or Cancellation()):
            plain = without_own_labels(tuple(map(encodable, choices)))
            asked = Question(encodable(question), plain) if plain else Question.open(encodable(question))
            file = find_video(Path(video))
            named = None if isinstance(subtitles, bool) else Path(subtitles)
            limits = {"calls": calls, "seconds": seconds}
            budget = {name: limit for name, limit in limits.items() if limit is not None}
            prepared = self._prepare([file], budget, is_open=asked.is_open, shows_subtitles=named is not None)
            self._abstention.check(prepared, is_open=asked.is_open)
            opened = Video.open(file)
            if named is not None:
                load_subtitles(named, duration=opened.duration)
            lines = named or (subtitles_of(file) if subtitles else None)
            item = Item("ask", file, opened.id, asked, subtitles=lines)
            observer = EventObserver(on_event)
            observer.on_wait("answering" if self._request[0] == "native" else "preparing the video")
            result = answer_one(
                prepared.method,
                item,
                opened,
                self._backbone,
                self._protocol,
                seed=self._seed,
                observer=observer,
            )
            result = self._abstention.applied(result)
            *evidence, last = last_events(result, asked, opened)
            for event in (*evidence, last):
                observer.emit(event)
            if result.error is not None:
                raise QuestionFailed(result.error, result.cost)
            served = self._backbone.versions
            reference = video_ref(item, opened)
            trace = make_trace(item, result, reference, run_key="", protocol=self._protocol, served=served)
            found = [{name: value for name, value in each.items() if name != "type"} for each in evidence]
            fields = ("letter", "choice", "text", "confidence", "probabilities")
            return VideoAnswer(**{name: last[name] for name in fields}, evidence=found, trace=trace)

    def events(
        self, video: _Path, question: str, choices: Sequence[str] = (), **settings: Any
    ) -> Iterator[Event]:
        """The events of a question as they happen, those that `videopro serve` streams; the last has the type
        "answer" or "error". Arguments as in `ask`. Closing the iterator stops the question. Raises what
        `ask` raises, except QuestionFailed, which is an event here."""
        cancellation = Cancellation()
        queue: SimpleQueue[Event | BaseException | None] = SimpleQueue()

        def work() -> None:
            try:
                self.ask(video, question, choices, on_event=queue.put, cancellation=cancellation, **settings)
            except QuestionFailed:
                pass
            except BaseException as error:
                queue.put(error)
            finally:
                queue.put(None)

        thread = threading.Thread(target=work, name="question", daemon=True)
        thread.start()
        try:
            while (event := queue.get()) is not None:
                if isinstance(event, BaseException):
                    raise event
                yield event
        finally:
            cancellation.cancel()
            thread.join()

    def close(self) -> None:
        """Release the model."""
        self._backbone.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _prepare(
        self,
        videos: Sequence[Path],
        budget: Mapping[str, float] = MappingProxyType({}),
        *,
        is_open: bool,
        shows_subtitles: bool,
    ) -> PreparedRun:
        """The method for a kind of question. Raises VideoProError for what does not go together."""
        key = (is_open, shows_subtitles, *budget.items(), *(knowing_models(video) for video in videos))
        method, options, model, backbone = self._request
        options = {**options, **budget}
        with self._lock:
            if key not in self._prepared:
                questions = Questions(
                    self._protocol, open=int(is_open), videos=list(videos), remedy="give choices"
                )
                options = favouring_answers(method, options, shows_subtitles=shows_subtitles)
                request = RunRequest(method, options, model, backbone, lambda: questions, load=self._load)
                self._prepared[key] = prepared = prepare(request)
                # The models behind its modules, which are loaded once.
                prepared.method.kept = self._kept
            return self._prepared[key]


@dataclass(frozen=True)
class Run:
    """A run's folder: its settings, its summary and its questions."""

    folder: Path
    settings: Mapping[str, Any]
    """Those that it was started with."""
    summary: Mapping[str, Any]
    """"accuracy", "accuracy_ci95" and more; empty until every question is answered."""
    traces: Sequence[Trace] = field(repr=False)
    """What happened in each question, in the order of the answers."""

    def rows(self) -> list[dict[str, Any]]:
        """A row for each question, for `pandas.DataFrame`."""
        return [_row(trace) for trace in self.traces]


def _row(trace: Trace) -> dict[str, Any]:
    final = trace.final
    return {
        "id": trace.question_id,
        "video": trace.video.key,
        "question": trace.question,
        "answer": None if final is None else final.letter or final.raw,
        "gold": trace.gold or trace.reference,
        "correct": None if trace.gold is None else score_trace(trace).correct,
        "confidence": None if final is None else final.confidence,
        "rounds": len(trace.rounds),
        "error": None if trace.error is None else trace.error.message,
        **asdict(trace.cost),
    }


def read_run(folder: _Path) -> Run:
    """Read a run, finished or in progress. Raises RunError for a folder without one."""
    path = Path(folder)
    files = RunFolder(path)
    if not files.config.exists():
        raise RunError(f"{path}: contains no run; pass the folder of a run")
    summary = parse_json(files.summary.read_text()) if files.summary.exists() else {}
    traces = files.read() if files.traces.exists() else []
    return Run(path, read_yaml(files.config), summary, traces)


def run(
    benchmark: str,
    *,
    model: str,
    output: _Path,
    method: str = "videopro",
    load: Callable[..., Backbone] = load_backbone,
    **settings: Any,
) -> Run:
    """Answer the questions of one benchmark, as `videopro infer` does, and read the run. The same call
    resumes a run that was stopped. `settings` are those of `videopro infer` (`root`, `split`, `limit`,
    `workers`, ...). Workers are processes: a script calls it under `if __name__ == "__main__"`. Raises
    VideoProError."""
    given = {"benchmark": benchmark, "model": model, "method": method, "output": os.fspath(output)} | settings
    config = build_settings(InferConfig, given, "run()")
    run_infer(config, load=load)
    return read_run(config.output)
