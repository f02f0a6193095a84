"""LVAgent on one question: perception, action and reflection of several agents, round by round."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from videopro.methods.agents import AgentRun, Conclusion, Prepared, Session
from videopro.methods.lvagent import prompts
from videopro.methods.lvagent.prompts import Opinion, Scores, scores_of
from videopro.methods.lvagent.settings import LvAgentSettings
from videopro.modules.search import ClipIndex
from videopro.question import Answer
from videopro.reasoning import derive_seed
from videopro.traces import Segment
from videopro.video import Frame, uniform_times


@dataclass
class Member:
    """An agent in the discussion."""

    number: int
    """From 1, as prompts name it; ties are broken in this order."""
    role: str
    frames: list[Frame] = field(default_factory=list)
    """What it looked at for its latest answer."""
    answer: Answer = field(default_factory=Answer)
    reason: str = ""
    score: int = 0
    """The sum of the scores that it got in the latest reflection."""

    @property
    def opinion(self) -> Opinion:
        """What it says to the others."""
        return Opinion(self.number, self.answer.letter, self.reason)


class LvAgentRun(AgentRun):
    """The discussion of one question."""

    def __init__(self, session: Session, prepared: Prepared, settings: LvAgentSettings) -> None:
        super().__init__(session, prepared)
        self._settings = settings
        self._index: ClipIndex | None = prepared.content
        self._members = [Member(number, role) for number, role in enumerate(session.models, 1)]
        self._history = ""

    def run(self) -> Conclusion:
        for round in range(self._settings.max_rounds):
            for member in self._members:
                member.frames = self._perceive(member, round)
                context = self._context(member.frames)
                prompt = prompts.answer(self.session.question, context)
                member.answer = self.session.choose(
                    "answer", member.role, prompt, frames=member.frames, round=round
                )
            if self._agree() or round == self._settings.max_rounds - 1:
                break
            self._reflect(round)
            if len(self._members) == 1:
                break
        return self.conclude()

    def conclude(self) -> Conclusion:
        """The answer of most agents; of equally many, that of the agent with the highest score in the last
        reflection, then of the first one. Asks nobody, unless no agent has answered yet."""
        given = [member for member in self._members if member.answer.letter is not None]
        if not given:
            return Conclusion(self._at_once() if not self._members[0].answer.raw else self._members[0].answer)
        votes = Counter(member.answer.letter for member in given)
        best = max(given, key=lambda m: (votes[m.answer.letter], m.score, -m.number))
        return Conclusion(best.answer)

    def _at_once(self) -> Answer:
        """The first agent's answer, for a budget that is spent before any agent has answered."""
        first, duration = self._members[0], self.session.video.duration
        times = uniform_times(0.0, duration, self._settings.glance_frames)
        frames = self.session.frames(times, first.role)
        prompt = prompts.answer(self.session.question, self._context(frames))
        return self.session.choose("answer", first.role, prompt, frames=frames)

    # ---- perception --------------------------------------------------------------------------------------

    def _perceive(self, member: Member, round: int) -> list[Frame]:
        """The frames for the answer: of the whole video, or of the chunks that fit the key information."""
        session, settings, question = self.session, self._settings, self.session.question
        duration = session.video.duration
        rng = np.random.default_rng(self._seed(member, round))
        glance = session.frames(_random_times(rng, [(0.0, duration)], settings.glance_frames), member.role)
        context = self._context(glance)
        wants = session.decide(
            "whole", member.role, prompts.whole(question, context), frames=glance, round=round
        )
        count = self._frames(member)
        if wants.letter != "No":
            if wants.letter is None:
                session.note(f"{member.role} said neither Yes nor No: it saw the whole video")
            return session.frames(uniform_times(0.0, duration, count), member.role)
        key = session.tell(
            "key",
            member.role,
            prompts.key_information(question, context, settings.words),
            frames=glance,
            round=round,
        )
        spans = self._retrieve(member, " ".join(key.split()[: settings.words]), round)
        if settings.drawn == "uniform":
            times = [time for span in spans for time in uniform_times(*span, max(1, count // len(spans)))]
        else:
            times = _random_times(rng, spans, count)
        return session.frames(times, member.role)

    def _retrieve(self, member: Member, key: str, round: int) -> list[tuple[float, float]]:
        """The chunks above the threshold, or the best one, in order of time."""
        index, session = self._index, self.session
        assert index is not None
        session.budget.check()
        # Nothing to look for: every chunk fits as well as any other.
        found = index.search(key, len(index.clips)) if key else [(n, 0.0) for n in range(len(index.clips))]
        above = [n for n, score in found if score >= self._settings.threshold]
        taken = sorted(above or [found[0][0]])
        scored = dict(found)
        session.tool(
            "retrieve",
            args={"agent": member.role, "key": key},
            result=", ".join(str(n) for n in taken),
            segments=[Segment(*index.clips[n], str(n), score=round_score(scored[n])) for n in sorted(scored)],
            round=round,
        )
        return [index.clips[n] for n in taken]

    def _context(self, frames: Sequence[Frame]) -> str:
        """The history, and the subtitle lines at the frames."""
        lines = []
        if self.session.subtitles is not None:
            lines = [line.text for line in self.session.subtitles.visible_at([f.time for f in frames])]
        return "\n".join(part for part in (self._history, *lines) if part)

    def _frames(self, member: Member) -> int:
        most = self.session.models[member.role].frames
        return most if self._settings.preset == "equal" else self._settings.frames

    def _seed(self, member: Member, round: int) -> int:
        question = self.session.question
        return derive_seed(self.session.seed, "glance", member.number, round, question.text, question.choices)

    # ---- reflection --------------------------------------------------------------------------------------

    def _agree(self) -> bool:
        letters = {member.answer.letter for member in self._members}
        return len(letters) == 1 and None not in letters

    def _reflect(self, round: int) -> None:
        """Reasons, scores of all by all, and the agent of the lowest sum leaves."""
        session, question = self.session, self.session.question
        for member in self._members:
            member.reason = " ".join(
                session.tell(
                    "reason",
                    member.role,
                    prompts.reason(question, member.answer.letter),
                    frames=member.frames,
                    round=round,
                ).split()
            )
        opinions = [member.opinion for member in self._members]
        numbers = [member.number for member in self._members]
        given: list[Scores] = []
        for member in self._members:
            reply = session.ask(
                "score",
                member.role,
                prompts.scores(question, opinions),
                schema=scores_of(numbers),
                frames=member.frames if self._settings.score_frames else (),
                round=round,
            )
            if reply.parsed is not None:
                given.append(reply.parsed)
        sums = {number: sum(scores.by_number()[number] for scores in given) for number in numbers}
        for member in self._members:
            member.score = sums[member.number]
        removed: Member | None = None
        if given:
            # Of equal sums, the later agent leaves.
            removed = min(self._members, key=lambda member: (member.score, -member.number))
            self._members.remove(removed)
        else:
            session.note("no scores could be parsed: nobody left the discussion")
        self._history = prompts.history(question, opinions, sums, removed.opinion if removed else None)
        session.tool(
            "leave",
            args={"scores": {str(number): total for number, total in sums.items()}},
            result=removed.role if removed is not None else "",
            round=round,
        )


def _random_times(rng: np.random.Generator, spans: Sequence[tuple[float, float]], count: int) -> list[float]:
    """`count` times (s) drawn evenly over the spans, sorted."""
    lengths = np.array([end - start for start, end in spans])
    ends = np.cumsum(lengths)
    drawn = np.sort(rng.uniform(0.0, float(ends[-1]), count))
    places = np.minimum(np.searchsorted(ends, drawn, side="right"), len(spans) - 1)
    return [
        float(spans[place][0] + time - (ends[place] - lengths[place]))
        for place, time in zip(places, drawn, strict=True)
    ]


def round_score(score: float) -> float:
    """A similarity as a trace stores it."""
    return round(score, 4)
