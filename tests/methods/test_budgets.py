"""`--calls` and `--seconds` in every method. Calls are counted by the model itself, not by our meters."""

from collections.abc import Sequence
from itertools import chain, repeat
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support import scenes as world
from tests.support.agents import SceneEncoder
from tests.support.fake_backbone import confident_answer
from tests.support.scenes import BROKEN, QUESTION, SceneBackbone, context, item, reply
from videopro.backbones.base import ChoiceRequest
from videopro.errors import ConfigError
from videopro.methods import METHODS, create
from videopro.methods.agents import AgentMethod, BackboneModel
from videopro.modules import library
from videopro.question import Answer, Question
from videopro.traces import AGENT, FALLBACK, Execution, Result

AGENT_OPTIONS: dict[str, Any] = {"max_parallel": 1, "max_new_tokens": 64}
PROGRAM = {**world.OPTIONS, "planner": "self"}
OPTIONS: dict[str, dict[str, Any]] = {
    "native": {},
    "program": PROGRAM,
    "adaptive": PROGRAM,
    "videopro": {**PROGRAM, "max_rounds": 2},
    "videoagent": {**AGENT_OPTIONS, "selection": "uniform"},
    "dvd": {**AGENT_OPTIONS, "registry": "parallel", "text_encoder": "none", "max_tool_steps": 3},
    "vca": AGENT_OPTIONS,
    "lvagent": {**AGENT_OPTIONS, "agents": ["self", "pocket"], "encoder": "pocket"},
}
LOOKS = reply(
    "seen = [query_frames([frame], 'Which colour?') for frame in extract_frames(video)[:4]]",
    "return query_mc(extract_frames(video)[:1], question, choices)",
)
"""A program of five calls."""
WRITES = {"programs of five calls": LOOKS, "programs that fail": BROKEN, "nothing that can be read": "grey"}


class Guessing(SceneBackbone):
    """Names an option whatever it is shown, also without a frame."""

    def answer_batch(self, requests: Sequence[ChoiceRequest]) -> list[Answer]:
        with self._serving(requests):
            return [confident_answer("D", 0.4, request.question.letters) for request in requests]


@pytest.fixture(autouse=True)
def fake_models(monkeypatch: pytest.MonkeyPatch) -> None:
    roles = lambda self, backbone: {role: BackboneModel(backbone) for role in self.equipment().roles}  # noqa: E731
    monkeypatch.setattr(AgentMethod, "models", roles)
    monkeypatch.setattr(AgentMethod, "encoder", lambda *_: SceneEncoder())
    monkeypatch.setattr("videopro.methods.lvagent.agent.check_weights", lambda identities: None)


def answered(
    name: str, writes: str = LOOKS, *questions: Question, before: Any = lambda requests: None, **options: Any
) -> tuple[list[Result], int]:
    """The results, and how many replies the model gave for them."""
    items = [item(id=str(number), question=each) for number, each in enumerate(questions or [QUESTION])]
    method = create(name, {**OPTIONS[name], **options})
    if name == "dvd":
        # Its database is made of the video, not for a question.
        create(name, OPTIONS[name]).run(items[0], context(Guessing(lambda request: writes)))
    library._cache.clear()
    backbone = Guessing(lambda request: writes, before=before)
    results = [result for _, result in method.run_video(items, context(backbone))]
    return results, sum(backbone.batches)


@pytest.mark.parametrize("writes", WRITES)
@pytest.mark.parametrize("name", METHODS)
def test_no_method_makes_more_calls_than_its_budget_and_each_gives_an_answer(name: str, writes: str) -> None:
    for most in range(1, 12):
        (result,), made = answered(name, WRITES[writes], calls=most)
        assert made <= most
        assert made == result.cost.calls
        assert result.error is None
        assert result.final is not None
        assert result.final.letter == "D", (most, result)
        if most == 1 and name != "native":
            assert result.rounds[-1].prompt_kind == FALLBACK
            assert result.selected == len(result.rounds) - 1
    several = [QUESTION, Question("Which is first?", QUESTION.choices), Question("Last?", QUESTION.choices)]
    _, made = answered(name, WRITES[writes], *several, calls=3)
    assert made <= 9


@pytest.mark.parametrize("name", METHODS)
def test_a_budget_that_is_not_reached_changes_nothing(name: str) -> None:
    rules = {"fallback": "native"} if name != "native" else {}
    if name in ("program", "adaptive", "videopro"):
        rules["final"] = "last-answered"
    (free,), made = answered(name, **rules)
    (result,), made_within = answered(name, calls=1000)
    assert made_within == made
    assert (result.final, result.notes) == (free.final, free.notes)
    assert [each.prompt_kind for each in result.rounds] == [each.prompt_kind for each in free.rounds]


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("writes", WRITES)
def test_seconds_are_exceeded_by_one_call_at_most(
    name: str, writes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(now=0.0)

    def call(requests: Sequence[Any]) -> None:
        clock.now += 1.0

    monkeypatch.setattr(
        "videopro.backbones.wrappers.budget.time", SimpleNamespace(monotonic=lambda: clock.now)
    )
    monkeypatch.setattr("videopro.methods.program.method.time", SimpleNamespace(monotonic=lambda: clock.now))
    for limit in (0.5, 1.0, 2.5, 7.5):
        clock.now = 0.0
        (result,), made = answered(name, WRITES[writes], before=call, seconds=limit)
        assert clock.now <= limit + 1.0
        assert made == result.cost.calls == clock.now
        assert result.final is not None
        assert result.final.letter == "D"


def test_a_program_that_is_cut_off_loses_no_earlier_answer_and_says_why() -> None:
    # Planning and one look give B with 0.4; the refinement's five calls are more than are left.
    look = reply("return query_mc(extract_frames(video)[:1], question, choices)")
    written = chain([look, LOOKS], repeat("grey"))
    method = create("videopro", {**OPTIONS["videopro"], "calls": 5})
    result = method.run(item(), context(Guessing(lambda request: next(written))))
    first, second = (each.execution or Execution("empty") for each in result.rounds)
    assert second.error is not None
    assert (first.status, second.status, second.error.type) == ("ok", "failed", "QuestionCalls")
    assert (result.selected, result.final) == (0, first.answer)
    assert second.error.message == "the question's budget of 5 calls is spent"


def test_a_programs_last_call_may_be_the_one_that_answers() -> None:
    mc = "query_mc(extract_frames(video)[:1], question, choices)"
    (result,), made = answered("program", reply(f"return {mc}"), calls=2)
    (only,) = result.rounds
    assert (only.prompt_kind, made, result.final) == (
        "plan_program",
        2,
        only.execution and only.execution.answer,
    )
    # Of a program that asks for more, its answer counts nevertheless.
    more = reply(f"letter, confidence = {mc}", "return query_frames(extract_frames(video), 'Why?')")
    (result,), made = answered("program", more, calls=2)
    assert [each.prompt_kind for each in result.rounds] == ["plan_program", FALLBACK]
    assert (result.selected, made, result.final and result.final.letter) == (1, 2, "D")


def test_an_agent_is_forced_to_answer_from_what_it_has_seen() -> None:
    (result,), made = answered("vca", calls=2)
    (agent,) = result.rounds
    assert (agent.prompt_kind, made) == (AGENT, 2)
    assert [step.kind for step in result.steps] == ["reward", "answer"]
    assert result.steps[-1].frames
    assert result.notes == ("the question's budget of 2 calls is spent: the answer was forced",)


@pytest.mark.parametrize("name", METHODS)
def test_a_budget_is_part_of_the_key_and_seconds_are_marked(name: str) -> None:
    def identity(**options: Any) -> dict[str, Any]:
        return create(name, {**OPTIONS[name], **options}).identity()

    assert identity()["calls"] is None
    assert identity(calls=3)["calls"] == 3
    assert "not_reproducible" not in identity(calls=3)
    assert identity(seconds=9)["not_reproducible"] == "--seconds"
    with pytest.raises(ConfigError, match="must be at least 1"):
        identity(calls=-1)
