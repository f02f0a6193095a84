"""Grades answers in words against a reference text without a model: exact match and token F1.

Both are SQuAD's: case, punctuation, English articles and spacing do not count (`normalize_answer`,
`compute_exact` and `compute_f1` of evaluate-v2.0.py in github.com/rajpurkar/SQuAD-explorer, commit eee5fdbf;
Rajpurkar et al., 2016, 2018). They count words that are the same, not words that mean the same: a judge model
does that (`videopro benchmarks judge`). Spaces separate words, so for languages without spaces F1 is
exact match.
"""

from __future__ import annotations

import re
import string
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from videopro.traces.record import Trace
from videopro.traces.scoring.intervals import Interval, clustered_interval, mean_interval
from videopro.traces.scoring.metrics import grouped
from videopro.traces.scoring.verdicts import is_answerable

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalized_tokens(text: str) -> list[str]:
    """The words of a text that count: in lower case, without ASCII punctuation and English articles."""
    return _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split()


def exact_match(answer: str, reference: str) -> bool:
    """Whether two texts have the same words in the same order."""
    return normalized_tokens(answer) == normalized_tokens(reference)


def token_f1(answer: str, reference: str) -> float:
    """The harmonic mean of precision and recall of an answer's words, 0 to 1."""
    predicted, gold = normalized_tokens(answer), normalized_tokens(reference)
    # As in SQuAD's script: 1 if both are empty, 0 if one is.
    if not predicted or not gold:
        return float(predicted == gold)
    same = (Counter(predicted) & Counter(gold)).total()
    return 2 * same / (len(predicted) + len(gold))


@dataclass(frozen=True)
class OpenScore:
    """The score of an open question."""

    question_id: str
    video: str
    exact: bool
    f1: float
    """0 to 1."""
    is_answered: bool
    confidence: float
    """Eq. 2 over the answer's tokens, 0 to 1."""
    groups: Mapping[str, str] = field(default_factory=dict)


def open_scores(traces: Sequence[Trace]) -> list[OpenScore]:
    """The scores of the open questions that have a reference, and whose video could be read. A question
    without an answer is wrong."""
    return [
        _score(trace, trace.reference)
        for trace in traces
        if trace.reference is not None and not trace.choices and is_answerable(trace)
    ]


def _score(trace: Trace, reference: str) -> OpenScore:
    answer = trace.final.raw if trace.final is not None else ""
    is_answered = bool(answer.strip())
    return OpenScore(
        trace.question_id,
        trace.video.key,
        is_answered and exact_match(answer, reference),
        token_f1(answer, reference) if is_answered else 0.0,
        is_answered,
        trace.final.confidence if trace.final is not None else 0.0,
        trace.groups,
    )


@dataclass(frozen=True)
class OpenNumbers:
    """Exact match and token F1, with 95 % intervals clustered by video."""

    n: int
    """Number of questions."""
    videos: int
    exact_match: float
    exact_match_ci95: Interval
    f1: float
    f1_ci95: Interval


@dataclass(frozen=True)
class OpenMetrics(OpenNumbers):
    """Those of a run."""

    unanswered: float
    """The share of questions without an answer."""


def open_metrics(scores: Sequence[OpenScore], *, distinct: int | None = None) -> OpenMetrics | None:
    """The metrics of these questions; None without any. `distinct`: the number of different questions, if
    runs of several seeds answered each more than once."""
    if not scores:
        return None
    exact: dict[str, list[bool]] = defaultdict(list)
    f1: dict[str, list[float]] = defaultdict(list)
    for score in scores:
        exact[score.video].append(score.exact)
        f1[score.video].append(score.f1)
    n = len(scores)
    return OpenMetrics(
        n,
        len(exact),
        sum(score.exact for score in scores) / n,
        # A share, for which there is a better interval than for a mean.
        clustered_interval(exact, distinct=distinct),
        sum(score.f1 for score in scores) / n,
        mean_interval(f1, low=0.0, high=1.0),
        sum(not score.is_answered for score in scores) / n,
    )


def open_summary(traces: Sequence[Trace]) -> dict[str, Any]:
    """The metrics of a run's open questions, JSON-able, with those of each group; empty without any."""
    scores = open_scores(traces)
    overall = open_metrics(scores)
    if overall is None:
        return {}
    groups = {
        kind: {name: asdict(part) for name, members in parts.items() if (part := open_metrics(members))}
        for kind, parts in grouped(scores).items()
    }
    return {**asdict(overall), "groups": groups}


def open_difference(first: Sequence[OpenScore], second: Sequence[OpenScore]) -> OpenNumbers | None:
    """The numbers of the first of two runs minus those of the second, on the questions of both, with paired
    intervals; None without a common question."""
    by_id = {score.question_id: score for score in second}
    exact: dict[str, list[float]] = defaultdict(list)
    f1: dict[str, list[float]] = defaultdict(list)
    for score in first:
        other = by_id.get(score.question_id)
        if other is not None:
            exact[score.video].append(float(score.exact) - float(other.exact))
            f1[score.video].append(score.f1 - other.f1)
    n = sum(map(len, f1.values()))
    if not n:
        return None
    return OpenNumbers(
        n,
        len(f1),
        sum(map(sum, exact.values())) / n,
        mean_interval(exact, low=-1.0, high=1.0),
        sum(map(sum, f1.values())) / n,
        mean_interval(f1, low=-1.0, high=1.0),
    )
