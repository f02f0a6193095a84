"""Grade the open answers of a run with a judge model. Each answer is graded once; grades.jsonl stores the
judge's replies, which scoring parses. Failed requests and replies without a grade are stored, counted, and
retried by the next command; an answer is not retried once the judge has repeated its reply.
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

from videopro.backbones import (
    DEFAULT_FRAMES,
    DEFAULT_PIXELS,
    Backbone,
    BackboneConfig,
    GenerateRequest,
    Sampling,
    load_backbone,
    read_spec,
    stored_thoughts,
)
from videopro.backbones.server import ChatClient, api_config, encode_frames, visual_parts
from videopro.benchmarks import JudgeGrade, JudgePrompt, Protocol
from videopro.cli import option, read_yaml, setting
from videopro.errors import BackboneError, RunError, VideoError, failure_lines, reason_of
from videopro.runs.folder import RunFolder
from videopro.runs.grading import grade_of, needs_look, shown_answer, why_ungraded
from videopro.runs.summary import summarize, write_summary
from videopro.storage import JsonLinesLog, SetAside, parse_json, printable
from videopro.traces import Trace
from videopro.video import Frame, Video, clue_times

# Requests in flight: most judges are hosted, and limit their rate.
_CONCURRENCY = 8


@dataclass(frozen=True)
class JudgeReply:
    """A judge's reply, with its thoughts separate."""

    text: str
    thoughts: str = ""
    cut_at: int | None = None
    """The token limit that cut off the reply; None: it is complete."""


def judge_config(spec: str, settings: Mapping[str, Any]) -> BackboneConfig:
    """The config of a judge. Raises ConfigError for a malformed spec or setting."""
    settings = {"concurrency": _CONCURRENCY, **settings}
    return api_config(spec, "judge", **settings) if spec.startswith("api:") else read_spec(spec, **settings)


class Judge:
    """The model that `spec` names, behind a chat endpoint (log-probabilities are not needed) or in this
    process, loaded by `load(spec, **settings)`. Its replies have at most `max_new_tokens` tokens, including
    thoughts. Raises ConfigError or BackboneError; each call raises BackboneError for a request that cannot be
    served."""

    def __init__(
        self,
        spec: str,
        settings: Mapping[str, Any],
        max_new_tokens: int,
        *,
        load: Callable[..., Backbone] = load_backbone,
    ) -> None:
        self._config = judge_config(spec, settings)
        self._limit = max_new_tokens
        is_served = self._config.kind == "server"
        self._model = ChatClient(self._config) if is_served else load(spec, **settings)
        self.frames = (
            self._model.frames if isinstance(self._model, Backbone) else self._config.frames or DEFAULT_FRAMES
        )
        """Maximum frames per call."""
        self.threads = self._config.concurrency if is_served else 1
        """How many threads can send requests at a time."""

    def reply(self, text: str, *, system: str = "", frames: Sequence[Frame] = ()) -> JudgeReply:
        """The reply to a prompt about frames (none: text only). An endpoint gets them as images after their
        times, or as one video with video=video."""
        if isinstance(self._model, Backbone):
            request = GenerateRequest(frames or None, text, system=system)
            (said,) = self._model.generate_batch([request], Sampling(self._limit))
            return JudgeReply(said.text, said.thoughts, self._limit if said.finish == "length" else None)
        shown: Sequence[Mapping[str, Any]] = ()
        extra: Mapping[str, Any] = {}
        if frames:
            encoded = encode_frames(frames, self._config.pixels or DEFAULT_PIXELS)
            as_video = len(frames) > 1 and self._config.video == "video"
            shown, extra = visual_parts(encoded, as_video=as_video)
        content: Any = [*shown, {"type": "text", "text": text}] if frames else text
        messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
        messages.append({"role": "user", "content": content})
        reply, _ = self._model.reply(messages, self._limit, {"temperature": 0.0, **extra})
        return JudgeReply(reply.text, reply.thoughts, reply.cut_at)

    def close(self) -> None:
        """Release its resources."""
        self._model.close()


# Consecutive failed requests after which grading stops, and replies of which none has a grade.
_GIVEN_UP = 8
_QUOTED_LENGTH = 80
# CG-Bench's limit of frames for a clue.
_CLUE_FRAMES = 32
# Settings of a judge that change how it is reached, but no grade.
_NO_MATTER = ("api_key_env", "concurrency", "timeout", "retries", "batch_size", "device_map")


@dataclass(frozen=True)
class JudgeConfig:
    """The settings of `videopro benchmarks judge`."""

    run: Path = field(metadata=setting("run folder to grade", positional=True))
    judge: str = field(metadata=setting("server:MODEL@URL, api:MODEL@URL, or any model that --model accepts"))
    max_new_tokens: int = option(4096, "maximum length of the judge's reply in tokens, with its thinking")
    backbone: dict[str, Any] = field(
        default_factory=dict,
        metadata=setting("settings of the judge, such as api_key_env=NAME concurrency=8"),
    )


def recorded_protocol(folder: RunFolder) -> Protocol:
    """The protocol of a run. Raises RunError or BenchmarkError."""
    identity = folder.recorded_identity() if folder.config.exists() else None
    if identity is None or not isinstance(identity.get("protocol"), dict):
        raise RunError(f"{folder.path}: is not a run folder; pass one that `videopro infer` wrote")
    return Protocol.from_identity(identity["protocol"])


def judge_run(config: JudgeConfig, *, load: Callable[..., Backbone] = load_backbone) -> dict[str, Any]:
    """Grade every answer of a run that has no grade yet, and rewrite its summary. Re-running the same command
    resumes. Raises VideoProError."""
    Sampling(config.max_new_tokens)  # raises ConfigError
    judge_config(config.judge, config.backbone)
    folder = RunFolder(config.run)
    protocol = recorded_protocol(folder)
    judge = protocol.judge
    if judge is None:
        name = (folder.recorded_identity() or {})["protocol"].get("benchmark")
        raise RunError(f"{folder.path}: benchmark {name!r} needs no judge; its summary is complete")
    traces = folder.read()
    recorded = _lines(folder.grades)
    graded = [line for line in recorded.values() if not why_ungraded(line, judge)]
    other_judges = {line["judge"] for line in graded} - {_name(config)}
    if other_judges:
        raise RunError(
            f"{folder.grades}: was graded by {sorted(other_judges)[0]!r}, not {_name(config)!r}; "
            "set --judge to the first, with its settings, or remove the file"
        )
    todo = [
        trace for trace in traces if _is_open(trace) and not _is_graded(trace, recorded, judge, _name(config))
    ]
    if todo:
        # What failed before comes last: it may fail again.
        todo.sort(key=lambda trace: trace.question_id in recorded)
        model = Judge(config.judge, config.backbone, config.max_new_tokens, load=load)
        try:
            _grade(todo, judge, model, config, folder)
        finally:
            model.close()
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
    """The grades by question id, without failed requests and replies that cannot be parsed."""
    if judge is None:
        return {}
    grades = {question: grade_of(line, judge) for question, line in _lines(path).items()}
    nothing = JudgeGrade(None, None)
    return {question: grade for question, grade in grades.items() if grade != nothing}


def _name(config: JudgeConfig) -> str:
    """The judge's name in the grades, with the settings that affect a grade."""
    settings = {key: value for key, value in config.backbone.items() if key not in _NO_MATTER}
    return f"{config.judge} {json.dumps(settings, sort_keys=True)}" if settings else config.judge


def _is_open(trace: Trace) -> bool:
    return trace.reference is not None and trace.final is not None


def _is_graded(
    trace: Trace, recorded: Mapping[str, Mapping[str, Any]], judge: JudgePrompt, name: str
) -> bool:
    """Whether this exact answer was graded, or this judge repeated a reply without a grade: an answer that
    was redone is graded again."""
    line = recorded.get(trace.question_id)
    if line is None or line["answer"] != _digest(trace):
        return False
    return not why_ungraded(line, judge) or (line["is_repeated"] and line["judge"] == name)


def _digest(trace: Trace) -> str:
    assert trace.final is not None
    return hashlib.sha256(trace.final.raw.encode()).hexdigest()[:16]


def _lines(path: Path) -> dict[str, dict[str, Any]]:
    """The last line of each question; a truncated last line, left by a killed process, is skipped, and lines
    that are not grades are set aside."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise RunError(
            f"{path}: cannot be read ({reason_of(error)}); restore it, or delete it to grade again"
        ) from error
    lines: dict[str, dict[str, Any]] = {}
    set_aside = SetAside(path, "their answers are graded again")
    complete = text.split("\n")[:-1]
    for number, line in enumerate(complete, start=1):
        try:
            content = parse_json(line)
            required = {key: content[key] for key in ("judge", "answer", "raw")}
            more = {key: content[key] for key in ("look", "cut_at", "error") if key in content}
            before = {**lines.get(content["question_id"], {}), "is_repeated": False}
            fields = {**required, **more, "is_repeated": False}
            fields["is_repeated"] = before == fields and not {"cut_at", "error"} & more.keys()
            lines[content["question_id"]] = fields
        except (ValueError, KeyError, TypeError) as error:
            set_aside.add(number, f"not a grade: {error}")
    set_aside.tell()
    return lines


def _judged(trace: Trace, judge: JudgePrompt, model: Judge, nearest_intact: float) -> dict[str, Any]:
    """What the judge replied, as grades.jsonl has it: "raw", "look" if it was shown the clue too, and the
    thoughts and the limit of the last reply. Raises BackboneError or VideoError."""
    assert trace.final is not None
    assert trace.reference is not None
    answer = shown_answer(trace.final.raw, judge)
    reply = model.reply(judge.fill(trace.question, trace.reference, answer), system=judge.system)
    fields = {"raw": reply.text}
    if reply.cut_at is None and needs_look(reply.text, judge):
        video = Video.open(trace.video.path, nearest_intact=nearest_intact)
        clue = [(interval[0], interval[1]) for interval in trace.evidence]
        budget = min(_CLUE_FRAMES, model.frames)
        frames = video.frames(clue_times(clue, video.duration, video.fps, budget))
        prompt = judge.fill_look(trace.question, answer, [frame.time for frame in frames])
        reply = model.reply(prompt, frames=frames)
        fields["look"] = reply.text
    more = {"thoughts": stored_thoughts(reply.thoughts), "cut_at": reply.cut_at}
    return fields | {name: value for name, value in more.items() if value}


def _grade(
    traces: Sequence[Trace], judge: JudgePrompt, model: Judge, config: JudgeConfig, folder: RunFolder
) -> None:
    """Request grades from the judge and append each reply as it arrives. Raises RunError if no request
    succeeds, or no reply has a grade."""
    nearest_intact = (folder.recorded_identity() or {})["generation"].get("nearest_intact", 0.0)

    def ask(trace: Trace) -> tuple[Trace, dict[str, Any]]:
        try:
            return trace, _judged(trace, judge, model, nearest_intact)
        except BackboneError as error:
            return trace, {"raw": "", "error": str(error)}
        except VideoError as error:
            return trace, {"raw": "", "error": f"the clue cannot be read: {error}"}

    failed, last = 0, ""
    ungraded: list[tuple[str, str, str]] = []
    # Whether to give up is decided between batches, so a batch is no smaller than that takes.
    step = max(model.threads, _GIVEN_UP)
    with JsonLinesLog(folder.grades) as grades, ThreadPoolExecutor(model.threads) as pool:
        for start in range(0, len(traces), step):
            batch = traces[start : start + step]
            for trace, fields in pool.map(ask, batch):
                line = {"judge": _name(config), "answer": _digest(trace), **fields}
                grades.append({"question_id": trace.question_id, **line})
                reason = why_ungraded(line, judge)
                failed = failed + 1 if "error" in fields else 0
                if reason:
                    last = _explained(reason, fields)
                    ungraded.append((trace.video.key, trace.question_id, last))
            done = start + len(batch)
            if failed >= min(_GIVEN_UP, len(traces)):
                raise RunError(
                    f"the last {failed} requests to the judge all failed ({last}); fix this and re-run the "
                    "same command to resume (existing grades are kept)"
                )
            if len(ungraded) == done >= _GIVEN_UP:
                raise RunError(
                    f"none of the judge's first {done} replies has a grade ({last}); raise --max-new-tokens "
                    "if they are cut off, or use another judge, and re-run"
                )
    if ungraded:
        print(
            f"{len(ungraded)} answers were not graded; re-run the same command to retry, with a higher "
            "--max-new-tokens if replies are cut off:",
            *failure_lines(ungraded, str(folder.grades)),
            sep="\n",
            file=sys.stderr,
        )


def _explained(reason: str, fields: Mapping[str, Any]) -> str:
    """Why an answer has no grade, with the reply of the judge or the server."""
    if "error" in fields:
        return str(fields["error"])
    quoted = printable(fields.get("look", fields["raw"]), _QUOTED_LENGTH)
    return f"{reason}: {quoted!r}" if quoted else reason
