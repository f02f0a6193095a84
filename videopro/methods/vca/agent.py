"""The method `vca`, and VCA on one question: Algorithm 1 of the paper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from videopro.backbones import Stills
from videopro.cli import check_least, option
from videopro.errors import ConfigError
from videopro.methods.agents import (
    ROLE_HELP,
    AgentMethod,
    AgentRun,
    AgentSettings,
    Equipment,
    Numbered,
    Prepared,
    Scene,
    Session,
    written_answer,
)
from videopro.methods.vca.prompts import (
    Action,
    action_of,
    explore_prompt,
    look_prompt,
    reward_prompt,
    scores_of,
)
from videopro.methods.vca.tree import MemoryBuffer, Node, Tree
from videopro.modules.models.encoders import VideoTextEncoder
from videopro.question import Answer
from videopro.traces import FORCED, Segment
from videopro.video import Frame, uniform_times

LLM = "llm"
SHORTEST = 1.0
"""A segment of less than so many seconds is not explored."""
# The paper's buffers: 8 frames for EgoSchema (minutes), 16 for LVBench (an hour).
SHORT_BUFFER, LONG_BUFFER = 8, 16
# Seconds from which a video counts as long: the shortest video of LVBench lasts half an hour.
LONG_VIDEO = 1800.0


@dataclass(frozen=True)
class VcaSettings(AgentSettings):
    """Settings of VCA. With preset "equal", `buffer` is the number of frames that the backbone takes."""

    llm: str = option("self", f"model that explores and scores: {ROLE_HELP}", answers=True)
    borders: int = option(6, "N: frames that split a segment into N + 1", client="less", answers=True)
    buffer: int | None = option(
        None,
        f"frames in the memory buffer; unset: {SHORT_BUFFER}, and {LONG_BUFFER} from half an hour on",
        answers=True,
    )
    reward: Literal["model", "none", "image", "evidence"] = option(
        "model",
        "how segments are scored: model, none, image (similarity of their end frames to the question, Table "
        "5), or evidence (annotated intervals, an oracle, Table 6)",
        answers=True,
    )
    tree_search: bool = option(True, "explore segments; off: choose times directly (Table 3)", answers=True)
    encoder: str = option(
        "auto", "encoder of reward=image: as for the modules (see method videopro)", answers=True
    )
    max_rounds: int = option(
        16,
        "maximum rounds of exploration before a forced answer (the paper has no limit)",
        client="less",
        answers=True,
    )
    temperature: float = option(0.5, "sampling temperature of replies; 0: greedy", client="any", answers=True)
    subtitles: Literal["none", "listed"] = option(
        "none", "subtitle lines at the shown frames: listed, or none (the paper)", client="any", answers=True
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, 1, "borders", "buffer", "max_rounds", where="vca: ")
        if self.buffer is not None and self.preset == "equal":
            raise ConfigError(
                f"vca: buffer is {self.buffer}, but preset 'equal' takes the model's frames; leave one out"
            )
        if not self.tree_search and self.reward != "model":
            raise ConfigError(
                f"vca: reward is {self.reward!r}, but tree_search is off, so nothing is scored; leave reward "
                "out"
            )

    def buffer_size(self, duration: float) -> int | None:
        """Frames in the buffer for a video of `duration` seconds; None: as many as the model takes."""
        if self.preset == "equal":
            return None
        return self.buffer or (LONG_BUFFER if duration >= LONG_VIDEO else SHORT_BUFFER)


class VcaMethod(AgentMethod):
    """VCA, sections 3.1 to 3.3: one model explores and scores."""

    name = "vca"
    about = "Explores the video part by part until it can answer. For one moment in a long video."
    Settings = VcaSettings
    settings: VcaSettings
    answers_open_questions = True

    def equipment(self) -> Equipment:
        settings = self.settings
        return Equipment(
            {LLM: settings.llm},
            seeing=LLM,
            encoders={"encoder": settings.encoder} if settings.reward == "image" else {},
            evidence=settings.reward == "evidence",
        )

    def prepare(self, scene: Scene) -> Prepared:
        if self.settings.reward != "image":
            return Prepared()
        return Prepared(self.encoder(scene, self.settings.encoder, "reward=image needs an encoder"))

    def start(self, session: Session, prepared: Prepared) -> AgentRun:
        if self.settings.reward == "evidence":
            note = "" if session.evidence else ", but this question has none"
            session.note(f"oracle: segments are scored by the annotated evidence{note}")
        return VcaRun(session, prepared)


class VcaRun(AgentRun):
    """Explores the tree of segments until the agent answers."""

    settings: VcaSettings
    _encoder: VideoTextEncoder | None
    """Scores segments with reward=image."""

    def __init__(self, session: Session, prepared: Prepared) -> None:
        super().__init__(session)
        self._encoder = prepared.content
        duration = session.video.duration
        most, size = session.models[LLM].frames, self.settings.buffer_size(duration)
        if size is not None and size > most:
            session.note(f"the buffer holds {most} frames: the maximum of {LLM}")
        self._tree = Tree(duration, SHORTEST)
        self._buffer = MemoryBuffer(most if size is None else min(size, most))
        self._explored: list[Node] = []
        self._similarity: dict[float, float] = {}
        """Of the frames at these times to the question, in percent."""

    def run(self) -> Answer:
        return self._search_tree() if self.settings.tree_search else self._search_moments()

    def conclude(self) -> Answer:
        """The forced answer, from the frames in the buffer."""
        frames = self._look(self._buffer.times)
        return self.session.answer("answer", LLM, frames=frames, context=self._subtitles())

    def cites(self, answer: Answer) -> tuple[int, ...]:
        """The last step, which showed the frames in the buffer."""
        return (len(self.session.steps) - 1,)

    def _look(self, times: Sequence[float]) -> Stills:
        """The frames at `times` (s), each for itself: what is between two is what the search is about."""
        return Stills(self.session.frames(times, LLM, one_each=True))

    def _subtitles(self) -> str:
        """The subtitle lines at the frames in the buffer."""
        return self.session.said_at(self._buffer.times)

    # ---- Algorithm 1 -------------------------------------------------------------------------------------

    def _search_tree(self) -> Answer:
        chosen: Node | None = None
        for _ in self.session.rounds(self.settings.max_rounds):
            borders = self._tree.even_borders(chosen, self.settings.borders)
            # Fewer than N if the model or the budget takes fewer: then there are fewer parts.
            times = self.session.admit(borders, LLM)
            # Before the split, which adds the parts that are yet to be scored.
            history = list(self._tree.nodes)
            children = self._tree.split(chosen, times)
            self._score(children, times, history)
            self._remember(times)
            candidates = self._tree.candidates
            if not candidates:
                break
            action = self._act(candidates)
            if action is None or action.segment is None:
                return self._answered(action)
            chosen = self._tree.nodes[action.segment]
            self._explored.append(chosen)
        self.session.note(f"no further segment or round: {FORCED}")
        return self.conclude()

    def _score(self, children: list[Node], times: Sequence[float], history: Sequence[Node]) -> None:
        """The reward model scores the new segments, which frames at `times` separate, given the history of
        scores."""
        question = self.session.question
        if self.settings.reward == "model":
            self.session.ask(
                "reward",
                LLM,
                reward_prompt(question, children, history, self.session.said_at(times)),
                schema=scores_of([child.number for child in children]),
                frames=self._look(times),
                segments_of=lambda scores: _scored(children, scores),
            )
            return
        self.session.budget.check()
        # Only reward=image looks at frames; the step of the others records none.
        frames = Stills()
        scores: list[float] | None = None
        if self.settings.reward == "image":
            assert self._encoder is not None
            frames = self._look(times)
            similar = frame_similarity(self._encoder, question.text, frames)
            self._similarity.update(zip(times, similar, strict=True))
            scores = [self._end_similarity(child) for child in children]
        elif self.settings.reward == "evidence":
            spans = [(child.start, child.end) for child in children]
            scores = evidence_scores(spans, self.session.evidence)
        if scores is not None:
            for child, score in zip(children, scores, strict=True):
                child.score = score
        self.session.tool(
            "reward",
            args={"reward": self.settings.reward},
            result=", ".join(f"{c.number}: {c.score:.0f}" for c in children if c.score is not None),
            frames=frames,
            segments=[child.record for child in children],
        )

    def _end_similarity(self, child: Node) -> float:
        """The mean similarity of a segment's end frames. The ends of the video are no frames, so its first
        and its last segment have one."""
        ends = [self._similarity[time] for time in (child.start, child.end) if time in self._similarity]
        return sum(ends) / len(ends)

    def _remember(self, times: Sequence[float]) -> None:
        """Update the memory buffer with frames (s), and record which it discards. Without a tree nothing is
        scored, and the oldest are discarded."""
        rated: Callable[[float], float] = self._tree.relevance_at if self._tree.nodes else lambda time: -1.0
        discarded = self._buffer.update(times, rated)
        if discarded:
            named = ", ".join(f"{time:.1f} s" for time in discarded)
            self.session.tool(
                "evict",
                args={
                    "capacity": self._buffer.size,
                    "times": [round(time, 3) for time in discarded],
                    "relevance": [rated(time) for time in discarded],
                },
                result=f"dropped the frames at {named}",
            )

    def _act(self, candidates: Sequence[Node]) -> Action | None:
        """The agent answers, or chooses any open segment; None: its reply could not be parsed."""
        question = self.session.question
        return self.session.ask(
            "explore",
            LLM,
            explore_prompt(question, candidates, self._explored, self._subtitles()),
            schema=action_of(question, segments=[node.number for node in candidates]),
            frames=self._look(self._buffer.times),
            segments_of=self._chosen,
        )

    def _chosen(self, action: Action | None) -> Sequence[Segment]:
        if action is None or action.segment is None:
            return ()
        return (self._tree.nodes[action.segment].record,)

    def _answered(self, action: Action | None) -> Answer:
        if action is None or action.answer is None:
            return Answer(raw=self.session.steps[-1].raw)
        return written_answer(action.answer, self.session.question)

    # ---- without tree search (Table 3) ---------------------------------------------------------------------

    def _search_moments(self) -> Answer:
        session, count = self.session, self.settings.borders
        duration = session.video.duration
        times = uniform_times(0.0, duration, count)
        seen: set[float] = set()
        for _ in self.session.rounds(self.settings.max_rounds):
            times = session.admit(times, LLM)
            self._remember(times)
            seen.update(times)
            action = session.ask(
                "explore",
                LLM,
                look_prompt(session.question, duration, sorted(seen), count, self._subtitles()),
                schema=action_of(session.question, moments=count),
                frames=self._look(self._buffer.times),
            )
            if action is None or action.times is None:
                return self._answered(action)
            # A moment outside the video is the nearest one inside.
            times = sorted({min(max(time, 0.0), duration) for time in action.times})
        session.note(f"no further round: {FORCED}")
        return self.conclude()


def _scored(children: Sequence[Node], scores: Numbered | None) -> Sequence[Segment]:
    """Give the children their scores, if the reply could be parsed."""
    if scores is not None:
        said = scores.by_number()
        for child in children:
            child.score, child.text = said[child.number].score, said[child.number].why
    return [child.record for child in children]


def frame_similarity(encoder: VideoTextEncoder, text: str, frames: Sequence[Frame]) -> list[float]:
    """The cosine similarity of each frame to a text, in percent and at least 0. An encoder of clips is shown
    a clip that stands still."""
    clips = [[frame] * encoder.clip_frames for frame in frames]
    (similarities,) = encoder.score_clips([text], clips)
    return [100.0 * max(0.0, float(similarity)) for similarity in similarities]


def evidence_scores(
    spans: Sequence[tuple[float, float]], evidence: Sequence[tuple[float, float]]
) -> list[float] | None:
    """The share (in percent) of the annotated evidence that each span (s) holds; None without evidence. An
    instant counts as a hundredth of a second."""
    wide = [(start, max(end, start + 0.01)) for start, end in evidence]
    total = sum(end - start for start, end in wide)
    if not total:
        return None
    return [
        100.0 * sum(max(0.0, min(end, last) - max(start, first)) for first, last in wide) / total
        for start, end in spans
    ]
