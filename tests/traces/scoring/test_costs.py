"""Costs of questions, worked out on paper: own, raw and amortised."""

from dataclasses import replace

import pytest

from tests.support.report_world import DATABASE, INDEX, agent_run, agent_trace, reply, reused
from videopro.traces import Cost, Preparation, VideoRef
from videopro.traces.scoring import cost_metrics, mean_costs, question_costs


def test_only_the_questions_that_use_it_share_it() -> None:
    """Three questions use the index, one of them a database too; the fourth uses neither."""
    traces = [
        *agent_run("AA", prepared=(INDEX,)),
        agent_trace(2, "A", [reply()], prepared=(INDEX, DATABASE)),
        agent_trace(3, "A", [reply()]),
    ]
    shares = [costs.amortised.seconds - costs.own.seconds for costs in question_costs(traces)]
    assert shares == pytest.approx([8 / 3, 8 / 3, 8 / 3 + 3, 0])
    assert question_costs(traces)[2].raw.tokens_in == 10 + 1000


def test_amortised_costs_add_up_to_what_the_run_cost() -> None:
    """Its questions' own costs, and each preparation once."""
    first = reply("caption", times=(1,))
    traces = [
        agent_trace(0, "A", [first], prepared=(INDEX,)),
        agent_trace(1, "A", [reused(first), reply()], prepared=(INDEX, DATABASE)),
        agent_trace(2, "B", [reply()], prepared=(DATABASE,)),
    ]
    total = sum((costs.amortised for costs in question_costs(traces)), Cost())
    assert total.seconds == pytest.approx(sum(trace.cost.seconds for trace in traces) + 8 + 3)
    assert total.tokens_in == pytest.approx(sum(trace.cost.tokens_in for trace in traces) + 1000)


def test_a_reused_reply_is_in_the_raw_cost_alone_if_the_run_paid_for_it() -> None:
    first = reply("caption", times=(1, 2))
    earlier, later = agent_trace(0, "A", [first]), agent_trace(1, "A", [reused(first)])
    _, costs = question_costs([earlier, later])
    assert (costs.own.calls, costs.raw.calls, costs.amortised.calls) == (0, 1, 0)


def test_a_reply_of_another_run_is_shared_by_those_that_reuse_it() -> None:
    """No question of this run paid for it: two share one call."""
    kept = reused(reply("caption", times=(1, 2)))
    traces = [agent_trace(number, "A", [kept]) for number in (0, 1)]
    assert [costs.amortised.calls for costs in question_costs(traces)] == [0.5, 0.5]
    assert [costs.raw.calls for costs in question_costs(traces)] == [1, 1]
    # The same words about another video are another reply.
    elsewhere = replace(traces[0], question_id="q9", video=VideoRef("w.mp4", "w", "other"))
    shares = [costs.amortised.calls for costs in question_costs([*traces, elsewhere])]
    assert shares == [0.5, 0.5, 1]


def test_an_unknown_cost_makes_the_total_at_least() -> None:
    unknown = Preparation("index", "v0/old", is_known=False)
    traces = [*agent_run("A"), agent_trace(1, "A", [reply()], prepared=(unknown,))]
    assert [costs.is_at_least for costs in question_costs(traces)] == [False, True]
    found = mean_costs(traces)
    assert found.is_at_least
    assert cost_metrics(traces)["preparations"]["index"]["unknown"] == 1


def test_the_summary_counts_each_preparation_once() -> None:
    found = cost_metrics(agent_run("ABA", prepared=(INDEX, DATABASE)))
    index = found["preparations"]["index"]
    assert (index["n"], index["questions"], index["cost"]["seconds"]) == (1, 3, 8.0)
    assert found["amortised"]["seconds"] == pytest.approx(0.75 + 11 / 3)
    assert found["raw"]["calls"] == 11
    assert cost_metrics([])["own"] is None
    assert mean_costs([]) is None
