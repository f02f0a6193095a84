"""The method `videoagent`, and VideoAgent on one question: Algorithm 1 of the paper."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from videopro.backbones import own_model
from videopro.cli import check_least, option
from videopro.errors import ConfigError
from videopro.methods.agents import (
    ROLE_HELP,
    AgentMethod,
    AgentModel,
    AgentRun,
    AgentSettings,
    BackboneModel,
    Equipment,
    Prepared,
    Scene,
    Session,
    written_answer,
)
from videopro.methods.program import derive_seed
from videopro.methods.videoagent.prompts import (
    LEVELS,
    Confidence,
    Description,
    Descriptions,
    Prediction,
    State,
    caption_prompt,
    descriptions_of,
    predict_prompt,
    prediction_of,
    reflect_prompt,
    search_prompt,
    state_text,
)
from videopro.methods.videoagent.timeline import Timeline, VideoSegment, without_neighbours
from videopro.modules.calls import CallCache
from videopro.modules.search import ClipIndex, prepare_index
from videopro.question import Answer
from videopro.traces import Preparation, Segment, Step
from videopro.video import Frame, uniform_times


@dataclass(frozen=True)
class VideoAgentSettings(AgentSettings):
    """Settings of VideoAgent. With preset "equal", a question looks at no more frames than the backbone takes
    in one call, and half of them are the first frames (`first_frames` is not used)."""

    llm: str = option("self", f"model that predicts, reflects and searches: {ROLE_HELP}", answers=True)
    captioner: str = option("self", f"model that describes frames or clips: {ROLE_HELP}", answers=True)
    encoder: str = option(
        "auto", "encoder that finds frames: as for the modules (see method videopro)", answers=True
    )
    first_frames: int = option(
        5, "N: uniform frames of the first round (Table 4)", client="less", answers=True
    )
    max_rounds: int = option(3, "T: maximum rounds (Fig. 3)", client="less", answers=True)
    threshold: int = option(3, "C: confidence, 1 to 3, that ends the search", client="less", answers=True)
    captions: Literal["frame", "clip", "none"] = option(
        "frame",
        "what the llm gets: captions of frames (CogAgent), captions of clips around them (LaViLa, Table 7), "
        "or none (the frames themselves)",
        answers=True,
    )
    clip_seconds: float = option(1.0, "seconds per captioned clip", answers=True)
    selection: Literal["retrieval", "uniform"] = option(
        "retrieval",
        "where new frames come from: retrieval by the llm's descriptions, or uniform: the middles of the "
        "longest stretches without a frame",
        answers=True,
    )
    segment_selection: bool = option(
        True, "search in the segments that the llm picks; off: everywhere (Table 5)", answers=True
    )
    self_evaluation: bool = option(
        True, "stop when the llm is confident; off: always all rounds (Table 5)", answers=True
    )
    subtitles: Literal["none", "listed"] = option(
        "none", "subtitle lines at the seen frames: listed, or none (the paper)", client="any", answers=True
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, 1, "first_frames", "max_rounds", where="videoagent: ")
        if not self.clip_seconds > 0:
            raise ConfigError(f"videoagent: clip_seconds is {self.clip_seconds}; it must be above 0")
        if self.threshold not in LEVELS:
            raise ConfigError(f"videoagent: threshold is {self.threshold}; it must be 1, 2 or 3")
        if self.captions == "none" and self.captioner != "self":
            raise ConfigError(
                f"videoagent: captioner is {self.captioner!r}, but captions is 'none'; leave one of them out"
            )
        if self.selection == "uniform" and self.encoder != "auto":
            raise ConfigError(
                f"videoagent: encoder is {self.encoder!r}, but selection is 'uniform', which does not "
                "search; leave one of them out"
            )


LLM, CAPTIONER = "llm", "captioner"
FPS = 1.0
"""Frames per second among which frames are chosen (the paper)."""
CLIP_FRAMES = 4
"""Frames of a clip that is captioned."""


class VideoAgentMethod(AgentMethod):
    """VideoAgent, section 3: a language model, a captioner and a retriever."""

    name = "videoagent"
    about = "Reads captions of a few frames, then looks up the frames that it lacks."
    Settings = VideoAgentSettings
    settings: VideoAgentSettings
    answers_open_questions = True

    def __init__(self, settings: VideoAgentSettings) -> None:
        super().__init__(settings)
        self._captions: CallCache[Step] = CallCache()

    def equipment(self) -> Equipment:
        settings = self.settings
        encoders = {"encoder": settings.encoder} if self._retrieves() else {}
        if settings.captions == "none":
            return Equipment({LLM: settings.llm}, seeing=LLM, encoders=encoders)
        roles = {LLM: settings.llm, CAPTIONER: settings.captioner}
        return Equipment(roles, seeing=CAPTIONER, encoders=encoders)

    def prepare(self, scene: Scene) -> Prepared:
        index, preparations = self._index(scene)
        return Prepared((index, self._captioning(scene)), preparations)

    def start(self, session: Session, prepared: Prepared) -> AgentRun:
        return VideoAgentRun(session, prepared)

    def _index(self, scene: Scene) -> tuple[ClipIndex | None, tuple[Preparation, ...]]:
        if not self._retrieves():
            return None, ()
        encoder = self.encoder(scene, self.settings.encoder, "frames are found by an encoder")
        index, indexing = prepare_index(scene.context.video, encoder.for_frames(), clip_seconds=1.0 / FPS)
        return index, (indexing,)

    def _retrieves(self) -> bool:
        return self.settings.selection != "uniform" and self.settings.max_rounds > 1

    def _captioning(self, scene: Scene) -> Captions | None:
        if self.settings.captions == "none":
            return None
        captioner = scene.models[CAPTIONER]
        # One sentence of a clip, as LaViLa writes, and of a small model that knows no other prompt.
        prompt = caption_prompt(self.settings.captions == "frame" and _reads_instructions(captioner))
        return Captions(self._captions, scene.context.video.id, captioner.identity(), prompt)


class VideoAgentRun(AgentRun):
    """Looks for frames, round by round, until the language model is confident."""

    settings: VideoAgentSettings
    _index: ClipIndex | None
    """An embedding a frame; None where nothing is retrieved."""
    _captions: Captions | None
    """None where the language model sees the frames."""

    def __init__(self, session: Session, prepared: Prepared) -> None:
        super().__init__(session)
        self._index, self._captions = prepared.content
        self._timeline = Timeline(session.video.duration, FPS)
        self._seen: dict[int, str] = {}
        """The state: the seen frames and their captions."""
        self._prediction: Prediction | None = None
        self._confidence: int | None = None
        self._predicted_from = 0
        """How many frames the state had at the last prediction."""

    # ---- Algorithm 1 -------------------------------------------------------------------------------------

    def run(self) -> Answer:
        settings = self.settings
        self._merge(self._first())
        for round in self.session.rounds(settings.max_rounds):
            self._predict()
            if self._reflect() >= settings.threshold:
                break
            # Nothing would read what the last round finds.
            if round == settings.max_rounds - 1 or not self._can_search():
                break
            missing = self._find_missing()
            self._merge(self._retrieve(missing))
        return self._conclusion()

    def conclude(self) -> Answer:
        """The last prediction, or the forced answer if frames were found since."""
        if self._predicted_from == len(self._seen):
            return self._conclusion()
        state, frames = self._state()
        return self.session.answer("answer", LLM, frames=frames, context=state_text(state))

    def cites(self, answer: Answer) -> tuple[int, ...]:
        """The last prediction, with the frames that it was shown, or the captions that it read."""
        steps = self.session.steps
        last = max(i for i, step in enumerate(steps) if step.kind in ("predict", "answer"))
        return (*(i for i, step in enumerate(steps[:last]) if step.kind == "caption"), last)

    # ---- the state ---------------------------------------------------------------------------------------

    def _first(self) -> list[int]:
        """The uniform frames of the first round (section 3.1)."""
        count = self.settings.first_frames
        if self.settings.preset == "equal":
            # Half of what may be seen; the other half is for the searches.
            count = (self._most() + 1) // 2
        room = self._room()
        return self._timeline.uniform(count if room is None else max(1, min(count, room)))

    def _merge(self, indices: Sequence[int]) -> None:
        """Add frames to the state, with their captions (section 3.4)."""
        for index in sorted(indices):
            text = ""
            if self._captions is not None:
                text = self._captions.caption(self.session, self._captioned_times(index))
            self._seen[index] = text

    def _captioned_times(self, index: int) -> list[float]:
        """The seconds that the captioner sees of a frame: its own, or those of a clip around it."""
        middle = self._timeline.time(index)
        if self.settings.captions == "frame":
            return [middle]
        half = self.settings.clip_seconds / 2
        start, end = max(0.0, middle - half), min(self._timeline.duration, middle + half)
        return uniform_times(start, end, self._frames_each())

    def _state(self) -> tuple[State, list[Frame]]:
        """What the language model knows, and the frames that it is shown."""
        duration = self._timeline.duration
        indices = sorted(self._seen)
        times = [self._timeline.time(index) for index in indices]
        if self._captions is not None:
            captions = tuple(self._seen[index] for index in indices)
            return State(duration, tuple(times), captions, self.session.said_at(times)), []
        frames = self.session.frames(times, LLM)
        frame_times = tuple(frame.time for frame in frames)
        return State(duration, frame_times, said=self.session.said_at(frame_times)), frames

    # ---- how much may be looked at -----------------------------------------------------------------------

    def _frames_each(self) -> int:
        """Frames that are shown for each one in the state."""
        if self.settings.captions != "clip":
            return 1
        most = self.session.models[CAPTIONER].frames
        limit = self.session.budget.max_frames
        return min(CLIP_FRAMES, most, *([] if limit is None else [limit]))

    def _most(self) -> int:
        """Frames in the state that preset "equal" allows."""
        seeing = LLM if self._captions is None else CAPTIONER
        return max(1, self.session.models[seeing].frames // self._frames_each())

    def _room(self) -> int | None:
        """How many frames the state may still take; None: any number."""
        left = self.session.budget.frames_left()
        rooms = [] if left is None else [left // self._frames_each()]
        if self.settings.preset == "equal":
            rooms.append(max(0, self._most() - len(self._seen)))
        return min(rooms, default=None)

    def _can_search(self) -> bool:
        if self._room() == 0:
            self.session.note("the frame budget is spent: the last prediction is the answer")
            return False
        if not self._timeline.segments(self._seen):
            self.session.note("the whole video was searched: the last prediction is the answer")
            return False
        return True

    # ---- the steps of a round ----------------------------------------------------------------------------

    def _predict(self) -> None:
        """Answer by what is known."""
        question = self.session.question
        state, frames = self._state()
        self._prediction = self.session.ask(
            "predict",
            LLM,
            predict_prompt(question, state),
            schema=prediction_of(question),
            frames=frames,
        )
        # What was claimed of an earlier prediction says nothing of this one.
        self._confidence = None
        self._predicted_from = len(self._seen)

    def _reflect(self) -> int:
        """The confidence in the prediction; 0: there is none, since it was not asked for or not parsed."""
        if not self.settings.self_evaluation or self._prediction is None:
            return 0
        state, frames = self._state()
        reply = self.session.ask(
            "reflect",
            LLM,
            reflect_prompt(self.session.question, state, self._prediction),
            schema=Confidence,
            frames=frames,
        )
        self._confidence = None if reply is None else reply.confidence
        return self._confidence or 0

    def _find_missing(self) -> Sequence[Description]:
        """What has to be seen, and in which segments; empty if the reply could not be parsed."""
        segments = self._segments()
        offered = segments if self.settings.segment_selection else []
        state, frames = self._state()
        reply = self.session.ask(
            "search",
            LLM,
            search_prompt(self.session.question, state, offered),
            schema=descriptions_of([segment.number for segment in offered]),
            frames=frames,
            segments_of=lambda descriptions: _named(descriptions, segments),
        )
        return [] if reply is None else reply.frame_descriptions

    def _retrieve(self, missing: Sequence[Description]) -> list[int]:
        """One frame for each description: the most similar one of its segment, unless it is next to another
        one that is kept."""
        if not missing:
            return []
        self.session.budget.check()
        room = self._room()
        if self.settings.selection == "uniform":
            count = len(missing) if room is None else min(len(missing), room)
            chosen = self._timeline.middles(self._seen, count)
            segments = [Segment(*self._timeline.spans[index]) for index in chosen]
            scores: dict[int, float] = {}
        else:
            best = [self._most_similar(description) for description in missing]
            scores = {}
            for index, score, _ in best:
                scores[index] = max(score, scores.get(index, score))
            chosen = without_neighbours(self._seen, scores)[:room]
            segments = [segment for _, _, segment in best]
        self.session.tool(
            "retrieve",
            args={"selection": self.settings.selection, "descriptions": len(missing)},
            result=self._outcome(chosen, [index for index in scores if index not in chosen]),
            segments=segments,
        )
        return chosen

    def _most_similar(self, description: Description) -> tuple[int, float, Segment]:
        """The best unseen frame of the segment, its cosine similarity, and both for the trace."""
        assert self._index is not None
        segment = _segment_of(description, self._segments())
        ranked = self._index.search(
            description.description, len(self._index.clips), start=segment.start, end=segment.end
        )
        index, score = next((index, score) for index, score in ranked if index in segment.indices)
        name = "" if description.segment_id is None else str(segment.number)
        start, end = self._timeline.spans[index]
        return index, score, Segment(start, end, name, score=round(score, 4), text=description.description)

    def _segments(self) -> list[VideoSegment]:
        """Where frames may be looked for."""
        if self.settings.segment_selection:
            return self._timeline.segments(self._seen)
        return [self._timeline.unseen(self._seen)]

    def _outcome(self, chosen: Sequence[int], dropped: Sequence[int]) -> str:
        """What the retrieval gave, for readers of the trace."""

        def times(indices: Sequence[int]) -> str:
            return ", ".join(f"{self._timeline.time(index):.1f} s" for index in sorted(indices))

        left_out = f"; dropped: {times(dropped)}" if dropped else ""
        return f"{times(chosen) or 'no new frame'}{left_out}"

    def _conclusion(self) -> Answer:
        prediction = self._prediction
        if prediction is None:
            raw = next(step.raw for step in reversed(self.session.steps) if step.kind == "predict")
            return Answer(raw=raw)
        if self._confidence is not None:
            # From the levels 1 to 3 to a share of 1.
            self.claim = (self._confidence - LEVELS[0]) / (LEVELS[-1] - LEVELS[0])
        return written_answer(prediction.final_answer, self.session.question)


class Captions:
    """What the captioner says of a video. Thread-safe; each caption is made once in a process, by the first
    question that needs it, and counts as reused for the others."""

    def __init__(self, cache: CallCache[Step], video: str, captioner: dict[str, object], prompt: str) -> None:
        """`cache` is shared by all videos; `video` is the content id, `captioner` the model's identity."""
        self._cache = cache
        self._owner = (video, json.dumps(captioner, sort_keys=True, default=str), prompt)
        self._prompt = prompt

    def caption(self, session: Session, times: Sequence[float]) -> str:
        """The caption of the frames at `times` (s), recorded as a step of the session. Raises BudgetExceeded,
        BackboneError, VideoError."""
        moments = tuple(f"{time:.3f}" for time in times)

        def make() -> Step:
            # The same caption whichever question asks for it first.
            seed = derive_seed(session.seed, "caption", self._owner[0], *moments)
            session.tell(
                "caption",
                CAPTIONER,
                self._prompt,
                frames=session.frames(times, CAPTIONER),
                sampling=session.settings.sampling(seed),
            )
            return session.steps[-1]

        step, is_cached = self._cache.get((*self._owner, moments), make)
        if is_cached:
            session.reuse(step)
        return " ".join(step.raw.split())


def _segment_of(description: Description, segments: Sequence[VideoSegment]) -> VideoSegment:
    """The segment that a description names; the only one if it names none."""
    if description.segment_id is None:
        return segments[0]
    return next(segment for segment in segments if segment.number == description.segment_id)


def _named(descriptions: Descriptions | None, segments: Sequence[VideoSegment]) -> list[Segment]:
    """The segments that the language model named, for the trace."""
    if descriptions is None:
        return []
    named = []
    for each in descriptions.frame_descriptions:
        segment = _segment_of(each, segments)
        name = "" if each.segment_id is None else str(segment.number)
        named.append(Segment(segment.start, segment.end, name, text=each.description))
    return named


def _reads_instructions(model: AgentModel) -> bool:
    own = own_model(model.backbone) if isinstance(model, BackboneModel) else None
    return own is None or own.converses
