"""Exchanges that teach VCA's prompts: the scores of segments, the choice of one, and the answer.

The states are those of searches by a teacher (`VcaTeacher`) through the method's own tree, buffer and
prompts. Some of the search's choices are random, so that going back to an older segment is learned. Questions
about one video that have the same frames before them share a row, and so their encoding.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from videopro.methods.agents import spread
from videopro.methods.vca import MemoryBuffer, Node, Tree, borders, explore_prompt, reward_prompt
from videopro.pocket.questions import generate_questions
from videopro.question import prompts
from videopro.train.pocket.agents.views import DrawnVideo
from videopro.train.pocket.agents.witness import SPOKEN, WHOLE_VIDEO, Witness
from videopro.train.pocket.qa_pairs import PocketExample, Rng

BORDERS, BUFFERS, SHORTEST = 6, (16, 16, 16, 8, 8, 4), 1.0
"""Settings of the method. Buffers are those of the preset "equal" at the budgets that methods are compared
at, and the paper's; a call shows no more frames than the buffer holds."""

HIDDEN, BESIDE, WITHIN = 10, 80, 100
"""Scores of a segment of whose end frames none, one, or all show the place that the question names."""
FINE = 12.0
"""Seconds: few scenes are shorter, so that shorter segments hide hardly any."""
ROUNDS = (0.35, 0.3, 0.2, 0.15)
"""Shares of the states after one to four rounds; the more rounds, the longer the prompts."""
COUNT_ROUNDS = 4
"""Rounds after which a count is given from what was seen."""


@dataclass
class VcaTeacher:
    """Searches for one question, and knows the right reply in every state.

    It scores what the frames at a segment's ends show, never what lies unseen between them. It leaves out the
    texts: an adapter that was taught to name the places named the same ones whatever it saw. If a frame shows
    the place but the buffer does not show the answer, the segment beside it is next; until then, the parts of
    the whole video in order. It answers when the buffer shows the answer, or when no part is left.
    """

    witness: Witness
    size: int
    """Of the buffer."""
    tree: Tree = field(init=False)
    buffer: MemoryBuffer = field(init=False)
    explored: list[Node] = field(default_factory=list)
    last: list[Node] = field(default_factory=list)
    """The segments of the last split."""
    rounds: int = 0

    def __post_init__(self) -> None:
        self.tree, self.buffer = Tree(self.witness.video.duration, SHORTEST), MemoryBuffer(self.size)

    def explore(self, node: Node | None) -> None:
        """One round: split a segment (None: the whole video), score its parts, keep the best frames."""
        self.last = self.tree.split(node, spread(self.tree.even_borders(node, BORDERS), self.size))
        if node is not None:
            self.explored.append(node)
        for number, part in enumerate(self.last):
            ends = borders(self.last)[max(0, number - 1) : number + 1]
            end_places = [self.witness.video.scene_at(time).place for time in ends]
            part.score = float(self._score(end_places))
        self.buffer.update(borders(self.last), self.tree.relevance_at)
        self.rounds += 1

    def _score(self, end_places: Sequence[str]) -> int:
        kind = self.witness.labelled.kind
        if kind in WHOLE_VIDEO or kind in SPOKEN:
            return WITHIN if kind in WHOLE_VIDEO else 0
        seen = end_places.count(self.witness.place)
        return HIDDEN if seen == 0 else WITHIN if seen == len(end_places) else BESIDE

    def sees_some(self) -> bool:
        """Whether the parts of the last split differ in what they show of the place."""
        return len({part.score for part in self.last}) > 1

    def has_seen_enough(self) -> bool:
        """Whether the buffer shows the answer, or no frame can."""
        kind = self.witness.labelled.kind
        if kind in WHOLE_VIDEO or kind in SPOKEN:
            return True
        if kind == "count":
            return self.rounds >= COUNT_ROUNDS or not self._coarse()
        return self.witness.is_answerable(self.buffer.times)

    def _coarse(self) -> list[Node]:
        """Open parts of the whole video that may hide a scene."""
        parts = self.tree.candidates
        return [node for node in parts if not node.parent and node.end - node.start > FINE]

    def next_segment(self) -> Node | None:
        """The segment to explore; None: answer."""
        if self.has_seen_enough():
            return None
        kind = self.witness.labelled.kind
        near = [node for node in self.tree.candidates if (node.score or 0) >= BESIDE]
        if near and kind == "after":
            return near[-1]
        if near and kind == "before":
            return near[0]
        if near and kind != "count":
            return max(near, key=lambda node: (node.score or 0, -node.start))
        return next(iter(self._coarse()), None)

    def reward_pair(self) -> tuple[str, str]:
        """The request for the scores of the last split, and its reply."""
        history = self.tree.nodes[: self.last[0].number]
        reply = {str(node.number): {"score": int(node.score or 0)} for node in self.last}
        return reward_prompt(self.witness.question, self.last, history), json.dumps(reply)

    def explore_pair(self) -> tuple[str, str]:
        """The request for a segment or the answer, and its reply."""
        node = self.next_segment()
        reply = {"answer": self.witness.labelled.answer} if node is None else {"segment": node.number}
        request = explore_prompt(self.witness.question, self.tree.candidates, self.explored)
        return request, json.dumps(reply)

    def answer_pair(self) -> tuple[str, str]:
        """The request for a forced answer, and the right letter."""
        return prompts.multiple_choice(self.witness.question), self.witness.labelled.answer


def search_rows(rng: Rng, noise: float = 0.2, segments: int = 10) -> list[PocketExample]:
    """The exchanges in one state of a search through a random video: the scores of its last split, the
    choice, and the answer. `noise`: the share of random choices. `segments`: how many rounds' segments the
    prompts of a row list, all questions together."""
    video = DrawnVideo(int(rng.integers(1_000_000)))
    drawn = generate_questions(video.script, draw=int(rng.integers(6)))
    # Questions that any frame or none answers leave little to search for.
    shares = np.array([0.35 if question.kind in (*WHOLE_VIDEO, *SPOKEN) else 1.0 for question in drawn])
    order = rng.choice(len(drawn), len(drawn), replace=False, p=shares / shares.sum())
    witnesses = [Witness(video, drawn[int(index)]) for index in order]
    lead = VcaTeacher(witnesses[0], int(rng.choice(BUFFERS)))
    lead.explore(None)
    stop = int(rng.choice([1, 2, 3, 4], p=ROUNDS))
    while lead.rounds < stop:
        candidates, node = lead.tree.candidates, lead.next_segment()
        if rng.random() < noise:
            node = candidates[int(rng.integers(len(candidates)))]
        if node is None:
            break
        lead.explore(node)
    path = [node.number for node in lead.explored]
    most = max(1, segments // (1 + lead.rounds))
    pupils = [lead, *(same_path(witness, lead.size, path) for witness in witnesses[1 : 2 * most + 2])]
    alike = [pupil for pupil in pupils if pupil.buffer.times == lead.buffer.times][: most + 1]
    answers = [
        p.answer_pair() for p in alike if p.has_seen_enough() and p.witness.labelled.kind not in SPOKEN
    ]
    # Most segments show nothing of most questions: those come first of which some frame shows the place.
    telling = sorted(pupils, key=lambda pupil: not pupil.sees_some())[:most]
    rows = [
        _row(rng, video, borders(lead.last), [pupil.reward_pair() for pupil in telling]),
        _row(rng, video, lead.buffer.times, [pupil.explore_pair() for pupil in alike]),
    ]
    return [*rows, _row(rng, video, lead.buffer.times, answers)] if answers else rows


def same_path(witness: Witness, size: int, path: Sequence[int]) -> VcaTeacher:
    """The state of a question's search after the segments of these numbers."""
    pupil = VcaTeacher(witness, size)
    pupil.explore(None)
    for number in path:
        pupil.explore(pupil.tree.nodes[number])
    return pupil


def _row(
    rng: Rng, video: DrawnVideo, times: Sequence[float], pairs: Sequence[tuple[str, str]]
) -> PocketExample:
    # Each frame twice: that is how Qwen encodes an image, and the method shows `Stills`.
    frames = video.frames(times, int(rng.integers(18, 25))).repeat(2, axis=0)
    return PocketExample(list(pairs), frames, [time for time in times for _ in range(2)])
