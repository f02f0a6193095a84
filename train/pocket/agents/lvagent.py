"""Exchanges that teach LVAgent's prompts: whether to see the whole video, what to look for, the answer, its
reason, and the scores of a discussion.

An answer's reason is what the frames show (`witness`), and reasons decide the scores: 9 if the frames show
the answer, 5 if only its place, 3 if neither, 1 if they show another. Agents see different frames, so those
whose frames missed the evidence say so, and get the lower scores. They differ in weights: each continues
from one first training with its own questions (`FOCUS`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np

from videopro.methods.lvagent import (
    Opinion,
    answer_prompt,
    history_prompt,
    key_prompt,
    reason_prompt,
    scores_prompt,
    whole_prompt,
)
from videopro.pocket.questions import generate_questions
from videopro.pocket.vocabulary import FAMILIES
from videopro.train.pocket.agents.views import DrawnVideo
from videopro.train.pocket.agents.witness import AGAINST, ANSWER_SEEN, LOCAL, NOTHING, PLACE_SEEN, Witness
from videopro.train.pocket.qa_pairs import PocketExample, QAPair, Rng
from videopro.video import uniform_times

GLANCE, FRAMES, CHUNKS, KEY_LENGTH, AGENTS = 4, (16, 16, 16, 8, 4), 6, 50, 3
"""The method's own settings, and a team of three. A second look has as many frames as one of the budgets that
methods are compared at."""

POINTS: Mapping[str, int] = {ANSWER_SEEN: 9, PLACE_SEEN: 5, NOTHING: 3, AGAINST: 1}

FOCUS: Mapping[str, tuple[str, ...]] = {
    "lvagent": tuple(FAMILIES),
    "lvagent-looks": ("color", "shape", "move", "sign"),
    "lvagent-times": ("before", "after", "count", "main_place"),
    "lvagent-words": ("spoken", "narration", "story", "weather"),
}
"""Kinds of questions that an agent is asked three times as often as others."""

_KEYS: Mapping[str, str] = {
    "color": "the {shape} at the {place}",
    "shape": "something at the {place}",
    "move": "the {shape} at the {place}",
    "sign": "the sign at the {place}",
    "before": "the {place}",
    "after": "the {place}",
}


def discussion_rows(rng: Rng, focus: str = "lvagent") -> list[PocketExample]:
    """The exchanges about one video: of a first glance, of answers and reasons, and of a discussion."""
    video = DrawnVideo(int(rng.integers(1_000_000)))
    drawn = generate_questions(video.script, draw=int(rng.integers(6)))
    # Members of a team have to differ, or they never disagree.
    shares = np.array([3.0 if question.kind in FOCUS[focus] else 1.0 for question in drawn])
    order = rng.choice(len(drawn), len(drawn), replace=False, p=shares / shares.sum())
    witnesses = [Witness(video, drawn[int(index)]) for index in order]
    return [
        *glance_rows(rng, video, witnesses),
        *answer_rows(rng, video, witnesses),
        PocketExample([score_pair(rng, witness) for witness in witnesses[:3]]),
    ]


def key_of(witness: Witness) -> str:
    """What to look for, in the words of the pocket retriever's queries."""
    kind = witness.labelled.kind
    if kind not in _KEYS:
        return "the whole video"
    (scene,) = witness.video.script.visits(witness.place)
    shape = scene.actor.shape if scene.actor is not None else "scene"
    return _KEYS[kind].format(place=witness.place, shape=shape)


def glance_rows(rng: Rng, video: DrawnVideo, witnesses: Sequence[Witness]) -> list[PocketExample]:
    """A few random frames: is the whole video needed; and what to look for, in a row of its own with other
    draws of the questions too, since copying a name from a question is what is learned last."""
    times = random_times(rng, 0.0, video.duration, GLANCE)
    needs = [(whole_prompt(w.question, context_of(rng, w, times)), is_whole_needed(w)) for w in witnesses[:6]]
    again = generate_questions(video.script, draw=int(rng.integers(6, 12)))
    local = [
        w for w in (*witnesses, *(Witness(video, question) for question in again)) if w.labelled.kind in LOCAL
    ]
    keys = [(key_prompt(w.question, context_of(rng, w, times), KEY_LENGTH), key_of(w)) for w in local]
    # Exchanges share the text with which all begin: the lines, unless a history comes before them.
    return [example(rng, video, times, needs), example(rng, video, times, keys)]


def is_whole_needed(witness: Witness) -> str:
    """Yes or No: a moment can be looked for, the rest cannot."""
    return "No" if witness.labelled.kind in LOCAL else "Yes"


def answer_rows(rng: Rng, video: DrawnVideo, witnesses: Sequence[Witness]) -> list[PocketExample]:
    """The second look: answers of what the frames and lines tell, one that they do not, and reasons."""
    times = look(rng, witnesses[0])
    answerable = [witness for witness in witnesses if witness.is_answerable(times)]
    unanswerable = [witness for witness in witnesses if witness not in answerable]
    selected = [*answerable[:5], *unanswerable[:1]]
    answers = [(answer_prompt(w.question, context_of(rng, w, times)), w.labelled.answer) for w in selected]
    reasons = []
    for witness in [*answerable[:2], *unanswerable[:1]]:
        letter = opinion_letter(rng, witness, times)
        reasons.append((reason_prompt(witness.question, letter), witness.testimony(times)[0]))
    return [example(rng, video, times, answers), example(rng, video, times, reasons)]


def look(rng: Rng, witness: Witness) -> list[float]:
    """The times (s) of a second look: uniform over the whole video, or at random in one of its chunks."""
    duration, frames = witness.video.duration, int(rng.choice(FRAMES))
    if witness.labelled.kind not in LOCAL or rng.random() < 0.2:
        return uniform_times(0.0, duration, frames)
    (start, end), *_ = witness.labelled.evidence
    chunk = int((start + end) / 2 * CHUNKS / duration)
    if rng.random() < 0.25:  # the retriever is not always right
        chunk = int(rng.integers(CHUNKS))
    return random_times(rng, duration * chunk / CHUNKS, duration * (chunk + 1) / CHUNKS, frames)


def opinion_letter(rng: Rng, witness: Witness, times: Sequence[float]) -> str:
    """What an agent answers that sees these frames: right if they tell it, else any letter."""
    if witness.is_answerable(times):
        return witness.labelled.answer
    return str(rng.choice(list(witness.question.letters)))


def opinions_of(rng: Rng, witness: Witness, numbers: Sequence[int]) -> tuple[list[Opinion], dict[int, int]]:
    """The opinions of agents that looked at different frames, and the points that each deserves. An agent
    that sees the right answer fails to give it once in ten times."""
    opinions, points = [], {}
    for number in numbers:
        times = look(rng, witness)
        letter = opinion_letter(rng, witness, times)
        if rng.random() < 0.1:
            letter = str(rng.choice(list(witness.question.letters)))
        opinions.append(Opinion(number, letter, witness.testimony(times)[0]))
        points[number] = POINTS[witness.support(times, letter)]
    return opinions, points


def score_pair(rng: Rng, witness: Witness) -> QAPair:
    """The scores of all agents in the discussion, at times without one that has left."""
    numbers = list(range(1, AGENTS + 1))
    if rng.random() < 0.3:
        numbers.remove(int(rng.choice(numbers)))
    opinions, points = opinions_of(rng, witness, numbers)
    for _ in range(8):  # agents that agree do not discuss; some questions leave them no doubt
        if len({opinion.letter for opinion in opinions}) > 1:
            break
        opinions, points = opinions_of(rng, witness, numbers)
    return scores_prompt(witness.question, opinions), json.dumps({str(n): points[n] for n in numbers})


def context_of(rng: Rng, witness: Witness, times: Sequence[float]) -> str:
    """The subtitle lines at the frames; one time in five after the history of a discussion."""
    lines = witness.lines(times)
    if rng.random() < 0.8:
        return "\n".join(lines)
    opinions, points = opinions_of(rng, witness, range(1, AGENTS + 1))
    removed = min(opinions, key=lambda opinion: (points[opinion.number], -opinion.number))
    # As if all agents had given the same points.
    sums = {number: AGENTS * each for number, each in points.items()}
    return "\n".join([history_prompt(witness.question, opinions, sums, removed), *lines])


def random_times(rng: Rng, start: float, end: float, count: int) -> list[float]:
    """`count` times (s) at random in start..end, ascending."""
    return sorted(float(time) for time in rng.uniform(start, end, count))


def example(rng: Rng, video: DrawnVideo, times: Sequence[float], pairs: Sequence[QAPair]) -> PocketExample:
    """Exchanges about the frames at `times` (s)."""
    return PocketExample(list(pairs), video.frames(times, int(rng.integers(18, 25))), list(times))
