"""The method `lvagent`, and LVAgent on one question: perception, action and reflection of several agents,
round by round."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from videopro.cli import check_least, option
from videopro.errors import ConfigError
from videopro.methods.agents import (
    ROLE_HELP,
    AgentMethod,
    AgentRun,
    AgentSettings,
    Equipment,
    Prepared,
    Scene,
    Session,
    public_role,
)
from videopro.methods.lvagent.prompts import (
    Member,
    history_prompt,
    key_prompt,
    reason_prompt,
    scores_of,
    scores_prompt,
    whole_prompt,
)
from videopro.methods.lvagent.team import read_team
from videopro.methods.program import derive_seed
from videopro.modules.search import ClipIndex, prepare_index
from videopro.question import Answer
from videopro.traces import Preparation, Result, Segment
from videopro.video import Frame, uniform_times

MOST_AGENTS = 4


@dataclass(frozen=True)
class LvAgentSettings(AgentSettings):
    """Settings of LVAgent. With preset "equal", `frames` is the number of frames that the run's backbone
    takes; a glance does not get longer."""

    agents: tuple[str, ...] = option((), f"2 to {MOST_AGENTS} different models: {ROLE_HELP}", answers=True)
    team: Path | None = option(None, "team file of videopro select-agents, instead of agents", answers=True)
    frames: int = option(16, "frames of the second look, to answer from", client="less", answers=True)
    chunks: int = option(6, "equal parts of the video for retrieval", client="less", answers=True)
    threshold: float = option(
        0.8, "cosine similarity above which a chunk is used; without one, the best chunk", answers=True
    )
    max_rounds: int = option(3, "maximum rounds of discussion", client="less", answers=True)
    encoder: str = option(
        "auto", "encoder of the chunks, such as asp-clip:FOLDER (see method videopro)", answers=True
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, 1, "frames", "chunks", "max_rounds", where="lvagent: ")
        if bool(self.agents) == (self.team is not None):
            both = ", not both" if self.agents else ""
            raise ConfigError(
                f"lvagent: set the agents (agents=[A, B, C], 2 to {MOST_AGENTS}) or a team file of videopro "
                f"select-agents (team=FILE){both}"
            )
        if self.agents:
            check_agents(self.agents)


def check_agents(agents: tuple[str, ...]) -> None:
    """Raise ConfigError unless these are two to four different models: equal ones never disagree."""
    if not 2 <= len(agents) <= MOST_AGENTS:
        raise ConfigError(f"lvagent: {len(agents)} agents; set 2 to {MOST_AGENTS}")
    # A server's address does not make another model.
    names = [public_role(name) for name in agents]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(f"lvagent: {twice!r} is listed twice; equal agents never disagree; set others")


GLANCE_FRAMES = 4
KEY_WORDS = 50
"""Of what an agent looks for, at most."""


class LvAgentMethod(AgentMethod):
    """LVAgent: several agents perceive, answer, and discuss where they disagree."""

    name = "lvagent"
    about = "Several models answer, then discuss. Slow; needs choices and a team of models."
    Settings = LvAgentSettings
    settings: LvAgentSettings

    def __init__(self, settings: LvAgentSettings) -> None:
        self._team = None if settings.team is None else read_team(settings.team)
        self._agents = settings.agents if self._team is None else self._team.agents
        check_agents(self._agents)
        super().__init__(settings)
        self._is_checked = False

    def equipment(self) -> Equipment:
        roles = {public_role(name): name for name in self._agents}
        return Equipment(roles, seeing=next(iter(roles)), encoders={"encoder": self.settings.encoder})

    def identity(self) -> dict[str, Any]:
        # The team is what its file says, wherever that lies.
        identity = super().identity() | {"agents": list(self.equipment().roles)}
        del identity["team"]
        return identity if self._team is None else {**identity, "selection": self._team.key}

    def prepare(self, scene: Scene) -> Prepared:
        """Index the chunks. The index is kept on the disk, with what making it cost. Raises ConfigError for
        two agents with the same weights."""
        if not self._is_checked:
            check_weights({name: model.identity() for name, model in scene.models.items()})
            self._is_checked = True
        encoder = self.encoder(scene, self.settings.encoder, "chunks are found by an encoder")
        video = scene.context.video
        index, indexing = prepare_index(video, encoder, clip_seconds=video.duration / self.settings.chunks)
        return Prepared((index, scene.context.backbone.inner.frames), (indexing, *self._selected()))

    def _selected(self) -> tuple[Preparation, ...]:
        return () if self._team is None else (self._team.preparation,)

    def start(self, session: Session, prepared: Prepared) -> AgentRun:
        return LvAgentRun(session, prepared)


# What an identity contains in addition to the weights: differences in these do not make two agents.
_SETTINGS = (
    *("name", "dtype", "attention", "frames", "pixels"),
    *("video", "video_marks", "video_prompt", "extra_body", "api_body"),
)


def check_weights(identities: Mapping[str, Mapping[str, object]]) -> None:
    """Raise ConfigError if two agents, by name, have the same weights, as "self" and the name of the run's
    backbone: they never disagree. Of a served model, only what its server reports is known."""
    seen: dict[str, str] = {}
    for name, identity in identities.items():
        # A local model is identified by the contents of its files, wherever they are.
        ignored = {*_SETTINGS, *(("model",) if identity.get("kind") == "qwen" else ())}
        weights = json.dumps(
            {key: value for key, value in identity.items() if key not in ignored}, sort_keys=True
        )
        if weights in seen:
            raise ConfigError(
                f"lvagent: {seen[weights]!r} and {name!r} have the same weights; equal agents never "
                "disagree; set others"
            )
        seen[weights] = name


class LvAgentRun(AgentRun):
    """The discussion of one question."""

    settings: LvAgentSettings
    _index: ClipIndex
    """The chunks."""
    _budget: int
    """Frames that the run's backbone takes."""

    def __init__(self, session: Session, prepared: Prepared) -> None:
        super().__init__(session)
        self._index, self._budget = prepared.content
        self._members = [Member(number, role) for number, role in enumerate(session.models, 1)]
        self._history = ""

    def run(self) -> Answer:
        for round in self.session.rounds(self.settings.max_rounds):
            for member in self._members:
                self._perceive(member)
                self._act(member)
            # Nobody would read what is said after the last round.
            if self._agree() or round == self.settings.max_rounds - 1:
                break
            self._reflect()
            if len(self._members) == 1:
                break
        return self.conclude()

    def conclude(self) -> Answer:
        """The answer of most agents that are left; of equally many, that of the agent with the highest score
        in the last reflection, then of the first one. Asks nobody, unless no agent has replied yet."""
        replied = [member.answer for member in self._members if member.answer is not None]
        if not replied:
            return self._at_once()
        voters = [member for member in self._members if member.letter is not None]
        if not voters:
            return replied[0]
        votes = Counter(member.letter for member in voters)
        best = max(voters, key=lambda member: (votes[member.letter], member.score, -member.number))
        assert best.answer is not None
        return best.answer

    def cites(self, answer: Answer) -> tuple[int, ...]:
        """The latest looks of the agents still in the discussion that gave this letter."""
        left = {member.role for member in self._members}
        steps = enumerate(self.session.steps)
        latest = {each.model: (i, each.parsed) for i, each in steps if each.kind == "answer"}
        return tuple(
            i
            for role, (i, parsed) in latest.items()
            if role in left and parsed and parsed["letter"] == answer.letter
        )

    def _at_once(self) -> Answer:
        """The first agent's answer from a glance, for a budget that is spent before any agent has replied."""
        first, duration = self._members[0], self.session.video.duration
        times = uniform_times(0.0, duration, GLANCE_FRAMES)
        frames = self.session.frames(times, first.role)
        return self.session.answer("answer", first.role, frames=frames, context=self._context(frames))

    # ---- perception and action -----------------------------------------------------------------------------

    def _perceive(self, member: Member) -> None:
        """Choose the frames for the answer: of the whole video, or of the chunks that fit the key
        information."""
        session, question = self.session, self.session.question
        where = (member.number, session.round)
        seed = derive_seed(session.seed, "glance", *where, question.text, question.choices)
        rng = np.random.default_rng(seed)
        spans = self._spans(member, rng)
        count = self._budget if self.settings.preset == "equal" else self.settings.frames
        if spans is None:
            member.frames = session.frames(uniform_times(0.0, session.video.duration, count), member.role)
        else:
            member.frames = self._drawn(rng, spans, count, member)

    def _drawn(
        self, rng: np.random.Generator, spans: Sequence[tuple[float, float]], count: int, member: Member
    ) -> list[Frame]:
        """`count` frames at random times of the spans. Two of the times may show the same picture, which is
        then shown twice, unless the spans have fewer pictures."""
        has_pictures = self.session.video.fps * _seconds(spans) >= count
        return self.session.frames(randomly(rng, spans, count), member.role, one_each=has_pictures)

    def _act(self, member: Member) -> None:
        context = self._context(member.frames)
        member.answer = self.session.answer("answer", member.role, frames=member.frames, context=context)

    def _spans(self, member: Member, rng: np.random.Generator) -> list[tuple[float, float]] | None:
        """The chunks that fit what the agent looks for after a glance; None: it needs the whole video."""
        session, question = self.session, self.session.question
        glance = self._drawn(rng, [(0.0, session.video.duration)], GLANCE_FRAMES, member)
        context = self._context(glance)
        prompt = whole_prompt(question, context)
        needs_all = session.decide("whole", member.role, prompt, frames=glance).letter
        if needs_all == "Yes":
            return None
        if needs_all is None:
            session.note(f"{member.role} said neither Yes nor No: used the whole video")
            return None
        prompt = key_prompt(question, context, KEY_WORDS)
        reply = session.tell("key", member.role, prompt, frames=glance)
        # A model may write more than it was asked for.
        key = " ".join(reply.split()[:KEY_WORDS])
        if not key:
            session.note(f"{member.role} named nothing to look for: used the whole video")
            return None
        return self._retrieve(member, key)

    def _retrieve(self, member: Member, key: str) -> list[tuple[float, float]]:
        """The chunks above the threshold, or else the best one, in order of time."""
        index, settings, session = self._index, self.settings, self.session
        session.budget.check()
        ranked = index.search(key, len(index.clips))
        best, scores = ranked[0][0], dict(ranked)
        above = sorted(number for number, score in ranked if score > settings.threshold)
        chosen = above or [best]
        session.tool(
            "retrieve",
            args={"agent": member.role, "key": key},
            result=", ".join(map(str, chosen)),
            segments=[
                Segment(*clip, str(number), score=round(scores[number], 4))
                for number, clip in enumerate(index.clips)
            ],
        )
        return [index.clips[number] for number in chosen]

    def _context(self, frames: Sequence[Frame]) -> str:
        """The history, and the subtitle lines at the frames."""
        subtitles = self.session.said_at([frame.time for frame in frames])
        return "\n".join(part for part in (self._history, subtitles) if part)

    # ---- reflection ----------------------------------------------------------------------------------------

    def _agree(self) -> bool:
        # An answer without a letter agrees with none.
        letters = {member.letter for member in self._members}
        return len(letters) == 1 and None not in letters

    def _reflect(self) -> None:
        """Reasons, scores of all by all, and the agent of the lowest sum leaves."""
        session, question = self.session, self.session.question
        for member in self._members:
            prompt = reason_prompt(question, member.letter)
            reply = session.tell("reason", member.role, prompt, frames=member.frames)
            member.reason = " ".join(reply.split())
        members = list(self._members)
        prompt, schema = scores_prompt(question, members), scores_of([each.number for each in members])
        # Who gives scores that cannot be parsed has no say.
        sums: Counter[int] = Counter()
        for member in self._members:
            scores = session.ask("score", member.role, prompt, schema=schema)
            sums.update(scores.by_number() if scores is not None else {})
        for member in self._members:
            member.score = sums[member.number]
        removed: Member | None = None
        if sums:
            # Of equal sums, the later agent leaves.
            removed = min(self._members, key=lambda member: (member.score, -member.number))
            self._members.remove(removed)
        else:
            session.note("no scores could be parsed, so no agent left the discussion")
        self._history = history_prompt(question, members, bool(sums), removed)
        session.tool(
            "leave",
            args={"scores": {str(number): total for number, total in sums.items()}},
            result=removed.role if removed is not None else "",
        )


def randomly(rng: np.random.Generator, spans: Sequence[tuple[float, float]], count: int) -> list[float]:
    """`count` times drawn uniformly from the spans (s), sorted."""
    return times_at(spans, np.sort(rng.uniform(0.0, _seconds(spans), count)).tolist())


def times_at(spans: Sequence[tuple[float, float]], offsets: Sequence[float]) -> list[float]:
    """The times at these offsets from the start of the spans put together."""
    lengths = np.array([end - start for start, end in spans])
    ends = np.cumsum(lengths)
    # The end of the last span belongs to it, also after rounding.
    indices = np.minimum(np.searchsorted(ends, offsets, side="right"), len(spans) - 1)
    return [
        float(spans[index][0] + offset - (ends[index] - lengths[index]))
        for index, offset in zip(indices, offsets, strict=True)
    ]


def _seconds(spans: Sequence[tuple[float, float]]) -> float:
    return sum(end - start for start, end in spans)


PHASES: Mapping[str, str] = {
    "whole": "perception",
    "key": "perception",
    "retrieve": "perception",
    "answer": "action",
    "reason": "reflection",
    "score": "reflection",
    "leave": "reflection",
}
"""The phase of each kind of step. Decoding the frames of an answer counts as action."""


def phase_seconds(result: Result) -> dict[str, float]:
    """Seconds of perception, action and reflection, over all rounds: the question's own seconds, divided as
    its steps' wall times are. These overlap with those of other questions in flight, so that their sum would
    count moments several times. What was prepared for many questions (the index of the chunks, the selection
    of the team) is in `result.prepared`."""
    seconds = dict.fromkeys(("perception", "action", "reflection"), 0.0)
    total = sum(step.cost.seconds for step in result.steps)
    for step in result.steps:
        # A fallback's direct answer belongs to no phase.
        if step.kind in PHASES and total > 0:
            seconds[PHASES[step.kind]] += step.cost.seconds * result.cost.seconds / total
    return seconds
