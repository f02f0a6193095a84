"""How well a confidence fits that was carried through a program (`videopro.methods.program.deciding`), by the
rule and by its alternatives.

    python -m perf.deciding [--split val] [--limit N] [--output perf/deciding.json]

Four programs are run on each of pocket's questions that they know how to ask about:

    reasoned   `pocket-teacher:logic` without faults, if its letter comes straight from no call
    vote       each option is asked about in ten neighbouring frames, and most times yes wins
    gate       of the question with two options, right and wrong: A if the first one is confirmed, else B
    constant   A if a question that is about no video is answered with yes, else B

Of each: accuracy, mean confidence, expected calibration error (ten bins) and AUROC. When all have run, they
are run again with what their calls returned on the other videos (`OtherVideos`), and those are counted whose
letter becomes a guess.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from perf import ROOT
from perf.command import run_command
from perf.recording import write_record
from videopro import benchmarks
from videopro.backbones import MODELS, load_backbone
from videopro.backbones.wrappers import Meter, MeteredBackbone, ThreadMeter, share_backbone
from videopro.benchmarks import Item
from videopro.cli import setting
from videopro.executor import DEFAULT_LIMITS, parse_program
from videopro.methods.program import OtherVideos, deciding, execute
from videopro.modules import ModuleModels, ModuleSettings, VideoContext
from videopro.pocket.teacher.logic import logic_variant
from videopro.pocket.teacher.reading import ParsedQuestion, parse_question
from videopro.pocket.teacher.variants import program
from videopro.question import Question, right_letters
from videopro.traces import CombiningRule, Execution
from videopro.traces.scoring import QuestionScore, accuracy, auroc, expected_calibration_error
from videopro.video import Video, load_subtitles

RULES: dict[str, tuple[CombiningRule, dict[str, Any], bool]] = {
    "product": ("product", {}, False),
    "product, near calls whatever they ask": ("product", {"_words": lambda call: set()}, False),
    "product, near calls also where each decided alone": ("product", {}, True),
    "product, each call a witness": ("product", {"_overlap": lambda *frames: False}, False),
    "least": ("least", {}, False),
}
"""The default and its alternatives: how confidences are combined, what is altered in `deciding`, and whether
calls that decided alone are joined to witnesses too."""
RULE = "product"


def _confidences(search: Any, sets: Sequence[Sequence[Any]], options: int) -> dict[str, float]:
    """How sure a letter is by each rule. `sets`: of the calls that decided."""

    def sure(rule: CombiningRule, altered: dict[str, Any], is_joined: bool) -> float:
        with patch.dict(vars(deciding), altered), patch.object(search, "rule", rule):
            parts = sets
            if is_joined and len(sets) > 1:
                decided = [key for keys in sets for key in keys]
                joined = (
                    [key for key in decided if key in near] for near in deciding.witnesses(search.library)
                )
                parts = [part for part in joined if part]
            calls = [search._deciding_calls(keys) for keys in parts]
        return round(deciding.confidence_of(calls, rule, options), 6)

    return {name: sure(*rule) for name, rule in RULES.items()}


@dataclass(frozen=True)
class DecidingSettings:
    """Measure the calibration of confidences that were carried through programs."""

    split: str = field(default="val", metadata=setting("pocket's split"))
    limit: int = field(default=110, metadata=setting("questions, of whole videos in a drawn order"))
    output: Path = field(
        default=ROOT / "perf" / "deciding.json", metadata=setting("file for the rows and the tables")
    )


@dataclass(frozen=True)
class Case:
    """A program about a question, and the letters that are right."""

    name: str
    family: str
    code: str
    question: Question
    right: Container[str]
    item: Item


def measure(settings: DecidingSettings) -> None:
    """Run all programs under each rule, and again with what is known of other videos; write tables."""
    benchmark = benchmarks.load("pocket", split=settings.split)
    items = benchmark.select(limit=settings.limit)
    if benchmark.fetch is not None:
        benchmark.fetch(items)
    runner = _Runner()
    cases = [case for item in items for case in _cases(item)]
    rows = [row for case in cases if (row := runner.row(case)) is not None]
    runner.others.settle()
    for row in rows:
        case = next(case for case in cases if case.name == row["id"])
        row["with other videos"] = round(runner.run(case).answer.confidence, 6)
    tables_ = tables(rows)
    write_record(
        settings.output,
        {"split": settings.split, "tables": tables_, "programs": sorted(rows, key=lambda row: row["id"])},
    )
    print(json.dumps(tables_, indent=1))


class _Runner:
    """Runs programs with pocket's models."""

    def __init__(self) -> None:
        self.others = OtherVideos()
        self._backbone = load_backbone("pocket")
        self._meter = ThreadMeter()
        self._models = ModuleModels(ModuleSettings(), answering=MODELS["pocket"])
        self._contexts: dict[Path, VideoContext] = {}

    def row(self, case: Case) -> dict[str, Any] | None:
        """Run a program for the first time; None if it did not reason its letter."""
        found: list[tuple[Any, Sequence[Any]]] = []
        deciding_calls = deciding._Search._deciding_calls

        def keep(search: Any, keys: Sequence[Any]) -> Any:
            found.append((search, keys))
            return deciding_calls(search, keys)

        with patch.object(deciding._Search, "_deciding_calls", keep):
            execution = self.run(case)
        confidences = dict.fromkeys(RULES, 0.0)
        if found:
            sets = [keys for _, keys in found]
            confidences = _confidences(found[0][0], sets, len(case.question.choices))
        if execution.reasoned is None:
            return None
        sets_ = execution.reasoned.deciding
        decided = {execution.calls[call].fn for calls in sets_ for call in calls.calls}
        return {
            "id": case.name,
            "video": case.item.video.name,
            "family": case.family,
            "right": execution.answer.letter in case.right,
            "confidence": confidences,
            "replays": execution.reasoned.replays,
            "why_guess": execution.reasoned.why_guess,
            "decided by": " + ".join(sorted(decided)) or "nothing",
        }

    def run(self, case: Case) -> Execution:
        """Run a program with what is known of other videos, and add what its calls return."""
        return execute(
            parse_program(f"<code>\n{case.code}\n</code>"),
            case.question,
            self._context(case.item),
            limits=DEFAULT_LIMITS,
            thread_meter=self._meter,
            others=self.others,
        )[0]

    def _context(self, item: Item) -> VideoContext:
        if item.video not in self._contexts:
            video = Video.open(item.video)
            subtitles = load_subtitles(item.subtitles, duration=video.duration) if item.subtitles else None
            metered = MeteredBackbone(share_backbone(self._backbone, adapter=False), self._meter)
            with self._meter.into(Meter()):
                self._contexts[item.video] = self._models.context(video, metered, subtitles)
        return self._contexts[item.video]


# ---- programs --------------------------------------------------------------------------------------------

_VOTE = """
votes = [sum(query_yn(frame, {prompt}) == "Yes" for frame in frames) for choice in choices]
return "ABCDEFGH"[votes.index(max(votes))]"""
_GATE = """
choice = choices[0]
return "A" if query_yn(frames, {prompt}) == "Yes" else "B\""""
_CONSTANT = """
frames = extract_frames(video, num_frames=8)
return "A" if query_yn(frames, "Is this a video?") == "Yes" else "B\""""


def _cases(item: Item) -> Iterator[Case]:
    question, reading = item.question, parse_question(item.question.text)
    right = right_letters(item.answer, question.choices)
    variant = logic_variant(reading)
    if variant is not None:
        yield Case(item.id, "reasoned", variant.code, question, right, item)
    yield Case(f"{item.id} constant", "constant", program(_CONSTANT), question, right, item)
    if (look := _look(reading)) is None:
        return
    frames, prompt = look
    yield Case(
        f"{item.id} vote", "vote", program(frames + _VOTE.format(prompt=prompt)), question, right, item
    )
    first = question.letters.index(min(right))
    pair = [question.choices[first], question.choices[first - 1]]
    is_first = sum(item.id.encode()) % 2
    two = Question(question.text, tuple(pair if is_first else reversed(pair)))
    gate = program(frames + _GATE.format(prompt=prompt))
    yield Case(f"{item.id} gate", "gate", gate, two, ["A" if is_first else "B"], item)


def _look(reading: ParsedQuestion) -> tuple[str, str] | None:
    """Lines of a program that take ten neighbouring frames, and what is asked of them about a choice."""
    if reading.kind == "weather":
        return "frames = trim_frames(video, 0, 10, num_frames=10)", 'f"Is it {choice} here?"'
    if reading.kind == "spoken":
        found = f"start, end = get_informative_subtitles(video, {json.dumps(reading.line)}, top_k=1)[0]"
        prompt = "Is this the {choice}?"
    elif reading.kind in ("color", "shape"):
        found = f"start, end = get_informative_clips(video, {json.dumps(reading.subject)}, top_k=1)[0][0]"
        prompt = f"Is the {reading.thing} {{choice}}?" if reading.kind == "color" else "Is there a {choice}?"
    else:
        return None
    return f"{found}\nframes = trim_frames(video, start, end, num_frames=10)", "f" + json.dumps(prompt)


# ---- tables ----------------------------------------------------------------------------------------------


def tables(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The numbers of all rows."""
    families: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    sources: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        families[row["family"]].append(row)
        if row["family"] == "reasoned":
            sources[row["decided by"]].append(row)
    return {
        "rules": {
            family: {rule: _numbers(part, rule) for rule in RULES} for family, part in families.items()
        },
        "by what decided": {source: _numbers(part, RULE) for source, part in sorted(sources.items())},
        "other videos": {
            family: {
                "sure": sum(row["confidence"][RULE] > 0 for row in part),
                "then a guess": sum(row["with other videos"] == 0 < row["confidence"][RULE] for row in part),
            }
            for family, part in families.items()
        },
        "replays of a program": {
            "mean": round(sum(row["replays"] for row in rows) / max(1, len(rows)), 1),
            "most": max((row["replays"] for row in rows), default=0),
        },
    }


def _numbers(rows: Sequence[Mapping[str, Any]], rule: str) -> dict[str, Any]:
    scores = [
        QuestionScore(row["id"], row["video"], row["right"], None, False, row["confidence"][rule])
        for row in rows
    ]
    share = accuracy(scores)
    return {
        "n": share.n,
        "accuracy": _short(share.accuracy),
        "mean confidence": _short(sum(score.confidence for score in scores) / len(scores)),
        "ece": _short(expected_calibration_error(scores)),
        "auroc": _short(auroc(scores)),
    }


def _short(number: float | None) -> float | None:
    return None if number is None else round(number, 4)


if __name__ == "__main__":
    run_command(DecidingSettings, measure)
