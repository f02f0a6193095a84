"""VCA on one question: Algorithm 1 of the paper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeAlias

from videopro import prompts as shared_prompts
from videopro.methods.agents import AgentRun, Conclusion, Prepared, Session
from videopro.methods.vca import prompts
from videopro.methods.vca.replies import Action, Scores, action_of, scores_of
from videopro.methods.vca.rewards import evidence_scores
from videopro.methods.vca.settings import VcaSettings
from videopro.methods.vca.tree import MemoryBuffer, Node, Tree, borders, relevances
from videopro.question import Answer
from videopro.traces import Segment
from videopro.video import Frame, uniform_times

LLM = "llm"
ScoreFrames: TypeAlias = Callable[[str, Sequence[Frame]], list[float]]
"""Scores frames (0 to 100) by their similarity to a text."""


class VcaRun(AgentRun):
    """Explores the tree of segments until the agent answers."""

    def __init__(
        self, session: Session, prepared: Prepared, settings: VcaSettings, score_frames: ScoreFrames | None
    ) -> None:
        super().__init__(session, prepared)
        self._settings = settings
        self._score_frames = score_frames
        duration = session.video.duration
        most = session.models[LLM].frames
        self._tree = Tree(duration, settings.shortest)
        self._buffer = MemoryBuffer(settings.buffer_size(duration, most))
        self._explored: list[Node] = []

    def run(self) -> Conclusion:
        return self._search_tree() if self._settings.tree_search else self._search_moments()

    def conclude(self) -> Conclusion:
        """The forced answer, from the frames in the buffer."""
        session, question = self.session, self.session.question
        times = self._buffer.times or uniform_times(0.0, session.video.duration, self._settings.borders)
        frames = session.frames(times, LLM)
        if question.is_open:
            text = session.tell("answer", LLM, shared_prompts.open_ended(question.text), frames=frames)
            return Conclusion(Answer(raw=text))
        prompt = shared_prompts.multiple_choice(question)
        return Conclusion(session.choose("answer", LLM, prompt, frames=frames))

    # ---- Algorithm 1 -------------------------------------------------------------------------------------

    def _search_tree(self) -> Conclusion:
        chosen: Node | None = None
        for round in range(self._settings.max_rounds):
            children = self._tree.split(chosen, self._settings.borders)
            frames = self.session.frames(borders(children), LLM)
            self._score(children, frames, round)
            discarded = self._remember(frames, children)
            candidates = self._tree.candidates
            if not candidates:
                break
            action = self._act(candidates, round, discarded)
            if action is None or action.segment is None:
                return self._answered(action)
            chosen = self._tree.find(action.segment)
            self._explored.append(chosen)
        self.session.note("no further segment or round: the answer was forced")
        return self.conclude()

    def _score(self, children: list[Node], frames: list[Frame], round: int) -> None:
        """The reward model scores the new segments, given the history of scores."""
        question = self.session.question
        if self._settings.reward == "model":
            history = [node for node in self._tree.nodes if node not in children]
            self.session.ask(
                "reward",
                LLM,
                prompts.reward(question, children, history),
                schema=scores_of([child.number for child in children]),
                frames=frames,
                round=round,
                found=lambda scores: _scored(children, scores),
            )
            return
        scores: list[float] | None = None
        if self._settings.reward == "image":
            assert self._score_frames is not None
            ends = self._score_frames(question.text, frames)
            # The first and the last segment of the video have one end frame each.
            scores = [(first + last) / 2 for first, last in pairwise([ends[0], *ends, ends[-1]])]
        elif self._settings.reward == "evidence":
            spans = [(child.start, child.end) for child in children]
            scores = evidence_scores(spans, self.session.evidence)
        if scores is not None:
            for child, score in zip(children, scores, strict=True):
                child.score = score
        self.session.tool(
            "reward",
            args={"reward": self._settings.reward},
            result="",
            frames=frames,
            segments=[child.record for child in children],
            round=round,
        )

    def _remember(self, frames: Sequence[Frame], children: Sequence[Node]) -> list[float]:
        """Update the memory buffer. Returns the moments that it discards."""
        relevance = dict(zip(borders(children), relevances(children), strict=True))
        # The budget may have left out some of the borders.
        moments = sorted(relevance)
        shown = [min(moments, key=lambda moment: abs(moment - frame.time)) for frame in frames]
        return self._buffer.add(shown, [relevance[moment] for moment in shown])

    def _act(self, candidates: Sequence[Node], round: int, discarded: Sequence[float]) -> Action | None:
        """The agent answers, or chooses any open segment; None: its reply could not be parsed."""
        question = self.session.question
        reply = self.session.ask(
            "explore",
            LLM,
            prompts.explore(question, candidates, self._explored),
            schema=action_of(question.letters, segments=[node.number for node in candidates]),
            frames=self.session.frames(self._buffer.times, LLM),
            round=round,
            args={"discarded": [_short(time) for time in discarded]},
            found=self._chosen,
        )
        return reply.parsed

    def _chosen(self, action: Action | None) -> Sequence[Segment]:
        if action is None or action.segment is None:
            return ()
        return (self._tree.find(action.segment).record,)

    def _answered(self, action: Action | None) -> Conclusion:
        raw = self.session.steps[-1].raw
        if action is None or action.answer is None:
            return Conclusion(Answer(raw=raw))
        if self.session.question.is_open:
            return Conclusion(Answer(raw=action.answer))
        return Conclusion(Answer(action.answer, raw=action.answer))

    # ---- without tree search (Table 3) ---------------------------------------------------------------------

    def _search_moments(self) -> Conclusion:
        session, count = self.session, self._settings.borders
        duration = session.video.duration
        times = uniform_times(0.0, duration, count)
        seen: list[float] = []
        for round in range(self._settings.max_rounds):
            frames = session.frames(times, LLM)
            shown = [frame.time for frame in frames]
            # Without scores, the oldest are discarded.
            discarded = self._buffer.add(shown, [float(round)] * len(shown))
            seen = sorted({*seen, *shown})
            reply = session.ask(
                "explore",
                LLM,
                prompts.look(session.question, duration, seen, count),
                schema=action_of(session.question.letters, moments=count),
                frames=session.frames(self._buffer.times, LLM),
                round=round,
                args={"discarded": [_short(time) for time in discarded]},
            )
            if reply.parsed is None or reply.parsed.times is None:
                return self._answered(reply.parsed)
            # A moment outside the video is the nearest one inside.
            times = sorted({min(max(time, 0.0), duration) for time in reply.parsed.times})
        session.note("no further round: the answer was forced")
        return self.conclude()


def _scored(children: Sequence[Node], scores: Scores | None) -> Sequence[Segment]:
    """Give the children their scores, if the reply could be parsed."""
    if scores is not None:
        for number, score in scores.by_number().items():
            child = next(child for child in children if child.number == number)
            child.score, child.text = score.score, score.why
    return [child.record for child in children]


def _short(time: float) -> float:
    return round(time, 3)
