"""Rounds of sampling that an engine writes while the one before is trained on."""

import threading
from pathlib import Path
from typing import Any

import pytest
from transformers import TrainerCallback

from tests.support import grpo_world as grpo
from tests.support.grpo_world import ScriptedSampler, making
from tests.support.training_runs import assert_equal, evaluates, saves, trained_weights
from videopro.errors import BackboneError, wait_until
from videopro.train.rl import GRPORow, VideoGRPOTrainer, as_dataset
from videopro.train.rl.rounds import LookAhead


def trainer(output: Path, sampler: ScriptedSampler, ahead: bool = True, **changes: Any) -> VideoGRPOTrainer:
    """Of four prompts, two of which make a round of eight replies."""
    names = ("rewards", "next_turn", "callbacks", "eval_dataset")
    more = {name: changes.pop(name) for name in names if name in changes}
    config = grpo.settings(output, **{"max_steps": 3, "sampler": "vllm", "async_rollouts": ahead, **changes})
    rows = [grpo.rows()[number] for number in (0, 1, 3, 4)]
    return grpo.trainer("qwen3_vl", config, rows, **making(sampler), **more)


def logged(made: VideoGRPOTrainer, name: str) -> list[float]:
    lines = [line for line in made.state.log_history if "loss" in line]
    return [line[f"sampling/{name}"] for line in lines if f"sampling/{name}" in line]


@pytest.mark.parametrize(
    ("changes", "versions", "staleness"),
    [
        # Each round is written by the policy that begins the one before it, also across epochs (of two).
        pytest.param({"num_iterations": 2, "max_steps": 6}, [0, 0, 2], [0, 2, 2], id="replies used twice"),
        pytest.param({"next_turn": grpo.refine_some}, [0, 0, 1], [0, 1, 1], id="two turns"),
    ],
)
def test_a_run_differs_only_in_the_policy_that_writes(
    changes: dict[str, Any], versions: list[int], staleness: list[float], tmp_path: Path
) -> None:
    """The same replies are drawn to the same rows with the same seeds, so a run that samples ahead and one
    that does not end with the same weights to the last bit: the importance ratio is that of the weights in
    the update, and not of those that wrote."""
    ends, ratios, asked = [], [], []
    for ahead in (True, False):
        told: list[tuple[int, str]] = []

        def rewards(
            completion_ids: Any, policy_version: list[int], row: list[GRPORow], told: Any = told, **_: Any
        ) -> list[float]:
            told.extend((version, of.id) for version, of in zip(policy_version, row, strict=True))
            return grpo.spread(completion_ids)

        sampler = ScriptedSampler()
        made = trainer(tmp_path, sampler, ahead=ahead, rewards=rewards, **dict(changes))
        made.train()
        ends.append(trained_weights(made))
        ratios.append(logged(made, "importance_sampling_ratio/mean"))
        asked.append([call.draws for call in sampler.written])
        # A second turn has bug fixes only, and follows its first.
        firsts = [call for call in sampler.written if {kind for _, kind, _ in call.draws} != {"bug_fix"}]
        assert told == [(call.version, row) for call in firsts for row, _, _ in call.draws]
        seconds = [call for call in sampler.written if call not in firsts]
        assert [call.version for call in seconds] == versions[: len(seconds)] if ahead else True
        assert bool(seconds) == ("next_turn" in changes)
        if ahead:
            assert [call.version for call in firsts] == versions
            assert logged(made, "staleness") == staleness
            # The first has none before it; none is written after the last step.
            by_main = [call.thread.startswith("rollouts-ahead") for call in firsts]
            assert by_main == [False, *[True] * (len(versions) - 1)]
            assert len(logged(made, "wait_seconds")) > 0
        else:
            assert all(call.version == call.newest for call in sampler.written)
            assert not logged(made, "staleness")
    assert asked[0] == asked[1]
    assert ratios[0] == ratios[1]
    assert any(weight.any() for name, weight in ends[0].items() if "lora_B" in name)
    assert_equal(ends[0], ends[1])


def test_a_resumed_run_loses_and_repeats_no_round(tmp_path: Path) -> None:
    """What was written ahead is written again, by the policy of the checkpoint: the same rows and seeds."""
    changes = {**saves(every=2), "max_steps": 5, "gradient_accumulation_steps": 1}
    whole, resumed = ScriptedSampler(), ScriptedSampler()
    first = trainer(tmp_path, whole, **changes)
    first.train()
    second = trainer(tmp_path, resumed, **changes)
    second.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    assert [call.version for call in resumed.written] == [2, 2, 3]
    assert [call.draws for call in resumed.written] == [call.draws for call in whole.written[2:]]
    assert_equal(trained_weights(second), trained_weights(first))


def test_an_evaluation_waits_for_the_round_that_is_written(tmp_path: Path) -> None:
    """The sampler writes one round at a time, and serves the version of the second turns to come."""
    sampler = ScriptedSampler()
    measured = {"eval_data": "the rows below", "per_device_eval_batch_size": 8, **evaluates(every=2)}
    measured |= {"eval_dataset": as_dataset(grpo.rows()[:2])}
    made = trainer(tmp_path, sampler, **measured, num_iterations=4, max_steps=5, next_turn=grpo.refine_some)
    made.train()
    ahead = [call for call in sampler.written if call.thread.startswith("rollouts-ahead")]
    assert [(call.version, call.newest) for call in ahead] == [(0, 0)]
    # Its second turns, after two evaluations.
    assert (0, 4) in [(call.version, call.newest) for call in sampler.written]


def test_an_engine_that_fails_while_it_writes_ahead_ends_the_run_with_one_error(tmp_path: Path) -> None:
    def fail(call: int) -> None:
        if call == 1:
            raise BackboneError("the engine died 4 times in a row")

    sampler = ScriptedSampler(fail)
    made = trainer(tmp_path, sampler)
    with pytest.raises(BackboneError, match=r"^the engine died 4 times in a row$"):
        made.train()
    # The update that was running has ended; nothing was asked for after it.
    assert made.state.global_step == 1
    assert len(sampler.written) == 2


def test_nothing_is_written_any_more_when_a_run_is_interrupted(tmp_path: Path) -> None:
    """While the engine writes, the policy is updated: the callback is called before the round is done."""
    ended = threading.Event()

    def slowly(call: int) -> None:
        if call == 1:
            try:
                wait_until(lambda seconds: threading.Event().wait(seconds))
            finally:
                ended.set()

    class Interrupts(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, *_: Any, **__: Any) -> None:
            raise KeyboardInterrupt

    made = trainer(tmp_path, ScriptedSampler(slowly), callbacks=[Interrupts()])
    with pytest.raises(KeyboardInterrupt):
        made.train()
    assert ended.is_set()


def test_a_batch_is_seen_before_its_turn() -> None:
    """Seven passes, three an update: the last update of the epoch has one."""
    batches = LookAhead(iter("abcdefg"), 3)
    update = [next(batches) for _ in range(3)]
    batches.begin()
    # a is running: b and c are of its update.
    seen = [batches.upcoming(passes) for passes in (1, 2, 3, 5, 6)]
    assert seen == [("b", 0), ("c", 0), ("d", 1), ("f", 1), ("g", 2)]
    assert batches.upcoming(7) == (None, 3)
    batches.begin()
    batches.begin()
    assert batches.upcoming(1) == ("d", 1)
    update += [next(batches) for _ in range(3)]
    for _ in range(3):
        batches.begin()
    update += list(batches)
    batches.begin()
    assert update == list("abcdefg")
    assert batches.upcoming(1) == (None, 1)
