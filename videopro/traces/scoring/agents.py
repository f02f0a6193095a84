"""What the agents of a run did, counted from its traces: steps, replies that could not be parsed, repairs,
forced answers; how near an explorer of segments comes to the annotated evidence (VCA's section 5.3 and Fig.
5); and how an agent of Deep Video Discovery behaved on a question: the five classes of its Fig. 3.

DVD's paper describes the classes in words (section 4.5). Where they leave a case open, this file decides:

- What counts is the order of the tool calls, also of those that failed. Requests to the language model and
  the answer are no tool calls.
- A trap is a run of more than three calls of one tool, with no other tool in between. If both tools have
  one, the longer counts, and of equal ones the first.
- Otherwise Global Browse is left out, since every class may begin with it. At most two calls of Clip Search,
  and after them at most two of Frame Inspect, are a simple action; anything more, or a return from
  inspection to search, is an iterative search.
- An agent that answers without any tool is in no class.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal, get_args

from videopro.traces.record import AGENT, FORCED, Trace
from videopro.traces.scoring.verdicts import records_of
from videopro.traces.steps import Segment, Step

ACT = "act"
"""The kind of a request for an agent's next action, which must be a call of a tool."""
# The fields of a letter read from the distribution over the next token, which needs no parsing.
_LETTER_FIELDS = {"letter", "confidence"}
NEEDS_MODEL = 0.5
"""If more than this share of its structured replies could not be parsed, an agent's model cannot follow its
prompts, and its accuracy says nothing about the method."""


@dataclass(frozen=True)
class Replies:
    """Structured replies of a run's models, and how they were read."""

    n: int
    repaired: int
    """Replies that could be parsed only after the model was shown its error."""
    unparsed: int
    """Those that could not be parsed, even after that, and those of a conversation with tools without any
    call: the same reply as text does not fit the schema of a call."""

    @property
    def needs_model(self) -> bool:
        """Whether the method needs another language model; see NEEDS_MODEL."""
        return self.n > 0 and self.unparsed / self.n > NEEDS_MODEL


def replies_of(steps: Sequence[Step]) -> Replies:
    """Count the structured replies among steps. A reused reply counts each time."""
    structured = [step for step in steps if _is_structured(step)]
    return Replies(
        len(structured),
        sum(bool(step.rejected) and not _is_unparsed(step) for step in structured),
        sum(map(_is_unparsed, structured)),
    )


def lack_of_model(traces: Sequence[Trace]) -> str:
    """Why an agent's accuracy says nothing about its method: its model cannot follow its prompts, or could
    not be asked at all; "" if neither is so. To be shown instead of the accuracy."""
    replies = replies_of([step for trace in traces for step in trace.steps])
    if replies.needs_model:
        return f"needs a language model: {replies.unparsed} of {replies.n} replies could not be parsed"
    # Such a model wrote no reply that could fail to be parsed.
    refused = sum(trace.error is not None and trace.error.type == "BackboneError" for trace in traces)
    if refused and refused == len(traces):
        return f"needs a language model: the model refused {refused} of {refused} questions"
    return ""


def is_agent(trace: Trace) -> bool:
    """Whether an agent answered, or tried to."""
    return any(round.prompt_kind == AGENT for round in trace.rounds)


def is_forced(trace: Trace) -> bool:
    """Whether the agent was forced to answer: it reached its last round or step, or spent a budget."""
    return any(FORCED in note for note in trace.notes)


def mean_frames_seen(traces: Sequence[Trace]) -> float | None:
    """Different moments of the video that a question's calls and steps looked at, as a mean over questions;
    None without questions."""
    return sum(trace.frames_seen for trace in traces) / len(traces) if traces else None


def agent_metrics(traces: Sequence[Trace]) -> dict[str, Any]:
    """JSON-able counts over the questions that an agent worked on; empty if there are none.

    `steps` and `reused` are means per question; `replies`, `by_kind`, `unanswered` and `forced` are counts. A
    question is unanswered if it ended without an error and without an answer.
    """
    by_agents = [trace for trace in traces if is_agent(trace)]
    if not by_agents:
        return {}
    steps = [step for trace in by_agents for step in trace.steps]
    replies = replies_of(steps)
    by_kind = Counter(step.kind for step in steps)
    return {
        "questions": len(by_agents),
        "steps": len(steps) / len(by_agents),
        "reused": sum(step.is_reused for step in steps) / len(by_agents),
        "replies": {
            "structured": replies.n,
            "repaired": replies.repaired,
            "unparsed": replies.unparsed,
            "questions_with_unparsed": sum(any(map(_is_unparsed, trace.steps)) for trace in by_agents),
        },
        "by_kind": {
            kind: {
                "n": by_kind[kind],
                "repaired": (counts := replies_of([step for step in steps if step.kind == kind])).repaired,
                "unparsed": counts.unparsed,
            }
            for kind in sorted(by_kind)
        },
        "unanswered": sum(_is_unanswered(trace) for trace in by_agents),
        "forced": sum(is_forced(trace) for trace in by_agents),
    }


def _is_structured(step: Step) -> bool:
    return _is_unparsed(step) or (
        step.parsed is not None and bool(step.model) and set(step.parsed) != _LETTER_FIELDS
    )


def _is_unparsed(step: Step) -> bool:
    return step.is_unparsed or (step.kind == ACT and bool(step.model) and step.parsed is None)


def _is_unanswered(trace: Trace) -> bool:
    if trace.error is not None or trace.final is None:
        return False
    return trace.final.letter is None if trace.choices else not trace.final.raw.strip()


Behaviour = Literal[
    "global_browse_only", "simple_action", "iterative_search", "frame_inspect_trap", "clip_search_trap"
]
BEHAVIOURS: tuple[Behaviour, ...] = get_args(Behaviour)
"""In the paper's order."""

_TRAPS: dict[str, Behaviour] = {
    "frame_inspect": "frame_inspect_trap",
    "clip_search": "clip_search_trap",
}
_TOOLS = ("global_browse", *_TRAPS)
_LONGEST_RUN = 3
_LONGEST_SIMPLE = 2


@dataclass(frozen=True)
class BehaviourRow:
    """A class of behaviour in a run: one sector of Fig. 3."""

    behaviour: Behaviour | None
    """None: questions that were answered without any tool."""
    questions: int
    ratio: float
    """Its share of the questions, 0..1."""
    steps: float
    """Mean number of reasoning steps: requests for the next action. A forced answer does not count."""
    accuracy: float | None
    """0..1, of its questions with a known answer; None if it has none."""


def behaviour(steps: Iterable[Step]) -> Behaviour | None:
    """The class of one question; None if no tool was called."""
    calls = [step.kind for step in steps if step.kind in _TOOLS]
    if not calls:
        return None
    if calls == ["global_browse"]:
        return "global_browse_only"
    runs = [(tool, len(list(same))) for tool, same in groupby(calls)]
    traps = [run for run in runs if run[0] in _TRAPS and run[1] > _LONGEST_RUN]
    if traps:
        return _TRAPS[max(traps, key=lambda run: run[1])[0]]
    searches = [call for call in calls if call != "global_browse"]
    is_short = all(searches.count(tool) <= _LONGEST_SIMPLE for tool in _TRAPS)
    # In the order of the alphabet, every search comes before every inspection.
    return "simple_action" if is_short and searches == sorted(searches) else "iterative_search"


def behaviour_rows(traces: Iterable[Trace]) -> list[BehaviourRow]:
    """Fig. 3 of a run: a row for each class that occurs, in the paper's order, over the questions that have
    steps and no error."""
    answered = [trace for trace in traces if trace.error is None and trace.steps]
    groups = {name: [t for t in answered if behaviour(t.steps) == name] for name in (*BEHAVIOURS, None)}
    return [_row(name, members, len(answered)) for name, members in groups.items() if members]


def _row(name: Behaviour | None, members: Sequence[Trace], total: int) -> BehaviourRow:
    steps = sum(step.kind == ACT for trace in members for step in trace.steps)
    scores = [score.correct for score in records_of(members)]
    accuracy = sum(scores) / len(scores) if scores else None
    return BehaviourRow(name, len(members), len(members) / total, steps / len(members), accuracy)


# The kind of steps that split a segment and score its parts, and of those that choose one.
_SPLIT, _CHOICE = "reward", "explore"


@dataclass(frozen=True)
class SegmentChoice:
    """A segment that an agent chose to explore, against the evidence.

    A distance counts segments in order of time among the leaves of the tree at that moment, which tile the
    video: 0 for a segment that overlaps the evidence, 2 for the second one after it, -1 for the last one
    before it.
    """

    round: int
    chosen: str
    """The name of the segment."""
    distance: int
    greedy: str | None
    """The leaf with the highest score, the earliest among equals; None if no leaf has a score."""
    greedy_distance: int | None


def segment_choices(trace: Trace) -> list[SegmentChoice]:
    """Every choice of a segment in the trace, in order; empty if the trace has no steps of this kind, or if
    no evidence within its video is annotated.

    Fig. 5 does not say at which choices it measures; this takes all of them.
    """
    choices = []
    leaves: dict[str, Segment] = {}
    for step in trace.steps:
        if step.kind == _SPLIT and step.segments:
            # Its parts replace a segment among the leaves.
            leaves.pop(step.segments[0].parent, None)
            leaves.update({segment.name: segment for segment in step.segments})
        elif step.kind == _CHOICE and step.segments:
            choice = _choice(step, sorted(leaves.values(), key=lambda leaf: leaf.start), trace.evidence)
            if choice is not None:
                choices.append(choice)
    return choices


def _choice(
    step: Step, leaves: Sequence[Segment], evidence: Sequence[tuple[float, ...]]
) -> SegmentChoice | None:
    marked = [index for index, leaf in enumerate(leaves) if any(_overlaps(leaf, *span) for span in evidence)]
    if not marked:
        return None
    order = {leaf.name: index for index, leaf in enumerate(leaves)}

    def distance(name: str) -> int:
        # Equally near on both sides: it counts as before the evidence.
        return min((order[name] - index for index in marked), key=lambda gap: (abs(gap), gap))

    chosen = step.segments[0].name
    scored = [(leaf.score, leaf.name) for leaf in leaves if leaf.score is not None]
    greedy = max(scored, key=lambda pair: pair[0])[1] if scored else None
    return SegmentChoice(
        step.round, chosen, distance(chosen), greedy, None if greedy is None else distance(greedy)
    )


def _overlaps(leaf: Segment, start: float, end: float) -> bool:
    """Whether they share some time; evidence of no length is a moment."""
    if start == end:
        return leaf.start <= start <= leaf.end
    return leaf.start < end and start < leaf.end
