"""Scores of questions that count together: Video-MME-v2's sets of four.

The scorer is `cal_relevance` and `cal_logic` of lmms_eval/tasks/videomme_v2/utils.py of
EvolvingLMMs-Lab/lmms-eval, commit 394a8e4. Its tables follow from one rule: the questions of level 1, 2, ...
of a chain weigh 1, 3, 5, ..., and count up to the first level that is not wholly right, whose right questions
still count. In a set without a chain, the share of right questions is squared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from videopro.benchmarks.protocol import Metric, counts
from videopro.traces import SetMember, Trace
from videopro.traces.scoring import QuestionScore


def mean_set_score(
    metric: Metric,
    scores: Sequence[QuestionScore],
    traces: Mapping[str, Trace],
    right: Callable[[QuestionScore], bool],
) -> tuple[float | None, int]:
    """The mean score of the sets, 0 to 1, and the number of their questions. A set counts if all its
    questions have a score, and belongs to the groups of its last question."""
    sets: dict[str, dict[int, tuple[QuestionScore, SetMember]]] = {}
    for score in scores:
        member = traces[score.question_id].member
        if member is not None:
            sets.setdefault(member.set, {})[member.place] = (score, member)
    values, questions = [], 0
    for members in sets.values():
        in_order = [members[position] for position in sorted(members)]
        last, member = in_order[-1]
        # A set with an unscored question has no score: the official one needs all four.
        if len(in_order) == member.size and counts(metric, last.groups):
            values.append(set_score([right(score) for score, _ in in_order], member.chain))
            questions += len(in_order)
    return (sum(values) / len(values) if values else None), questions


def set_score(right: Sequence[bool], chain: Sequence[int] = ()) -> float:
    """The score of one set, 0 to 1. `chain`: the numbers of questions on each of its levels, or empty.

    >>> set_score([True, True, False, True])
    0.5625
    >>> set_score([True, False, True, True], (1, 2, 1))  # 1 and 3 of 1 + 3 + 3 + 5
    0.3333333333333333
    """
    if not chain:
        return (sum(right) / len(right)) ** 2
    weights = [2 * level + 1 for level, count in enumerate(chain) for _ in range(count)]
    earned, start = 0, 0
    for level, count in enumerate(chain):
        hits = sum(right[start : start + count])
        earned += hits * (2 * level + 1)
        start += count
        if hits < count:
            break
    return earned / sum(weights)
