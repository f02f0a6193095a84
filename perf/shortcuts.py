"""What counting solves of pocket's questions, without locating anything in the video: with perfect eyes and
ears, from the scripts.

    python -m perf.shortcuts [--output perf/shortcuts.json]

A shortcut scores each option by how much of the whole video has it, and takes the option with the highest
score; among equal ones it guesses, so that a shortcut which says nothing has 25 %. No model runs. The pages
take for each family the shortcut that is best on train, and show its share on test and on the fresh world of
docs/results/pocket-fresh."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from perf import ROOT
from perf.command import run_command
from perf.recorded import print_tables
from perf.recording import write_record
from videopro.cli import setting
from videopro.pocket import world
from videopro.pocket.questions import LETTERS, PocketQuestion, generate_questions
from videopro.pocket.script import Scene, Script, make_script

WORLDS: Mapping[str, tuple[str, int | None]] = {
    "train": ("train", None),
    "test": ("test", None),
    "fresh": ("fresh", 20261125),
}
"""Split and world seed, by name."""
FRAMES = 16


@dataclass(frozen=True)
class ShortcutsSettings:
    """Count what shortcuts solve of pocket's questions."""

    output: Path = field(default=ROOT / "perf" / "shortcuts.json", metadata=setting("file for the shares"))


def scores(script: Script, question: PocketQuestion) -> dict[str, list[float]]:
    """The score of each option by each shortcut."""
    lines = [line.text.lower() for line in script.lines]
    # The middles of equal parts of the video.
    times = np.linspace(0, script.duration, 2 * FRAMES + 1)[1::2]
    frames = [next(scene for scene in script.scenes if scene.start <= time < scene.end) for time in times]

    def seconds(option: str, named: bool = False) -> float:
        scenes = (scene for scene in script.scenes if not named or _has_named_shape(scene, question))
        return sum(scene.end - scene.start for scene in scenes if option in _shown(script, scene))

    def said(option: str) -> int:
        return sum(option.lower() in line for line in lines)

    by_shortcut: Mapping[str, Callable[[str], float]] = {
        "said at all": lambda option: float(said(option) > 0),
        "said most": said,
        "shown at all": lambda option: float(seconds(option) > 0),
        "shown longest": seconds,
        "in most of 16 frames": lambda option: sum(option in _shown(script, scene) for scene in frames),
        "shown with the named shape": lambda option: float(seconds(option, named=True) > 0),
    }
    return {name: [float(of(option)) for option in question.choices] for name, of in by_shortcut.items()}


def chance_of_right(values: Sequence[float], right: int) -> float:
    """The probability that the option with this index is taken, of those with the highest score."""
    best = [value == max(values) for value in values]
    return best[right] / sum(best)


def shares(split: str, seed: int | None) -> dict[str, dict[str, float]]:
    """The share of right answers, 0 to 1, by family and shortcut, with the number of questions."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for _, length, number in world.video_names(split, seed):
        script = make_script(length, number)
        for question in generate_questions(script):
            for name, values in scores(script, question).items():
                found[question.family][name].append(chance_of_right(values, LETTERS.index(question.answer)))
    return {
        family: {
            "questions": len(by_shortcut["said most"]),
            **{name: round(sum(parts) / len(parts), 4) for name, parts in by_shortcut.items()},
        }
        for family, by_shortcut in sorted(found.items())
    }


def measure(settings: ShortcutsSettings) -> None:
    """Write the shares of all worlds."""
    record = {name: shares(*which) for name, which in WORLDS.items()}
    write_record(settings.output, record)
    print_tables("perf/shortcuts.json", record)


def _shown(script: Script, scene: Scene) -> set[str]:
    look = () if scene.actor is None else (scene.actor.color, scene.actor.shape, scene.actor.move)
    sign = () if scene.sign is None else (scene.sign.word,)
    return {script.weather, scene.place, *look, *sign}


def _has_named_shape(scene: Scene, question: PocketQuestion) -> bool:
    return scene.actor is not None and scene.actor.shape in re.findall(r"\w+", question.text)


if __name__ == "__main__":
    run_command(ShortcutsSettings, measure)
