"""No look at the ground truth: gold answers, evidence and groups may be anything without changing a byte of a
trace. (That a team does not depend on them either: `tests/commands/test_select_agents.py`.)"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from tests.support.lvagent_world import SceneMethod
from tests.support.method_world import context, item
from tests.support.reason_world import SceneBackbone
from videopro.backbones import ChoiceRequest, GenerateRequest
from videopro.benchmarks import Item, Protocol
from videopro.benchmarks.base import ROBUST
from videopro.methods import make_trace, video_ref
from videopro.methods.agents import AgentModel
from videopro.methods.agents.models import BackboneModel
from videopro.question import Answer, Question

GOLD_FIELDS = ("gold", "reference", "evidence", "groups")
PLACES = ("red", "blue", "green", "grey")


class Watcher(SceneBackbone):
    """Sees colours, looks for its own one, and answers by what it sees or by its own colour."""

    def __init__(self, colour: str, needs_whole: bool, is_stubborn: bool) -> None:
        super().__init__(writes=self._write)
        self.colour, self.needs_whole, self.is_stubborn = colour, needs_whole, is_stubborn

    def say(self, text: str, frames: Any) -> Answer:
        return Answer("Yes" if self.needs_whole else "No", 0.7)

    def choose(self, request: ChoiceRequest, frames: Any) -> Answer:
        if not self.is_stubborn:
            return super().choose(request, frames)
        return Answer("ABCD"[request.question.choices.index(self.colour)], 0.6)

    def _write(self, request: GenerateRequest) -> str:
        if "Reply with JSON" in request.text:
            numbers = [
                line.split(":")[0] for line in request.text.split("\n") if line[:2] in ("1:", "2:", "3:")
            ]
            return json.dumps({number: 3 + 2 * int(number) for number in numbers})
        return f"a {self.colour} place"


def models() -> dict[str, AgentModel]:
    watchers = {
        "one": Watcher("red", needs_whole=False, is_stubborn=False),
        "two": Watcher("blue", needs_whole=False, is_stubborn=True),
        "three": Watcher("grey", needs_whole=True, is_stubborn=False),
    }
    return {name: BackboneModel(watcher) for name, watcher in watchers.items()}


def items(golds: str, **changes: Any) -> list[Item]:
    return [
        replace(
            item(id=f"q{number}", answer=gold, **changes),
            question=Question(f"What is shown at the {place} place?", PLACES),
        )
        for number, (place, gold) in enumerate(zip(PLACES, golds, strict=True))
    ]


def untimed(value: Any) -> Any:
    """Without wall times, which differ between any two runs."""
    if isinstance(value, dict):
        return {key: untimed(each) for key, each in value.items() if key not in ("seconds", "stages")}
    return [untimed(each) for each in value] if isinstance(value, list) else value


def traces(asked: list[Item]) -> dict[str, bytes]:
    """The traces' lines by question, without gold and times."""
    found = {}
    # One question at a time in flight; which one is batched with which is a matter of time.
    for asked_item, result in SceneMethod(models(), max_parallel=1).run_video(
        asked, context(SceneBackbone())
    ):
        protocol = Protocol(parser=ROBUST)
        trace = make_trace(asked_item, result, video_ref(asked_item), run_key="k", protocol=protocol)
        content = untimed(json.loads(trace.to_line()))
        for name in GOLD_FIELDS:
            del content[name]
        found[asked_item.id] = json.dumps(content).encode()
    return found


def test_traces_do_not_change_when_the_gold_answers_are_permuted() -> None:
    right = traces(items("ABCD"))
    assert right == traces(items("BCDA"))
    assert right == traces(items("DDDD", evidence=((3.0, 4.0),), groups={"family": "made"}, reference="red"))
    # The test would see a difference: another question has other traces.
    assert len(set(right.values())) == 4
    # And the agents did disagree, so that every phase is part of it.
    kinds = {step["kind"] for line in right.values() for step in _steps(line)}
    assert kinds == {"whole", "key", "retrieve", "answer", "reason", "score", "leave"}


def test_a_reader_of_the_gold_answer_would_be_seen() -> None:
    class Peeking(SceneMethod):
        def run_video(self, items: Any, context: Any) -> Any:
            for asked, result in super().run_video(items, context):
                yield asked, replace(result, notes=(*result.notes, f"gold {asked.answer}"))

    def peeked(golds: str) -> list[tuple[str, ...]]:
        method = Peeking(models(), max_parallel=1)
        return [result.notes for _, result in method.run_video(items(golds), context(SceneBackbone()))]

    assert peeked("ABCD") != peeked("BCDA")


def _steps(line: bytes) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = json.loads(line)["rounds"][0]["execution"]["steps"]
    return steps


def test_the_watchers_see_real_pixels() -> None:
    """The one that looks for red answers red; the one that sees all answers what most of it shows."""
    method = SceneMethod(models(), max_parallel=1)
    ((_, result),) = method.run_video(items("ABCD")[:1], context(SceneBackbone()))
    answers = [step for step in result.steps if step.kind == "answer" and step.round == 0]
    assert [step.parsed["letter"] for step in answers if step.parsed] == ["A", "B", "D"]
