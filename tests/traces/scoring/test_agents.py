"""What agents did, counted from hand-made traces."""

from dataclasses import replace

from tests.support.report_world import (
    agent_run,
    agent_trace,
    direct_round,
    repaired,
    reply,
    reused,
    trace,
    unparsed,
)
from videopro.traces import FORCED, Failure, Step
from videopro.traces.scoring import agent_metrics, lack_of_model, mean_frames_seen, replies_of

CHOICE = Step("answer", "llm", raw="B", parsed={"letter": "B", "confidence": 0.4})
TOOL = Step("retrieve", args={"key": "a ball"}, result="3")
WORDS = Step("caption", "captioner", raw="a red ball")


def test_a_reply_without_a_call_is_unparsed_in_either_protocol() -> None:
    """Of a conversation with tools the step has no fault, as words are all right where none must be called;
    but two thirds of these say that the model cannot use tools."""
    called = Step("act", "llm", raw="Hm.", parsed={"calls": [{"name": "clip_search", "arguments": "{}"}]})
    words = Step("act", "llm", raw="I think it is red.")
    found = replies_of([called, words, words, unparsed(kind="act"), TOOL, WORDS])
    assert (found.n, found.repaired, found.unparsed) == (4, 0, 3)
    traces = [agent_trace(0, "A", [called, words, words])]
    assert lack_of_model(traces) == "needs a language model: 2 of 3 replies could not be parsed"
    replies = agent_metrics(traces)["replies"]
    assert replies == {"structured": 3, "repaired": 0, "unparsed": 2, "questions_with_unparsed": 1}


def test_steps_and_endings() -> None:
    """Three questions of an agent, one of them forced, one without an answer; and a direct answer."""
    caption = replace(WORDS, frames=((1.0, 8.0, 8.0),))
    traces = [
        agent_trace(0, "A", [caption, reply(), CHOICE], notes=(f"no further round: {FORCED}",)),
        agent_trace(1, None, [reused(caption), unparsed()]),
        agent_trace(2, "B", [repaired()]),
        trace(3, [direct_round("A", 0.9)]),
    ]
    found = agent_metrics(traces)
    assert found["questions"] == 3
    assert found["steps"] == 2.0
    assert found["reused"] == 1 / 3
    assert found["replies"] == {"structured": 3, "repaired": 1, "unparsed": 1, "questions_with_unparsed": 1}
    assert found["by_kind"]["caption"] == {"n": 2, "repaired": 0, "unparsed": 0}
    assert found["by_kind"]["predict"] == {"n": 3, "repaired": 1, "unparsed": 1}
    assert (found["forced"], found["unanswered"]) == (1, 1)
    assert agent_metrics(traces[3:]) == {}


def test_frames_are_counted_once() -> None:
    """Moments, not looks: 1, 2, 3 s in one question, 1 s in the other."""
    traces = [
        agent_trace(0, "A", [reply(times=(1, 2)), reply(times=(2, 3, 3.0001))]),
        agent_trace(1, "A", [reply(times=(1,))]),
    ]
    assert mean_frames_seen(traces) == 2.0
    assert mean_frames_seen([]) is None


def test_a_model_that_cannot_follow_the_prompts_gives_no_accuracy() -> None:
    good = agent_run("AB")
    assert lack_of_model(good) == ""
    half = [*good, *[agent_trace(number, None, [unparsed()]) for number in (2, 3)]]
    assert lack_of_model(half) == ""
    most = [*half, agent_trace(4, "A", [unparsed(), CHOICE])]
    assert lack_of_model(most) == "needs a language model: 3 of 5 replies could not be parsed"
    error = Failure("BackboneError", "the prompt has words that the model does not know")
    refused = [replace(one, error=error, final=None) for one in good]
    assert lack_of_model(refused) == "needs a language model: the model refused 2 of 2 questions"
    assert lack_of_model([*refused, *agent_run("A")]) == ""
