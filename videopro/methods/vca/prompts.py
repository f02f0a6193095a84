"""The prompts of VCA, in our words (the counterparts of its Figs. 6 to 8). Frames come before the text."""

from __future__ import annotations

from collections.abc import Sequence

from videopro.methods.vca.tree import Node
from videopro.question import Question


def reward(question: Question, children: Sequence[Node], history: Sequence[Node]) -> str:
    """Ask the reward model to score new segments, given the scores of earlier ones (Figs. 6 and 7)."""
    parts = [
        "Score parts of a video: how much does each help to answer the question?",
        _asked(question),
    ]
    if history:
        parts.append("Scored before:\n" + "\n".join(_scored(node) for node in history))
    listed = "\n".join(_line(node) for node in children)
    first = children[0].number
    parts.append(
        f"The frames are the borders between these new segments:\n{listed}\n"
        "Infer what happens inside a segment from the frames at its ends. Reply with a JSON object: for each "
        "new segment a short explanation and a score from 0 (no help) to 100 (it shows the answer), on the "
        f'scale of the earlier scores, as in {{"{first}": {{"explanation": "...", "score": 0}}, ...}}'
    )
    return "\n".join(parts)


def explore(question: Question, candidates: Sequence[Node], explored: Sequence[Node]) -> str:
    """Ask the agent for a segment to look into, or for its answer (Fig. 8)."""
    parts = ["You look for the answer to a question in a video, one segment at a time.", _asked(question)]
    if explored:
        parts.append("Looked into: " + ", ".join(str(node.number) for node in explored))
    parts.append("Segments to look into, with their scores:\n" + "\n".join(map(_candidate, candidates)))
    parts.append(
        "The frames are what you have kept. If they show the answer, reply with it, as in "
        f"{_answer_form(question)}. If not, choose the segment to look into next, not always the one of the "
        f'highest score, as in {{"segment": {candidates[0].number}}}. Reply with the JSON object only.'
    )
    return "\n".join(parts)


def look(question: Question, duration: float, seen: Sequence[float], count: int) -> str:
    """Ask the agent for moments to look at, or for its answer (the ablation without tree search)."""
    times = ", ".join(f"{time:.1f}" for time in seen)
    return (
        "You look for the answer to a question in a video, a few frames at a time.\n"
        f"{_asked(question)}\n"
        f"The video lasts {duration:.1f} seconds. Looked at, in seconds: {times}\n"
        "The frames are what you have kept. If they show the answer, reply with it, as in "
        f"{_answer_form(question)}. If not, choose up to {count} other moments in seconds, as in "
        '{"times": [1.5, 20.0]}. Reply with the JSON object only.'
    )


def _asked(question: Question) -> str:
    return "\n".join(part for part in (f"Question: {question.text}", question.lettered_choices()) if part)


def _answer_form(question: Question) -> str:
    return '{"answer": "a few words"}' if question.is_open else '{"answer": "A"}'


def _line(node: Node) -> str:
    return f"Segment {node.number}: {node.start:.1f}-{node.end:.1f} s"


def _scored(node: Node) -> str:
    score = "no score" if node.score is None else f"{node.score:.0f}"
    return f"{_line(node)}, {score}{f': {node.text}' if node.text else ''}"


def _candidate(node: Node) -> str:
    return _line(node) if node.score is None else f"{_line(node)}, {node.score:.0f}"
