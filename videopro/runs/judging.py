"""Have a judge model grade the open answers of a run. Each answer is graded once; grades.jsonl stores the
judge's replies, which scoring parses.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image

from videopro.backbones import Backbone, Sampling, load_backbone, read_spec
from videopro.benchmarks import JudgeGrade, JudgePrompt, Protocol
from videopro.errors import BackboneError, RunError, VideoError
from videopro.runs.folder import RunFolder
from videopro.runs.grading import grade_of, needs_look, shown_answer
from videopro.runs.summary import summarize, write_summary
from videopro.settings import read_yaml, setting
from videopro.storage import JsonLinesLog, SetAside, parse_json
from videopro.traces import Trace
from videopro.video import Frame, Video, clue_times

# Consecutive failed requests after which grading stops.
_GIVEN_UP = 8
_TOKENS = 64
# Requests in flight: most judges are hosted, and limit their rate.
_CONCURRENCY = 8
# CG-Bench's limit of frames for a clue.
_CLUE_FRAMES = 32
# Settings of a judge that change how it is reached, but no grade.
_NO_MATTER = ("api_key_env", "concurrency", "timeout", "retries", "batch_size", "device_map")


@dataclass(frozen=True)
class JudgeConfig:
    """The settings of `videopro benchmarks judge`."""

    run: Path = field(metadata=setting("folder of the run to grade", positional=True))
    judge: str = field(metadata=setting("server:MODEL@URL, or any model that --model takes"))
    backbone: dict[str, Any] = field(
        default_factory=dict,
        metadata=setting("settings of the judge, such as api_key_env=NAME concurrency=8"),
    )


def recorded_protocol(folder: RunFolder) -> Protocol:
    """The protocol of a run. Raises RunError or BenchmarkError."""
    identity = folder.recorded_identity() if folder.config.exists() else None
    if identity is None or not isinstance(identity.get("protocol"), dict):
        raise RunError(f"{folder.path}: is not a run folder; give one that `videopro infer` created")
    return Protocol.from_identity(identity["protocol"])


def judge_run(config: JudgeConfig, *, load: Callable[..., Backbone] = load_backbone) -> dict[str, Any]:
    """Grade every answer of a run that has no grade yet, and rewrite its summary. Re-running the same command
    resumes. Raises VideoProError."""
    folder = RunFolder(config.run)
    protocol = recorded_protocol(folder)
    if protocol.judge is None:
        name = (folder.recorded_identity() or {})["protocol"].get("benchmark")
        raise RunError(
            f"{folder.path}: benchmark {name!r} is scored without a judge; its summary is complete"
        )
    traces = folder.read()
    kept = _lines(folder.grades)
    others = {line["judge"] for line in kept.values()} - {_name(config)}
    if others:
        raise RunError(
            f"{folder.grades}: was graded by {sorted(others)[0]!r}, not by {_name(config)!r}; give the first "
            "as --judge, with its settings, or remove the file"
        )
    todo = [trace for trace in traces if _is_open(trace) and not _is_graded(trace, kept)]
    if todo:
        backbone = load(config.judge, **config.backbone)
        try:
            _grade(todo, protocol.judge, backbone, config, folder.grades)
        finally:
            backbone.close()
    return rewrite_summary(folder, protocol, traces)


def rewrite_summary(folder: RunFolder, protocol: Protocol, traces: Sequence[Trace]) -> dict[str, Any]:
    """Write a run's summary with the current grades."""
    settings = read_yaml(folder.config)
    try:
        before = parse_json(folder.summary.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        before = {}
    if not isinstance(before, dict) or before.get("run_key") != settings.get("run_key"):
        before = {key: settings.get(key) for key in ("benchmark", "method", "model", "run_key")}
    fresh = summarize(traces, protocol, {}, read_grades(folder.grades, protocol.judge))
    summary = {**{key: value for key, value in before.items() if key not in fresh}, **fresh}
    write_summary(folder.summary, summary)
    return summary


def read_grades(path: Path, judge: JudgePrompt | None) -> dict[str, JudgeGrade]:
    """The grades by question id; empty if nothing was graded."""
    if judge is None:
        return {}
    return {question: grade_of(line, judge) for question, line in _lines(path).items()}


def _name(config: JudgeConfig) -> str:
    """The judge's name in the grades: with those of its settings that affect a grade."""
    settings = {key: value for key, value in config.backbone.items() if key not in _NO_MATTER}
    return f"{config.judge} {json.dumps(settings, sort_keys=True)}" if settings else config.judge


def _is_open(trace: Trace) -> bool:
    return trace.reference is not None and trace.final is not None


def _is_graded(trace: Trace, kept: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether this exact answer was graded: an answer that was redone is graded again."""
    line = kept.get(trace.question_id)
    return line is not None and line["answer"] == _digest(trace)


def _digest(trace: Trace) -> str:
    assert trace.final is not None
    return hashlib.sha256(trace.final.raw.encode()).hexdigest()[:16]


def _lines(path: Path) -> dict[str, dict[str, Any]]:
    """The last line of each question; a truncated last line, left by a killed process, is skipped, and a line
    that is no grade is set aside."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise RunError(f"{path}: cannot be read ({error})") from error
    lines: dict[str, dict[str, Any]] = {}
    set_aside = SetAside(path, "the judge is asked for their grades again")
    whole = text.split("\n")[:-1]
    for number, line in enumerate(whole, start=1):
        try:
            content = parse_json(line)
            own = {key: content[key] for key in ("judge", "answer", "raw")}
            lines[content["question_id"]] = own | ({"look": content["look"]} if "look" in content else {})
        except (ValueError, KeyError, TypeError) as error:
            set_aside.add(number, f"no grade: {error}")
    set_aside.tell()
    return lines


def _judged(trace: Trace, judge: JudgePrompt, backbone: Backbone) -> dict[str, str]:
    """What the judge replied: "raw", and "look" if it was shown the clue too. Raises BackboneError or
    VideoError."""
    assert trace.final is not None
    assert trace.reference is not None
    answer = shown_answer(trace.final.raw, judge)
    words = judge.fill(trace.question, trace.reference, answer)
    messages: list[dict[str, Any]] = [{"role": "user", "content": words}]
    if judge.system:
        messages.insert(0, {"role": "system", "content": judge.system})
    raw = backbone.chat(messages, Sampling(_TOKENS)).text
    if not needs_look(raw, judge):
        return {"raw": raw}
    video = Video.open(trace.video.path)
    clue = [(interval[0], interval[1]) for interval in trace.evidence]
    budget = min(_CLUE_FRAMES, backbone.frames)
    frames = video.frames(clue_times(clue, video.duration, video.fps, budget))
    shown = judge.fill_look(trace.question, answer, [frame.time for frame in frames])
    parts = [{"type": "text", "text": shown}]
    look = [{"role": "user", "content": [_clue(frames), *parts]}]
    return {"raw": raw, "look": backbone.chat(look, Sampling(_TOKENS)).text}


def _clue(frames: Sequence[Frame]) -> dict[str, Any]:
    """The content part of a chat that shows the frames of a clue."""
    if len(frames) == 1:
        return {"type": "image", "image": Image.fromarray(frames[0].image)}
    return {"type": "video", "video": list(frames)}


def _grade(
    traces: Sequence[Trace], judge: JudgePrompt, backbone: Backbone, config: JudgeConfig, path: Path
) -> None:
    """Ask the judge for grades and append each one as it arrives."""
    spec = read_spec(config.judge, **config.backbone)
    failed, lost, last = 0, 0, ""

    def ask(trace: Trace) -> tuple[Trace, dict[str, str] | BackboneError]:
        try:
            return trace, _judged(trace, judge, backbone)
        except BackboneError as error:
            return trace, error
        except VideoError as error:
            return trace, BackboneError(f"the clue cannot be shown: {error}")

    # A server handles several requests at once; a model in this process only one.
    threads = config.backbone.get("concurrency", _CONCURRENCY) if spec.kind == "server" else 1
    step = max(threads, _GIVEN_UP)
    with JsonLinesLog(path) as grades, ThreadPoolExecutor(threads) as pool:
        for start in range(0, len(traces), step):
            for trace, reply in pool.map(ask, traces[start : start + step]):
                if isinstance(reply, BackboneError):
                    failed, lost, last = failed + 1, lost + 1, str(reply)
                    continue
                failed = 0
                line = {
                    "question_id": trace.question_id,
                    "judge": _name(config),
                    "answer": _digest(trace),
                    **reply,
                }
                grades.append(line)
            if failed >= min(_GIVEN_UP, len(traces)):
                raise RunError(
                    f"the judge failed all of the last {failed} requests ({last}); existing grades are kept: "
                    "fix this and re-run the same command to resume"
                )
    if lost:
        print(f"{lost} answers were not graded ({last}); re-run the same command to retry", file=sys.stderr)
