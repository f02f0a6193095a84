"""Exchanges that teach VideoAgent's prompts: the answer by what captions say, the confidence, and the search.

The states are those of searches through the method's own timeline, segments and prompts, with captions as the
pocket model writes them (`captions`). The language model sees text alone, so all exchanges of a state share
its captions, and cost little. The teacher says only what the captions say, also where they are mistaken, and
looks only where they leave room: where nothing was seen, it does not know what there is.

A reason first names the place that is asked for, and then what the captions say of it: a small model finds
what stands with a word most easily once it has written the word.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise

import numpy as np

from videopro.methods.videoagent import (
    Prediction,
    State,
    Timeline,
    VideoAgentSettings,
    VideoSegment,
    predict_prompt,
    reflect_prompt,
    search_prompt,
    without_neighbours,
)
from videopro.pocket.questions import generate_questions
from videopro.question import Question, prompts
from videopro.train.pocket.agents.captions import Caption, drawn_caption
from videopro.train.pocket.agents.lvagent import key_of
from videopro.train.pocket.agents.views import DrawnVideo
from videopro.train.pocket.agents.witness import LOCAL, SPOKEN, WHOLE_VIDEO, Witness
from videopro.train.pocket.qa_pairs import PocketExample, QAPair, Rng

SETTINGS = VideoAgentSettings()
"""The method's own: one frame a second, five first frames, three rounds."""
FRAMES = (16, 16, 16, 8, 4, None)
"""Frames in a state: those of preset "equal" at the budgets that methods are compared at; None: no limit, and
the paper's first frames."""
LOOKS = 4
"""Descriptions in a search for what no frame shows: two searches fill a state of 16 frames that begins with
eight."""
SHORTEST = 8.0
"""Seconds: the length of the shortest scene, so that a shorter gap between two frames hides none."""
EVEN = 2
"""Frames: segments that differ by no more than this are of the same width, since first frames are rounded to
seconds."""
UNKNOWN, PARTLY, CERTAIN = 1, 2, 3


@dataclass(frozen=True)
class Evidence:
    """What captions tell about a question."""

    reason: str
    option: str
    """The option that they speak for; empty if there is none."""
    confidence: int


def evidence_of(witness: Witness, captions: Sequence[Caption], duration: float) -> Evidence:
    """What the captions, by time, of a video of `duration` seconds tell about a question."""
    kind, place = witness.labelled.kind, witness.place
    if kind in SPOKEN:
        return Evidence("No frame shows it.", "", UNKNOWN)
    if kind == "weather":
        weather = _most(caption.weather for caption in captions)
        return _settled(witness, f"It is {weather}.", weather)
    if kind == "main_place":
        main = _most(caption.place for caption in captions)
        return _settled(witness, f"Most frames show the {main}.", main)
    there = [caption for caption in captions if caption.place == place]
    if not there:
        return Evidence(f"The {place} is not shown.", "", UNKNOWN)
    if kind == "count":
        return _counted(witness, captions, duration)
    if kind in ("before", "after"):
        return _beside(witness, captions)
    if kind in ("color", "shape", "move") and there[0].actor is not None:
        values = [str(getattr(caption.actor, kind)) for caption in there if caption.actor is not None]
        seen = there[values.index(_most(values))].actor
        assert seen is not None
        reason = f"The {place} shows a {seen.color} {seen.shape} that {seen.move}."
        return _settled(witness, reason, _most(values))
    # No caption says what a sign says.
    return Evidence(f"The {place} is shown.", "", PARTLY)


def _most(values: Iterable[str]) -> str:
    """The most frequent word; of equally frequent ones, the first."""
    ((word, _),) = Counter(values).most_common(1)
    return word


def _settled(witness: Witness, reason: str, option: str) -> Evidence:
    """What is known if it is an option: a mistaken caption may name none."""
    if option in witness.question.choices:
        return Evidence(reason, option, CERTAIN)
    return Evidence(reason, "", PARTLY)


def _counted(witness: Witness, captions: Sequence[Caption], duration: float) -> Evidence:
    place, times = witness.place, [0.0, *(caption.time for caption in captions), duration]
    visits = str(sum(named == place for named, _ in groupby(caption.place for caption in captions)))
    if all(later - time < SHORTEST for time, later in pairwise(times)):
        return _settled(witness, f"The {place} is shown {visits} times.", visits)
    option = visits if visits in witness.question.choices else ""
    return Evidence(f"The {place} is shown {visits} times or more.", option, PARTLY)


def _beside(witness: Witness, captions: Sequence[Caption]) -> Evidence:
    kind, place = witness.labelled.kind, witness.place
    ordered = captions if kind == "after" else captions[::-1]
    last = max(at for at, caption in enumerate(ordered) if caption.place == place)
    if last + 1 == len(ordered):
        return Evidence(f"The {place} is shown.", "", PARTLY)
    near, gap = ordered[last + 1].place, abs(ordered[last + 1].time - ordered[last].time)
    if gap < SHORTEST:
        return _settled(witness, f"The {place}, right {kind} it the {near}.", near)
    option = near if near in witness.question.choices else ""
    return Evidence(f"The {place}, {kind} it the {near}.", option, PARTLY)


def _letter(question: Question, option: str) -> str:
    return question.letters[question.choices.index(option)]


# ---- where to look ---------------------------------------------------------------------------------------


def query_of(witness: Witness) -> str:
    """What a frame to look for shows, in the words of the pocket retriever's queries."""
    if witness.labelled.kind in LOCAL or not witness.place:
        return key_of(witness)
    return f"the {witness.place}"


def segments_to_search(
    witness: Witness, captions: Sequence[Caption], segments: Sequence[VideoSegment]
) -> list[int]:
    """The numbers of the segments to look in. For one moment that a frame shows: beside this frame, on the
    side that is asked for. Else the first ones of the widest, up to `LOOKS`."""
    kind, place = witness.labelled.kind, witness.place
    times = [caption.time for caption in captions if caption.place == place]
    if times and kind in LOCAL:
        after = [part.number for part in segments if kind != "before" and part.start == times[-1]]
        before = [part.number for part in segments if kind != "after" and part.end == times[0]]
        if before or after:
            return [*before, *after]
    widest = max(len(part.indices) for part in segments)
    return [part.number for part in segments if len(part.indices) >= widest - EVEN][:LOOKS]


# ---- the states of a search ------------------------------------------------------------------------------


@dataclass
class CaptionSearch:
    """The state of a search: the frames that were seen of a video, and their captions."""

    rng: Rng
    video: DrawnVideo
    frames: int | None
    """How many frames it may see; None: any number."""
    miss: float
    """The share of descriptions for which the retriever brings any frame of the segment."""
    timeline: Timeline = field(init=False)
    seen: dict[int, Caption] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.timeline = Timeline(self.video.duration, SETTINGS.fps)
        count = SETTINGS.first_frames if self.frames is None else (self.frames + 1) // 2
        self._see(self.timeline.uniform(count))

    def _see(self, indices: Sequence[int]) -> None:
        for index in indices:
            self.seen[index] = drawn_caption(self.rng, self.video, self.timeline.time(index))

    @property
    def captions(self) -> list[Caption]:
        """By time."""
        return [self.seen[index] for index in sorted(self.seen)]

    @property
    def segments(self) -> list[VideoSegment]:
        """Where frames may be looked for; empty if no more may be seen."""
        room = None if self.frames is None else self.frames - len(self.seen)
        return [] if room == 0 else self.timeline.segments(self.seen)

    @property
    def state(self) -> State:
        """As the method's prompts take it."""
        captions = self.captions
        return State(self.timeline.duration, tuple(c.time for c in captions), tuple(c.text for c in captions))

    def evidence(self, witness: Witness) -> Evidence:
        """What the state tells about a question."""
        return evidence_of(witness, self.captions, self.timeline.duration)

    def look(self, witness: Witness) -> None:
        """One round: what the retriever finds for the teacher's descriptions joins the state."""
        segments = self.segments
        similarities: dict[int, float] = {}
        for number in segments_to_search(witness, self.captions, segments):
            (part,) = (part for part in segments if part.number == number)
            there = [index for index in part.indices if self._shows(index, witness.place)]
            is_hit = bool(there) and self.rng.random() >= self.miss
            # A frame of the place is more similar to the description than any other.
            similarities[int(self.rng.choice(there if is_hit else part.indices))] = is_hit + self.rng.random()
        room = None if self.frames is None else self.frames - len(self.seen)
        self._see(without_neighbours(self.seen, similarities)[:room])

    def _shows(self, index: int, name: str) -> bool:
        return self.video.scene_at(self.timeline.time(index)).place == name

    # ---- exchanges -----------------------------------------------------------------------------------------

    def answer_pairs(self, witness: Witness) -> list[QAPair]:
        """The request for an answer and the one for the confidence in it, with their replies. What captions
        do not tell is guessed: always the first letter, as good as any, since a random one is only noise."""
        evidence, question = self.evidence(witness), witness.question
        letter = _letter(question, evidence.option) if evidence.option else question.letters[0]
        reply = Prediction(reasoning=evidence.reason, final_answer=letter)
        return [
            (predict_prompt(question, self.state), json.dumps(reply.model_dump())),
            (reflect_prompt(question, self.state, reply), json.dumps({"confidence": evidence.confidence})),
        ]

    def familiar_pairs(self, witness: Witness) -> list[QAPair]:
        """The same question in forms that the pocket model knows, if the captions tell the answer: so that it
        goes on reading descriptions as it learned to."""
        evidence, question = self.evidence(witness), witness.question
        if not evidence.option:
            return []
        context = predict_prompt(question, self.state).partition("\nQuestion: ")[0]
        return [
            (f"{context}\n{prompts.multiple_choice(question)}", _letter(question, evidence.option)),
            # With a leading space, the word is the same token as in the options.
            (f"{context}\n{prompts.open_ended(question.text)}", f" {evidence.option}"),
        ]

    def search_pair(self, witness: Witness) -> QAPair:
        """The request for what to look for, and its reply. `duration` is left out: the method does not read
        it, and most of its tokens would be digits to copy."""
        segments, query = self.segments, query_of(witness)
        numbers = segments_to_search(witness, self.captions, segments)
        reply = {"frame_descriptions": [{"segment_id": n, "description": query} for n in numbers]}
        return search_prompt(witness.question, self.state, segments), json.dumps(reply)


def state_rows(rng: Rng, questions: int = 8, searches: int = 2, miss: float = 0.2) -> list[PocketExample]:
    """The exchanges in one state of a search through a random video: answers to `questions` of its
    questions, the confidence in a third of them, and what to look for, for up to `searches` of those that
    captions do not settle. `miss`: as of `CaptionSearch`."""
    video = DrawnVideo(int(rng.integers(1_000_000)))
    draws = rng.choice(6, 2, replace=False)
    drawn = [question for draw in draws for question in generate_questions(video.script, draw=int(draw))]
    witnesses = [Witness(video, question) for question in drawn]
    search = CaptionSearch(rng, video, FRAMES[int(rng.integers(len(FRAMES)))], miss)
    local = [witness for witness in witnesses if witness.labelled.kind in LOCAL]
    lead = local[int(rng.integers(len(local)))]
    for _ in range(int(rng.integers(SETTINGS.max_rounds))):
        if not search.segments or search.evidence(lead).confidence >= SETTINGS.threshold:
            break
        search.look(lead)
    selected = _drawn_questions(rng, search, [each for each in witnesses if each is not lead], questions - 1)
    selected.insert(int(rng.integers(questions)), lead)
    pairs = []
    for number, witness in enumerate(selected):
        answer, confidence = search.answer_pairs(witness)
        pairs += [answer, confidence] if number % 3 == 0 else [answer]
        pairs += search.familiar_pairs(witness)
    if search.segments:
        open_ = [each for each in selected if search.evidence(each).confidence < SETTINGS.threshold]
        pairs += [search.search_pair(witness) for witness in open_[:searches]]
    return [PocketExample(pairs)]


def _drawn_questions(
    rng: Rng, search: CaptionSearch, witnesses: Sequence[Witness], count: int
) -> list[Witness]:
    """Random questions: fewer of those of which the captions tell nothing, since most are such, and of those
    that need no place."""
    shares = np.array(
        [
            0.1 if each.labelled.kind in SPOKEN else 0.25 if _is_easy(search, each) else 1.0
            for each in witnesses
        ]
    )
    order = rng.choice(len(witnesses), count, replace=False, p=shares / shares.sum())
    return [witnesses[int(index)] for index in order]


def _is_easy(search: CaptionSearch, witness: Witness) -> bool:
    return witness.labelled.kind in WHOLE_VIDEO or search.evidence(witness).confidence == UNKNOWN
