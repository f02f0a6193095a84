"""Exchanges that teach VCA's prompts: searches by a teacher that knows the video, through the method's own
tree, buffer and prompts.

The teacher scores only what the frames can tell: a segment is worth 90 if a frame at its ends shows what the
question is about, 10 if no new frame shows it, else 0. Its explanation names the places at the ends. It
explores the best open segment until the buffer shows the answer; where looking cannot help (what is only
spoken), it answers at once. Some of its choices are random, so that going back to an older segment is
learned.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from videopro import prompts
from videopro.methods.vca import MemoryBuffer, Node, Tree, borders, explore_prompt, reward_prompt
from videopro.pocket.questions import PocketQuestion, generate_questions
from videopro.question import Question
from videopro.train.pocket.agents.views import DrawnVideo
from videopro.train.pocket.qa_pairs import PocketExample, Rng

BORDERS, BUFFERS, SHORTEST = 6, (8, 8, 16), 1.0
SHOWN, UNSEEN, SURELY_NOT = 90, 10, 0
# Kinds whose answer a frame of the evidence shows, and how many such frames are needed.
_LOOKS = {"color": 1, "shape": 1, "move": 3, "sign": 2, "before": 3, "after": 3}
# Rounds after which the teacher answers anyway.
_ROUNDS = 4


@dataclass(frozen=True)
class Teacher:
    """Knows where the evidence of a question lies."""

    video: DrawnVideo
    asked: PocketQuestion

    def shows(self, time: float) -> bool:
        """Whether the frame at a time (s) shows what the question is about."""
        if self.asked.kind not in _LOOKS:
            return False
        return any(start <= time < end for start, end in self.asked.evidence)

    def is_answered(self, times: Sequence[float]) -> bool:
        """Whether frames at these times show the answer, or no frame can."""
        needed = _LOOKS.get(self.asked.kind, 0)
        return sum(self.shows(time) for time in times) >= needed

    def score(self, children: Sequence[Node]) -> None:
        """Score sibling segments by the frames between them, and explain by the places that they show."""
        times = borders(children)
        seen = any(self.shows(time) for time in times)
        for place, child in enumerate(children):
            ends = times[max(0, place - 1) : place + 1]
            child.text = " to ".join(self.video.scene_at(time).place for time in ends)
            if any(self.shows(time) for time in ends):
                child.score = SHOWN
            else:
                child.score = SURELY_NOT if seen else UNSEEN


def search_rows(rng: Rng, noise: float = 0.2) -> list[PocketExample]:
    """The exchanges of one search about a random question of a random video. `noise`: the share of random
    choices."""
    video = DrawnVideo(int(rng.integers(1_000_000)))
    drawn = generate_questions(video.script, draw=int(rng.integers(6)))
    weights = np.array([3.0 if question.kind in _LOOKS else 1.0 for question in drawn])
    asked = drawn[int(rng.choice(len(drawn), p=weights / weights.sum()))]
    question = Question(asked.text, asked.choices)
    teacher = Teacher(video, asked)
    tree, buffer = Tree(video.duration, SHORTEST), MemoryBuffer(int(rng.choice(BUFFERS)))
    rows: list[PocketExample] = []
    explored: list[Node] = []
    chosen: Node | None = None
    for round in range(_ROUNDS):
        children = tree.split(chosen, BORDERS)
        history = [node for node in tree.nodes if node not in children]
        prompt = reward_prompt(question, children, history)
        teacher.score(children)
        times = borders(children)
        rows.append(_example(video, times, [(prompt, _scores(children))], rng))
        buffer.update(times, tree.relevance_at)
        kept = buffer.times
        candidates = tree.candidates
        if not candidates:
            break
        ends = teacher.is_answered(kept) or round == _ROUNDS - 1
        chosen = None if ends else _choice(rng, candidates, noise)
        action = {"answer": asked.answer} if chosen is None else {"segment": chosen.number}
        pairs = [(explore_prompt(question, candidates, explored), json.dumps(action))]
        if chosen is None:
            # The forced answer, which a budget may ask for at any time.
            pairs.append((prompts.multiple_choice(question), asked.answer))
        rows.append(_example(video, kept, pairs, rng))
        if chosen is None:
            break
        explored.append(chosen)
    return rows


def _choice(rng: Rng, candidates: Sequence[Node], noise: float) -> Node:
    """The open segment of the highest score (of equal ones the longest, then the first), or any one."""
    if rng.random() < noise:
        return candidates[int(rng.integers(len(candidates)))]
    return max(candidates, key=lambda node: (node.score or 0.0, round(node.end - node.start, 3), -node.start))


def _scores(children: Sequence[Node]) -> str:
    return json.dumps({str(c.number): {"why": c.text, "score": int(c.score or 0)} for c in children})


def _example(
    video: DrawnVideo, times: Sequence[float], pairs: Sequence[tuple[str, str]], rng: Rng
) -> PocketExample:
    # Qwen's video processor repeats the last of an odd number of frames.
    even = [*times, *times[-1:]] if len(times) % 2 else list(times)
    return PocketExample(list(pairs), video.frames(even, int(rng.integers(18, 25))), even)
