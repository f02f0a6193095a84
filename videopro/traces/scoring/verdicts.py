"""Score traces: whether the question was answered correctly, by our parser and by the official one;
and why a run has few answers: replies that the limit of tokens cut off, and replies that are no letter.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from videopro.errors import failure_lines
from videopro.question import NO_OPTION, OR
from videopro.traces.record import CUT_OFF, Trace
from videopro.traces.scoring.metrics import QuestionScore

# Errors that show without a program: no planner or agent brought them about, so such a question is left out
# of the accuracy and lowers the coverage. Every other error (a refused request, a crashed worker, an
# exception that an agent's own request may have caused) counts as a wrong answer.
INPUT_ERRORS = ("VideoError", "SubtitleError", "NativeError")
NO_RIGHT_OPTION = "no right option"
NO_KNOWN_ANSWER = "no known answer"


def score_trace(trace: Trace) -> QuestionScore:
    """The score of a question. A question without any reply is wrong, but not unparsed."""
    final = trace.final
    return QuestionScore(
        question_id=trace.question_id,
        video=trace.video.key,
        correct=final is not None and trace.is_right(final.letter),
        official_correct=None if trace.official is None else trace.gold in trace.official.split(OR),
        unparsed=final is not None and final.letter is None,
        confidence=final.confidence if final is not None else 0.0,
        groups=trace.groups,
    )


def records_of(traces: Sequence[Trace]) -> list[QuestionScore]:
    """The scores of the questions whose correct answer is known and among the options, and whose video could
    be read."""
    return official_records_of([trace for trace in traces if trace.gold != NO_OPTION])


def official_records_of(traces: Sequence[Trace]) -> list[QuestionScore]:
    """Like `records_of`, plus questions with no correct option, which official scorers count as wrong."""
    return [score_trace(trace) for trace in traces if trace.gold is not None and is_answerable(trace)]


def exclusions(traces: Sequence[Trace]) -> dict[str, int]:
    """How many questions the accuracy leaves out, by reason: the error of those that could not be answered,
    or that the benchmark gives no answer. Open questions have their own metrics."""
    return dict(Counter(reason for trace in traces if (reason := _left_out_for(trace))))


def _left_out_for(trace: Trace) -> str:
    if trace.error is not None and trace.error.type in INPUT_ERRORS:
        return trace.error.type
    if trace.gold == NO_OPTION:
        return NO_RIGHT_OPTION
    is_open = trace.reference is not None or not trace.choices
    return NO_KNOWN_ANSWER if trace.gold is None and not is_open else ""


def failures(traces: Sequence[Trace]) -> list[tuple[str, str, str]]:
    """The video, the id and the reason of each question that ended in an error, for `failure_lines`."""
    return [
        (trace.video.key, trace.question_id, trace.error.message.removeprefix(f"{trace.video.path}: "))
        for trace in traces
        if trace.error is not None
    ]


def failed_questions(runs: Mapping[str, Sequence[Trace]]) -> list[str]:
    """Lines on the questions of each run that ended in an error; runs with the same ones share them."""
    by_failures: dict[tuple[tuple[str, str, str], ...], list[str]] = {}
    for name, traces in runs.items():
        by_failures.setdefault(tuple(sorted(failures(traces))), []).append(name)
    lines: list[str] = []
    for failed, names in by_failures.items():
        if failed:
            lines.append(f"{', '.join(names)}: questions without an answer: {len(failed)}")
            lines += failure_lines(failed, "traces.jsonl of the run")
    return lines


def program_failures(traces: Sequence[Trace]) -> list[tuple[str, str, str]]:
    """The same of each question whose answer counts as missing because its program failed."""
    selected = ((trace, trace.rounds[trace.selected]) for trace in traces if trace.selected is not None)
    return [
        (trace.video.key, trace.question_id, f"{execution.error.type}: {execution.error.message}")
        for trace, round in selected
        if (execution := round.execution) is not None and execution.error is not None
    ]


def exclusions_text(counts: Mapping[str, int]) -> str:
    """Exclusions in words, such as "2 VideoError, 1 no right option"."""
    return ", ".join(f"{count} {reason}" for reason, count in counts.items())


def stand_ins(traces: Sequence[Trace]) -> dict[str, int]:
    """How many damaged frames an intact one stood in for, each once for a question that was shown it, and how
    many questions and videos that concerns; empty if none."""
    counts = {trace.question_id: len({each.wanted for each in trace.stand_ins}) for trace in traces}
    shown = [trace for trace in traces if counts[trace.question_id]]
    if not shown:
        return {}
    videos = {trace.video.key for trace in shown}
    return {"frames": sum(counts.values()), "questions": len(shown), "videos": len(videos)}


def stand_ins_text(counts: Mapping[str, int]) -> str:
    """These counts in words."""
    return "{frames} damaged frames (questions: {questions}, videos: {videos})".format(**counts)


def versions_used(traces: Sequence[Trace]) -> dict[str, dict[str, int]]:
    """How many questions each version of a library, of this package or of what is served has answered."""
    used: dict[str, Counter[str]] = {}
    for trace in traces:
        for name, version in trace.versions.items():
            used.setdefault(name, Counter())[version] += 1
    return {name: dict(counts) for name, counts in used.items()}


def mixed_versions(used: Mapping[str, Mapping[str, int]]) -> str:
    """Of `versions_used`, what answered in several versions: "torch 2.11.0 (7), 2.14.1 (5)", in brackets
    the questions. Empty if nothing did."""
    return "; ".join(
        f"{name} " + ", ".join(f"{version} ({count})" for version, count in counts.items())
        for name, counts in used.items()
        if len(counts) > 1
    )


def is_answerable(trace: Trace) -> bool:
    """Whether a method could have answered: no error shows without a program."""
    return trace.error is None or trace.error.type not in INPUT_ERRORS


# How many different replies are named.
_NAMED = 3
_LONGEST = 20


def cut_replies(traces: Sequence[Trace]) -> dict[str, dict[str, Any]]:
    """The replies that were cut off, by what they are: written "answers", "programs", and "steps" of agents;
    only kinds of which there are any. `unsaid`: those that ended before the model said anything, as while it
    was thinking; `limits`: the numbers of tokens that cut them off."""
    counts: dict[str, dict[str, Any]] = {}
    for trace in traces:
        # A question counts once, however many of its replies were cut.
        for kind in {kind for kind, _, _ in _cuts(trace)}:
            counts.setdefault(kind, {"questions": 0, "replies": 0, "unsaid": 0, "limits": set()})
            counts[kind]["questions"] += 1
        for kind, limit, is_unsaid in _cuts(trace):
            counts[kind]["replies"] += 1
            counts[kind]["unsaid"] += is_unsaid
            counts[kind]["limits"].add(limit)
    return {kind: {**counts[kind], "limits": sorted(counts[kind]["limits"])} for kind in sorted(counts)}


def _cuts(trace: Trace) -> Iterator[tuple[str, int, bool]]:
    """What was cut off, at how many tokens, and whether nothing was said."""
    for round in trace.rounds:
        if round.prompt_kind != "native" and (limit := re.search(r"\d+", round.notes.get(CUT_OFF, ""))):
            yield "programs", int(limit[0]), not round.raw.strip()
        if round.execution is None:
            continue
        answer = round.execution.answer
        if answer.cut_at is not None:
            yield "answers", answer.cut_at, not answer.raw.strip()
        for step in round.execution.steps:
            if step.cut_at is not None:
                yield "steps", step.cut_at, not step.raw.strip()


def other_first_tokens(traces: Sequence[Trace]) -> dict[str, int]:
    """The most frequent first tokens of replies that were to be one letter and are none."""
    tokens = Counter(
        trace.final.raw.strip()[:_LONGEST]
        for trace in traces
        if trace.final is not None and trace.final.letters and trace.final.letter is None
    )
    return dict(tokens.most_common(_NAMED))
