"""The pocket model's training data with pictures: exchanges about scenes, whole videos, stills and crops.

A row has frames (as a video), a picture, or neither, and several exchanges about it
(`videopro.train.pocket.qa_pairs`).
"""

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from videopro.pocket import questions
from videopro.pocket.drawing import HEIGHT, WIDTH
from videopro.pocket.script import make_script
from videopro.pocket.vocabulary import PHRASINGS, PLACES, SHAPES, SIGNS
from videopro.question import Question, prompts
from videopro.train.pocket.qa_pairs import (
    FOUND_TASKS,
    LOCAL,
    POOLS,
    PocketExample,
    QAPair,
    Rng,
    choose,
    lettered_pair,
    open_pair,
    question_pair,
)


class VisionTasks:
    """Makes training rows from the frames of `videopro.train.pocket.frames`."""

    def __init__(self, folder: Path) -> None:
        load = lambda name: np.load(folder / f"{name}.npy", mmap_mode="r")  # noqa: E731
        self.scenes, self.stills, self.videos = load("scenes"), load("stills"), load("videos")
        self.annotations = json.loads((folder / "scenes.json").read_text())
        self.video_annotations = json.loads((folder / "videos.json").read_text())
        self._sort()

    def _sort(self) -> None:
        self.acted = [i for i, f in enumerate(self.annotations) if f["actor"]]
        self.signed = [i for i, f in enumerate(self.annotations) if f["sign"]]

    def keep(self, scenes: slice, videos: slice) -> None:
        """Use only these scenes and videos from now on."""
        self.annotations, self.scenes, self.stills = (
            self.annotations[scenes],
            self.scenes[scenes],
            self.stills[scenes],
        )
        self.video_annotations, self.videos = self.video_annotations[videos], self.videos[videos]
        self._sort()

    def scene_row(self, rng: Rng) -> PocketExample:
        """Two to sixteen frames of one scene."""
        # A scene without an actor has little to ask about.
        index = (
            int(rng.choice(self.acted)) if rng.random() < 0.85 else int(rng.integers(len(self.annotations)))
        )
        annotation = self.annotations[index]
        count = int(rng.choice([2, 4, 6, 8, 16], p=[0.15, 0.35, 0.15, 0.25, 0.1]))
        # Evenly over the scene where that is possible.
        step = 16 // count if 16 % count == 0 else 2
        first = int(rng.integers(16 - step * (count - 1)))
        indices = first + step * np.arange(count)
        # Mostly as far apart as they were; else as any sampling might have them.
        spacing = annotation["seconds"] / 16 if rng.random() < 0.7 else float(rng.uniform(0.25, 4))
        start = float(rng.uniform(0, 1000)) if rng.random() < 0.6 else float(rng.uniform(0, 100))
        many = 5 if count < 16 else 6
        exchanges = [self._about(rng, annotation, count) for _ in range(many)]
        return PocketExample(
            exchanges, self.scenes[index][indices], [start + spacing * float(i) for i in indices]
        )

    def _about(self, rng: Rng, annotation: dict, count: int) -> QAPair:
        """An exchange about a single scene."""
        roll = rng.random()
        actor, place = annotation["actor"], annotation["place"]
        if roll < 0.08:
            return prompts.caption(), f" {describe(annotation)}"
        if roll < 0.28:
            return self._yes_no(rng, annotation)
        if roll < 0.40 or actor is None:
            kind = "place" if rng.random() < 0.55 else "weather"
            return question_pair(rng, choose(rng, LOCAL[kind]), annotation[kind], POOLS[kind])
        if roll < 0.44 and annotation["sign"]:
            form = choose(rng, (*LOCAL["sign"], *PHRASINGS["sign"]["usual"])).format(place=place)
            return question_pair(rng, form, annotation["sign"], SIGNS)
        if roll < 0.52:
            return FOUND_TASKS[int(rng.integers(len(FOUND_TASKS)))](rng)  # found text, besides frames
        kind = choose(rng, ("color", "color", "shape", "shape", "move") if count > 2 else ("color", "shape"))
        forms = PHRASINGS[kind]["usual"] if rng.random() < 0.6 else LOCAL[kind]
        text = choose(rng, forms).format(place=place, shape=actor["shape"])
        return question_pair(rng, text, actor[kind], POOLS[kind])

    def _yes_no(self, rng: Rng, annotation: dict) -> QAPair:
        """A true statement about a scene as a question, or the same with one word changed."""
        actor, true = annotation["actor"], bool(rng.random() < 0.5)

        def word(kind: str, right: str) -> str:
            return right if true else choose(rng, [o for o in POOLS[kind] if o != right])

        if actor is None or rng.random() < 0.4:
            place = word("place", annotation["place"])
            form = choose(rng, ("Is this the {}?", "Is this at the {}?", "Do we see the {} here?"))
            return prompts.yes_no(form.format(place)), "Yes" if true else "No"
        roll = rng.random()
        if roll < 0.35:
            text = choose(rng, ("Is there a {}?", "Do we see a {}?")).format(word("shape", actor["shape"]))
        elif roll < 0.6:
            text = f"Is the {actor['shape']} {word('color', actor['color'])}?"
        elif roll < 0.8:
            color = word("color", actor["color"])
            text = choose(rng, ("Is there a {} {}?", "Do we see a {} {}?")).format(color, actor["shape"])
        elif roll < 0.9:
            return prompts.yes_no("Is there a sign?"), "Yes" if annotation["sign"] else "No"
        else:
            text = f"Is it {word('weather', annotation['weather'])} here?"
        return prompts.yes_no(text), "Yes" if true else "No"

    def look_row(self, rng: Rng, size: tuple[int, int], open_share: float) -> PocketExample:
        """An object from near to far: cropped tightly, loosely, or in the whole picture.

        The colour and shape of an object that fills a sixtieth of a frame cannot be learned at first; if it
        fills the picture they can, and this transfers. `open_share` is the share of answers in words, which
        are learned before letters.
        """
        index = int(rng.choice(self.acted))
        annotation, full_frame = self.annotations[index], rng.random() < 0.25
        exchanges = [self._about_look(rng, annotation, full_frame, open_share) for _ in range(5)]
        if full_frame:
            return PocketExample(exchanges, picture=resized(self.stills[index], size))
        still = self.stills[index]
        x0, y0, x1, y1 = annotation["actor_box"]
        room = float(rng.choice([0.15, 0.5, 1.0, 1.8]))
        dx, dy = (x1 - x0) * room, (y1 - y0) * room
        left, right = int(max(0, x0 - dx * rng.random())), int(min(WIDTH, x1 + dx * rng.random()))
        top, bottom = int(max(0, y0 - dy * rng.random())), int(min(HEIGHT, y1 + dy * rng.random()))
        return PocketExample(exchanges, picture=resized(still[top:bottom, left:right], size))

    def glance_row(self, rng: Rng, open_share: float) -> PocketExample:
        """Two frames of a scene, with exchanges about what is in them."""
        index, first = int(rng.choice(self.acted)), int(rng.integers(15))
        exchanges = [self._about_look(rng, self.annotations[index], True, open_share) for _ in range(5)]
        return PocketExample(exchanges, self.scenes[index][first : first + 2], [first / 2, first / 2 + 0.5])

    def _about_look(self, rng: Rng, annotation: dict, full_frame: bool, open_share: float) -> QAPair:
        actor = annotation["actor"]
        kind = choose(
            rng, ("color", "color", "shape", "shape", *(("place", "weather") if full_frame else ()))
        )
        text = choose(rng, LOCAL[kind]).format(shape=actor["shape"])
        answer = actor[kind] if kind in actor else annotation[kind]
        return (
            open_pair(text, answer)
            if rng.random() < open_share
            else lettered_pair(rng, text, answer, POOLS[kind])
        )

    def joined_row(self, rng: Rng, most: int) -> PocketExample:
        """Frames of two to `most` scenes in sequence: which is which, and which comes next."""
        count = int(rng.integers(2, most + 1))
        picked: list[int] = []
        # Different places: a question that names one of them has one answer.
        while len(picked) < count:
            index = int(rng.choice(self.acted))
            if self.annotations[index]["place"] not in [self.annotations[i]["place"] for i in picked]:
                picked.append(index)
        total = 8 if count <= 3 and rng.random() < 0.6 else 16
        cuts = np.sort(rng.choice(np.arange(1, total), count - 1, replace=False))
        shares = np.diff([0, *cuts, total])
        parts, times, time = [], [], float(rng.uniform(0, 900))
        spacing = float(rng.uniform(0.5, 8))
        for index, share in zip(picked, shares, strict=True):
            indices = np.sort(rng.choice(16, int(share), replace=False))
            parts.append(self.scenes[index][indices])
            times += [time + spacing * i for i in range(int(share))]
            time = times[-1] + spacing
        annotations = [self.annotations[i] for i in picked]
        exchanges = [self._among(rng, annotations) for _ in range(6)]
        return PocketExample(exchanges, np.concatenate(parts), times)

    def _among(self, rng: Rng, annotations: list[dict]) -> QAPair:
        """An exchange about one of several scenes."""
        at = int(rng.integers(len(annotations)))
        annotation, actor = annotations[at], annotations[at]["actor"]
        roll = rng.random()
        if roll < 0.62:
            kind = choose(rng, ("color", "color", "shape", "shape", "move"))
            text = choose(rng, PHRASINGS[kind]["usual"]).format(
                place=annotation["place"], shape=actor["shape"]
            )
            pool = POOLS[kind]
            if rng.random() < 0.4:  # options that are all visible, so that a guess is not enough
                sight = tuple(dict.fromkeys(f["actor"][kind] for f in annotations))
                pool = sight if len(sight) > 1 else pool
            return question_pair(rng, text, actor[kind], pool)
        if roll < 0.85:
            back = bool(rng.random() < 0.5)
            at = int(rng.integers(1, len(annotations))) if back else int(rng.integers(len(annotations) - 1))
            other = annotations[at - 1 if back else at + 1]["place"]
            text = choose(rng, PHRASINGS["before" if back else "after"]["usual"]).format(
                place=annotations[at]["place"]
            )
            # No place of the world follows itself, so the named one would be no real option.
            return question_pair(rng, text, other, [p for p in PLACES if p != annotations[at]["place"]])
        there = bool(rng.random() < 0.5)
        seen = [f["place"] for f in annotations]
        place = choose(rng, seen if there else [p for p in PLACES if p not in seen])
        text = choose(rng, ("Does the video show the {}?", "Do we see the {} here?")).format(place)
        return prompts.yes_no(text), "Yes" if there else "No"

    def video_row(self, rng: Rng) -> PocketExample:
        """A whole video from 16 uniform frames, with the world's own kinds of questions."""
        index = int(rng.integers(len(self.video_annotations)))
        annotation = self.video_annotations[index]
        drawn = draw_questions(annotation["length"], annotation["seed"], int(rng.integers(6)))
        # Pictures do not show what is told; text rows teach that.
        weights = np.array([0.5 if q.family in ("story", "narration", "sign") else 1.5 for q in drawn])
        numbers = rng.choice(len(drawn), 6, replace=False, p=weights / weights.sum())
        exchanges = []
        for question in [drawn[int(i)] for i in numbers]:
            prompt = prompts.multiple_choice(Question(question.text, question.choices))
            exchanges.append((prompt, question.answer))
        return PocketExample(exchanges, self.videos[index], annotation["times"])

    def picture_row(self, rng: Rng, size: tuple[int, int]) -> PocketExample:
        """A whole picture, with exchanges about boxes and the scene, or a crop of a sign. `size`: (h, w) of a
        whole picture.
        """
        if rng.random() < 0.3:
            return self._sign_row(rng)
        index = int(rng.integers(len(self.annotations)))
        annotation = self.annotations[index]
        exchanges = [self._located(rng, annotation) for _ in range(3)]
        exchanges.append(self._about(rng, annotation, 1))
        return PocketExample(exchanges, picture=resized(self.stills[index], size))

    def box_row(self, rng: Rng, size: tuple[int, int]) -> PocketExample:
        """A whole picture with exchanges about boxes; signs, which few scenes have, are oversampled."""
        index = int(rng.choice(self.signed if rng.random() < 0.3 else self.acted))
        exchanges = [self._located(rng, self.annotations[index]) for _ in range(2)]
        return PocketExample(exchanges, picture=resized(self.stills[index], size))

    def _located(self, rng: Rng, annotation: dict) -> QAPair:
        actor = annotation["actor"]
        kinds = [k for k in ("actor", "sign") if annotation[k]]
        if not kinds or rng.random() < 0.12:
            missing = [s for s in SHAPES if actor is None or s != actor["shape"]]
            return prompts.locate(choose(rng, missing)), "[]"
        kind = choose(rng, kinds) if rng.random() < 0.7 else kinds[0]
        if kind == "sign":
            name = "sign"
        else:
            assert actor is not None
            name = actor["shape"] if rng.random() < 0.6 else f"{actor['color']} {actor['shape']}"
        return prompts.locate(name), box_text(annotation[f"{kind}_box"])

    def _sign_row(self, rng: Rng) -> PocketExample:
        """A tight or loose crop of a sign, with exchanges about what it says."""
        index = int(rng.choice(self.signed))
        annotation, still = self.annotations[index], self.stills[index]
        x0, y0, x1, y1 = annotation["sign_box"]
        room = float(rng.choice([0.05, 0.2, 0.5, 1.0]))
        dx, dy = (x1 - x0) * room, (y1 - y0) * room
        left, right = int(max(0, x0 - dx * rng.random())), int(min(WIDTH, x1 + dx * rng.random() + 1))
        # One more pixel: the smallest crop is not empty.
        top, bottom = int(max(0, y0 - dy * rng.random())), int(min(HEIGHT, y1 + dy * rng.random() + 1))
        part = still[top:bottom, left:right]
        forms = (*LOCAL["sign"], *(f.format(place=annotation["place"]) for f in PHRASINGS["sign"]["usual"]))
        exchanges = [question_pair(rng, choose(rng, forms), annotation["sign"], SIGNS) for _ in range(3)]
        return PocketExample(exchanges, picture=part)


def describe(annotation: dict) -> str:
    """The caption of a scene."""
    actor = annotation["actor"]
    who = f"A {actor['color']} {actor['shape']} {actor['move']}" if actor else "Nothing moves"
    return f"{who} at the {annotation['place']}. It is {annotation['weather']}."


def box_text(box: Sequence[float]) -> str:
    """A box in pixels in Qwen3-VL's format: JSON with relative coordinates from 0 to 1000."""
    x0, y0, x1, y1 = (
        round(v * 1000 / extent) for v, extent in zip(box, (WIDTH, HEIGHT, WIDTH, HEIGHT), strict=True)
    )
    return f'{{"bbox_2d": [{x0}, {y0}, {x1}, {y1}]}}'


@lru_cache(maxsize=20_000)
def draw_questions(length: str, seed: int, draw: int) -> list[questions.PocketQuestion]:
    """The world's questions about a video, from another draw than the split's own."""
    return questions.generate_questions(make_script(length, seed), draw=draw)


def resized(picture: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    from PIL import Image

    height, width = size
    return np.asarray(Image.fromarray(np.asarray(picture)).resize((width, height), Image.Resampling.BICUBIC))
