"""Export a run to the file formats of other harnesses: lmms-eval's per-sample JSONL, Inspect's eval log as
JSON.

Neither package needs to be installed. lmms-eval: one line per question, as its evaluation_tracker writes
and its baselines.loader reads them (EvolvingLMMs-Lab/lmms-eval 0.7.3); `doc_id` is the benchmark's own id.
Inspect: version 2 of the log of UKGovernmentBEIS/inspect_ai (0.3), for `inspect view` and `read_eval_log`. It
finds a log in a folder only if its name starts with a time and has the form TIME_TASK_ID.json
(inspect_ai/log/_file.py).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import videopro
from videopro.errors import RunError
from videopro.report.runs import ReportRun
from videopro.runs import RunFolder
from videopro.storage import write_atomically
from videopro.traces import Execution, Round, Step, Trace
from videopro.traces.scoring import shown_interval

SCORER = "videopro"


@dataclass(frozen=True)
class Export:
    """A run in another harness's format."""

    text: str
    questions: int
    name: str = ""
    """The required file name in the folder `--output`; "": `--output` is the file."""


def lmms_eval(run: ReportRun) -> Export:
    """A line for each question."""
    verdicts = _verdicts(run)
    lines = (json.dumps(_sample(trace, verdicts.get(trace.question_id))) for trace in run.own_traces)
    return Export("".join(f"{line}\n" for line in lines), len(run.traces))


def _read_answer(trace: Trace) -> str:
    """The parsed letter; for an open question, the words."""
    if trace.final is None:
        return ""
    return trace.final.letter or "" if trace.choices else trace.final.raw


def _sample(trace: Trace, verdict: bool | None) -> dict[str, Any]:
    final = trace.final
    doc = {"question": trace.question, "choices": list(trace.choices), "answer": trace.gold}
    sample: dict[str, Any] = {
        "doc_id": trace.question_id,
        # A question that is not scored has no target and no "score" key, so lmms-eval does not compare it.
        "target": trace.gold if verdict is not None else "",
        "resps": [[final.raw if final is not None else ""]],
        "filtered_resps": [_read_answer(trace)],
        "doc_hash": hashlib.sha256(json.dumps(doc, indent=2, ensure_ascii=False).encode()).hexdigest(),
        "input": _question_text(trace),
        "token_counts": [
            {"input_tokens": round(trace.cost.tokens_in), "output_tokens": round(trace.cost.tokens_out)}
        ],
        "confidence": final.confidence if final is not None else 0.0,
        "video": trace.video.key,
        "frames_seen": trace.frames_seen,
        **({"steps": len(trace.steps), "unparsed": _unparsed(trace)} if trace.steps else {}),
        **{f"group_{kind}": name for kind, name in trace.groups.items()},
    }
    if trace.reference is not None:
        sample["reference"] = trace.reference
    if verdict is not None:
        sample["videopro_score"] = float(verdict)
    return sample


def inspect(run: ReportRun) -> Export:
    """A log with a sample for each question.

    A run records no times of day. The log ends when the last trace was written, and starts earlier by the sum
    of the questions' times.
    """
    summary, verdicts = run.summary, _verdicts(run)
    ended = datetime.fromtimestamp(RunFolder(run.path).traces.stat().st_mtime, UTC).replace(microsecond=0)
    began = ended - timedelta(seconds=round(sum(trace.cost.seconds for trace in run.own_traces)))
    name = f"{run.dataset.benchmark}_{run.dataset.split}".strip("_")
    key = run.traces[0].run_key
    # Inspect counts a sample with an error as not completed.
    errors = sum(trace.error is not None for trace in run.traces)
    low, high = shown_interval(summary["accuracy_ci95"], summary["scored_videos"]) or (None, None)
    numbers = {"accuracy": summary["accuracy"], "ci95_low": low, "ci95_high": high}
    log = {
        "version": 2,
        "status": "success",
        "eval": {
            "eval_id": key,
            "run_id": key,
            "created": began.isoformat(),
            "task": name,
            # Logs of one task_id count as attempts at the same run.
            "task_id": key,
            "dataset": {
                "name": run.dataset.benchmark,
                "samples": len(run.traces),
                "sample_ids": [trace.question_id for trace in run.traces],
                "shuffled": False,
            },
            "model": run.model,
            "config": {},
            "packages": {"videopro": run.traces[0].versions.get("videopro", videopro.__version__)},
            "metadata": {"identity": dict(run.identity), "protocol_hash": run.dataset.protocol_hash},
        },
        "plan": {"name": run.method, "steps": [{"solver": run.method, "params": run.identity["method"]}]},
        "results": {
            "total_samples": len(run.traces),
            "completed_samples": len(run.traces) - errors,
            "scores": [
                {
                    "name": SCORER,
                    "scorer": SCORER,
                    "scored_samples": summary["n"],
                    "unscored_samples": len(run.traces) - summary["n"],
                    "params": {},
                    "metrics": {
                        metric: {"name": metric, "value": value}
                        for metric, value in numbers.items()
                        if value is not None
                    },
                }
            ],
        },
        "stats": {
            "started_at": began.isoformat(),
            "completed_at": ended.isoformat(),
            "model_usage": {run.model: _usage(run.own_traces)},
        },
        "samples": [
            _inspect_sample(run.model, trace, verdicts.get(trace.question_id)) for trace in run.own_traces
        ],
    }
    # Parts of the name are joined by underscores, so none has any inside.
    task = re.sub(r"[^\w.-]|_", "-", f"{name}-{run.name}")
    return Export(
        json.dumps(log, indent=1) + "\n",
        len(run.traces),
        f"{began:%Y-%m-%dT%H-%M-%S}+00-00_{task}_{key}.json",
    )


def _inspect_sample(model: str, trace: Trace, verdict: bool | None) -> dict[str, Any]:
    final = trace.final
    raw = final.raw if final is not None else ""
    sample: dict[str, Any] = {
        "id": trace.question_id,
        "epoch": 1,
        "input": _question_text(trace),
        "choices": list(trace.choices) or None,
        "target": trace.gold or trace.reference or "",
        "messages": list(_conversation(trace)),
        "output": {
            "model": model,
            "choices": [{"message": {"role": "assistant", "content": raw}, "stop_reason": "stop"}],
            "completion": raw,
            "usage": _usage((trace,)),
            "time": trace.cost.seconds,
        },
        "metadata": {
            "video": trace.video.key,
            "duration": trace.video.duration,
            "groups": dict(trace.groups),
            "confidence": final.confidence if final is not None else 0.0,
            "first": trace.first.letter if trace.first is not None else None,
            "refined": trace.refined,
            "mode": trace.rounds[0].mode if trace.rounds else None,
            "official": trace.official,
            "frames_seen": trace.frames_seen,
            "steps": len(trace.steps),
            "unparsed": _unparsed(trace),
            "notes": list(trace.notes),
            "prepared": [asdict(part) for part in trace.prepared],
        },
        "model_usage": {model: _usage((trace,))},
        "total_time": trace.cost.seconds,
        "working_time": trace.cost.seconds,
    }
    if verdict is not None:
        sample["scores"] = {
            SCORER: {
                "value": "C" if verdict else "I",
                "answer": final.letter if final is not None else None,
                "explanation": raw,
            }
        }
    if trace.error is not None:
        message = f"{trace.error.type}: {trace.error.message}"
        sample["error"] = {
            "message": message,
            "traceback": trace.error.log or message,
            "traceback_ansi": message,
        }
    return sample


def _verdicts(run: ReportRun) -> Mapping[str, bool]:
    return {record.question_id: record.correct for record in run.records}


def _question_text(trace: Trace) -> str:
    return "\n".join([trace.question, *trace.lettered_choices])


def _unparsed(trace: Trace) -> int:
    return sum(step.is_unparsed for step in trace.steps)


def _conversation(trace: Trace) -> Iterator[dict[str, Any]]:
    """The question, and each reply with the result of running its program, or each step of an agent, as a
    conversation."""
    yield {"role": "user", "content": _question_text(trace)}
    for attempt in trace.rounds:
        if attempt.execution is not None and attempt.execution.steps:
            for step in attempt.execution.steps:
                yield from _messages(step)
            continue
        yield {
            "role": "assistant",
            "content": fenced_reply(attempt),
            "metadata": {"reply": attempt.raw, "seconds": attempt.planning.seconds},
        }
        if attempt.program is not None and attempt.execution is not None:
            yield {"role": "user", "content": _outcome(attempt.execution)}


def fenced_reply(attempt: Round) -> str:
    """The reply with its program as fenced code. The tags around the program are removed, because they would
    be rendered as HTML."""
    if attempt.program is None:
        return attempt.raw
    # Longer than any run of backticks inside, as Markdown asks for.
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", attempt.program)), default=0))
    before, _, after = attempt.raw.partition(attempt.program)
    parts = (
        _TAGS.sub("", before).strip(),
        f"{fence}python\n{attempt.program}\n{fence}",
        _TAGS.sub("", after).strip(),
    )
    return "\n\n".join(part for part in parts if part)


_TAGS = re.compile(r"</?(?:planning|code)>")


def _messages(step: Step) -> Iterator[dict[str, Any]]:
    """A step: the prompt to a model, its reply and each repair; or the result of a tool."""
    about = {"step": step.kind, "model": step.model, "round": step.round, "reused": step.is_reused}
    if step.model:
        yield {"role": "user", "content": step.prompt, "metadata": about}
        # Each rejected reply has its fault; the last one has one only if it failed too.
        for reply, fault in zip((*step.rejected, step.raw), (*step.faults, ""), strict=False):
            yield {"role": "assistant", "content": reply, "model": step.model}
            if fault:
                yield {"role": "user", "content": f"could not be parsed: {fault}"}
    if not step.model or step.result:
        yield {"role": "tool", "function": step.kind, "content": step.result, "metadata": about}


def _outcome(execution: Execution) -> str:
    if execution.error is not None:
        return f"failed: {execution.error.type}: {execution.error.message}"
    if execution.status != "ok":
        return "no answer"
    answer = execution.answer.letter or " ".join(execution.answer.raw.split())
    return f"answer {answer}, confidence {execution.answer.confidence:.3f}"


def _usage(traces: tuple[Trace, ...]) -> dict[str, int]:
    read = round(sum(trace.cost.tokens_in for trace in traces))
    written = round(sum(trace.cost.tokens_out for trace in traces))
    return {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}


EXPORTS: Mapping[str, Callable[[ReportRun], Export]] = {"lmms-eval": lmms_eval, "inspect": inspect}


def write_export(output: Path, export: Export) -> Path:
    """Write an export atomically, to the file `output` or into that folder; returns the file. Raises
    RunError."""
    path = output / export.name if export.name else output
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, export.text)
    except OSError as error:
        raise RunError(f"{path}: cannot be written ({error.strerror}); set another --output") from error
    return path
