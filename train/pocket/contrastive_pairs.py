"""Clips of the pocket world with texts that fit them, for training the pocket encoder.

Clips are cut from the pool of `videopro.train.pocket.frames`; some span a change of scene, as the clips of an
index do. Texts are the world's own questions about scenes, and the short queries that programs write. Which
clips a text fits, and how well, follows from the facts of their scenes.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import processors
from transformers import PreTrainedTokenizerFast

from videopro.pocket.vocabulary import PHRASINGS
from videopro.train.pocket.architecture import build_tokenizer

CLIP_SECONDS = 10.0
# The share of clips that show the end of one scene and the beginning of another.
_CUT = 0.4

# The kinds of questions that name something visible, and the facts that they name besides the place.
_QUESTIONS: Mapping[str, tuple[str, ...]] = {
    "shape": ("actor",),
    "color": ("shape",),
    "move": ("shape",),
    "after": (),
    "before": (),
    "count": (),
    "sign": ("sign",),
}
# Queries as programs write them, and the facts that they name besides the place.
_QUERIES: Mapping[str, tuple[str, ...]] = {
    "{place}": (),
    "the {place}": (),
    "at the {place}": (),
    "a scene at the {place}": (),
    "the scene before and after the {place}": (),
    "{shape} at the {place}": ("shape",),
    "the {shape} at the {place}": ("shape",),
    "what the {shape} at the {place} does": ("shape",),
    "a {color} {shape} at the {place}": ("shape", "color"),
    "something at the {place}": ("actor",),
    "the sign at the {place}": ("sign",),
    "{place} sign": ("sign",),
}
_PLACELESS: Mapping[str, tuple[str, ...]] = {
    "{shape}": ("shape",),
    "the {shape}": ("shape",),
    "a {color} {shape}": ("shape", "color"),
    "the {color} {shape}": ("shape", "color"),
    "a sign": ("sign",),
    "the sign": ("sign",),
}
# The probabilities that a text is a question of the world, a query with a place, and one without.
_KINDS = (0.5, 0.4, 0.1)


def retriever_tokenizer() -> PreTrainedTokenizerFast:
    """The pocket model's tokenizer, which appends the end token, at which the embedding is taken."""
    tokenizer = build_tokenizer()
    tokenizer.chat_template = None
    end = str(tokenizer.eos_token)
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single=f"$A {end}", special_tokens=[(end, int(tokenizer.eos_token_id))]
    )
    return tokenizer


@dataclass(frozen=True)
class QueryText:
    """A text to search for, and the facts that a scene must have to fit it."""

    text: str
    needs: tuple[tuple[str, str | None], ...]
    """(fact, value); None: the fact must have some value."""

    def fits(self, attributes: Mapping[str, str | None]) -> bool:
        """Whether a scene with these facts fits the text."""
        return all(
            attributes[name] is not None and (value is None or attributes[name] == value)
            for name, value in self.needs
        )


def flatten_scene(scene: Mapping[str, Any]) -> dict[str, str | None]:
    """A scene's facts under the names that `QueryText.needs` uses."""
    actor = scene["actor"] or {}
    return {
        "place": scene["place"],
        "sign": scene["sign"],
        "actor": actor.get("shape"),
        "shape": actor.get("shape"),
        "color": actor.get("color"),
    }


def text_about(attributes: Mapping[str, str | None], rng: np.random.Generator) -> QueryText:
    """A text that fits a scene."""

    def possible(forms: Mapping[str, tuple[str, ...]]) -> list[str]:
        return [form for form, needs in forms.items() if all(attributes[need] is not None for need in needs)]

    kind = rng.choice(3, p=_KINDS)
    # A scene with neither actor nor sign has nothing to name but its place.
    if kind == 2 and not possible(_PLACELESS):
        kind = 1
    forms = (_QUESTIONS, _QUERIES, _PLACELESS)[kind]
    form = str(rng.choice(possible(forms)))
    needs = [(need, None if need in ("sign", "actor") else attributes[need]) for need in forms[form]]
    if kind < 2:
        needs.append(("place", attributes["place"]))
    phrase = str(rng.choice(PHRASINGS[form]["usual"])) if kind == 0 else form
    return QueryText(
        phrase.format(**{name: value for name, value in attributes.items() if value}), tuple(needs)
    )


@dataclass
class ClipTextBatch:
    """n clips and n texts, the i-th text about the i-th clip."""

    frames: np.ndarray
    """(n, clip_frames, height, width, 3) uint8."""
    texts: list[str]
    fit: np.ndarray
    """(n texts, n clips) float32: the share of a clip's frames that a text fits, 0 to 1."""


class ClipTextPairs:
    """Batches from a pool; the i-th batch is a pure function of (seed, i)."""

    def __init__(self, pool: Path, clip_frames: int, part: slice = slice(None)) -> None:
        """`part`: the scenes of the pool to use."""
        self.scenes = np.load(pool / "scenes.npy", mmap_mode="r")[part]
        annotations = json.loads((pool / "scenes.json").read_text())[part]
        self.seconds = [float(annotation["seconds"]) for annotation in annotations]
        self.attributes = [flatten_scene(annotation) for annotation in annotations]
        self.clip_frames = clip_frames

    def batch(self, size: int, seed: Sequence[int]) -> ClipTextBatch:
        """`size` clips and as many texts."""
        rng = np.random.default_rng(list(seed))
        clips, scenes_of_clips, texts = [], [], []
        for _ in range(size):
            frames, scenes = self._clip(rng)
            clips.append(frames)
            scenes_of_clips.append(scenes)
            texts.append(text_about(self.attributes[int(rng.choice(scenes))], rng))
        fit = [
            [
                float(np.mean([text.fits(self.attributes[scene]) for scene in scenes]))
                for scenes in scenes_of_clips
            ]
            for text in texts
        ]
        return ClipTextBatch(np.stack(clips), [text.text for text in texts], np.array(fit, dtype=np.float32))

    def _clip(self, rng: np.random.Generator) -> tuple[np.ndarray, list[int]]:
        """The frames of a 10 s clip, and the scene of each."""
        first = second = int(rng.integers(len(self.attributes)))
        cut = self.clip_frames
        if rng.random() < _CUT:
            cut = int(rng.integers(1, self.clip_frames))
            # No place of the world follows itself.
            while self.attributes[second]["place"] == self.attributes[first]["place"]:
                second = int(rng.integers(len(self.attributes)))
        step = CLIP_SECONDS / self.clip_frames
        frames = []
        for scene, count, at_end in (
            (first, cut, cut < self.clip_frames),
            (second, self.clip_frames - cut, False),
        ):
            if not count:
                continue
            seconds, room = self.seconds[scene], max(0.0, self.seconds[scene] - count * step)
            # As around a real cut: the end of the first scene, and the beginning of the second.
            start = room if at_end else 0.0 if scene is not first else float(rng.uniform(0, room))
            # Just inside the scene: at its very end, the index would be one too many.
            times = [min(start + (k + 0.5) * step, seconds - 1e-6) for k in range(count)]
            frames += [self.scenes[scene][int(t / seconds * self.scenes.shape[1])] for t in times]
        return np.stack(frames), [first] * cut + [second] * (self.clip_frames - cut)
