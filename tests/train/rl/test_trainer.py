"""GRPO with videos in the prompt: log-probabilities in rows of any shape, sampling, what runs once, steps."""

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from torch.nn.attention.flex_attention import flex_attention

from tests.support import grpo_world as grpo
from tests.support.training_runs import trained_weights
from videopro.errors import ConfigError
from videopro.train import packing
from videopro.train.packing import RowShape
from videopro.train.rl import GRPORow, trainer

REPLIES = [[40, 50, 60, 70, 80], [41, 51], [90, 91, 92, 93], [42], [33, 34, 35]]
CHOSEN = [0, 0, 1, 0, 4]
"""Rows of `grpo_world.rows` that the replies are to: three to one, one to another, one to text alone."""


def test_rows_of_a_gpu_score_as_those_of_a_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Padded to a bucket, attended by FlexAttention, which on a CPU runs uncompiled; and some at a time."""
    monkeypatch.setattr(packing, "_compiled", lambda: flex_attention)
    packing.attend_by_parts()
    rows = [grpo.rows()[number] for number in CHOSEN]
    made = grpo.trainer("qwen3_vl", grpo.settings(tmp_path), rows)
    grpo.ask(made, rows)
    ids, mask, width = grpo.batch(made, REPLIES)
    shapes, scores = [], []
    core = made._run.model.model
    core.register_forward_pre_hook(
        lambda *call: shapes.append(call[2]["input_ids"].shape[1]), with_kwargs=True
    )
    with torch.no_grad():
        for shape in (RowShape(), RowShape(buckets=True), RowShape(buckets=True, blocks=True)):
            made._row_shape = shape
            scores.append(made._get_per_token_logps_and_entropies(made.model, ids, mask, width)[0])
        made._row_shape = RowShape()
        scores.append(made._get_per_token_logps_and_entropies(made.model, ids, mask, width, batch_size=2)[0])
    assert shapes[0] % 256 != 0
    assert shapes[1:3] == [-(-shapes[0] // 256) * 256] * 2
    for other in scores[1:]:
        torch.testing.assert_close(other, scores[0], atol=1e-5, rtol=1e-5)


def test_a_prompt_is_not_shared_by_layers_that_carry_a_state(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="set shared_prompt: false"):
        grpo.trainer("qwen3_5", grpo.settings(tmp_path), grpo.rows()[:1])


def test_samples_depend_on_seed_and_row_and_not_on_the_batch(tmp_path: Path) -> None:
    replies = []
    for size in (6, 4):
        rows = [grpo.rows()[0]] * size
        made = grpo.trainer("qwen3_vl", grpo.settings(tmp_path), rows)
        made.model.eval()
        with torch.no_grad():
            grpo.ask(made, rows)
            replies.append([reply.ids for reply in grpo.write(made, 5)])
            other = [reply.ids for reply in grpo.write(made, 6)]
    assert replies[0][:4] == replies[1]
    assert other != replies[1]
    # Another one at each round of sampling, in an evaluation, and for each run's own seed.
    rounds = {made._seed()}
    made.model.train()
    rounds |= {made._seed()}
    made.state.global_step = 7
    rounds |= {made._seed()}
    made.args.seed += 1
    rounds |= {made._seed()}
    assert len(rounds) == 4
    # The second batch of an evaluation goes on where the first one ended.
    made.model.eval()
    with torch.no_grad():
        grpo.ask(made, rows[:2])
        made._eval_rows = 4
        assert [reply.ids for reply in grpo.write(made, 5)] == replies[0][4:]


def test_visual_tokens_are_never_sampled_however_likely(tmp_path: Path) -> None:
    rows = [grpo.rows()[number] for number in (0, 0, 4, 4)]
    for banned in (None, ()):
        made = grpo.trainer("qwen3_vl", grpo.settings(tmp_path), rows, banned=banned)
        visual = grpo.world.inputs("qwen3_vl").visual_tokens()
        head = made._run.model.get_output_embeddings()
        head.register_forward_hook(
            lambda _, __, out, ids=visual: out.index_add(
                -1, torch.tensor(ids), torch.full((*out.shape[:-1], len(ids)), 40.0)
            )
        )
        made.model.eval()
        with torch.no_grad():
            grpo.ask(made, rows)
            written = grpo.write(made, 5)
        drawn = {token for reply in written for token in reply.ids}
        assert len(visual) == 5
        # Without the ban they are all that is drawn.
        assert drawn <= set(visual) if banned == () else not drawn & set(visual)


def test_video_features_are_computed_once_and_change_nothing(tmp_path: Path) -> None:
    """Over two steps of one round each with three prompts about two videos."""
    rows = [grpo.rows()[number] for number in (0, 3, 1)]
    after = {}
    for frozen in (True, False):
        config = grpo.settings(tmp_path, max_steps=2, per_device_train_batch_size=12, beta=0.1)
        made = grpo.trainer("qwen3_vl", config, rows, frozen=frozen)
        calls = []
        made._run.model.model.visual.register_forward_hook(lambda *_, calls=calls: calls.append(1))
        made.train()
        after[frozen] = trained_weights(made)
        assert made._prompt_encoder.looked == (2 if frozen else 0)
        assert len(calls) == 2 if frozen else len(calls) > 4
    torch.testing.assert_close(after[True], after[False], atol=1e-6, rtol=1e-5)
    assert any(weight.any() for name, weight in after[True].items() if "lora_B" in name)


def test_features_beyond_the_memory_limit_are_recomputed(tmp_path: Path) -> None:
    rows = [grpo.rows()[number] for number in (0, 1)]
    made = grpo.trainer("qwen3_vl", grpo.settings(tmp_path), grpo.rows()[:2], kept_bytes=1)
    for _ in range(2):
        made._prompt_encoder.encode(rows)
    assert made._prompt_encoder.looked == 4


def test_steps_are_those_of_rows_on_their_own(tmp_path: Path) -> None:
    """Videos and text in one batch, with a reference and two passes over each round of sampling."""
    rows = [grpo.rows()[number] for number in (0, 1, 4)]
    given = {"beta": 0.05, "num_iterations": 2, "per_device_train_batch_size": 12, "max_steps": 2}
    after = []
    for shared in (True, False):
        config = grpo.settings(tmp_path, shared_prompt=shared, gradient_checkpointing=shared, **given)
        made = grpo.trainer("qwen3_vl", config, rows)
        before = trained_weights(made)
        made.train()
        after.append(trained_weights(made))
    assert any(not torch.equal(weight, before[name]) for name, weight in after[0].items())
    torch.testing.assert_close(after[0], after[1], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("changes", [{}, {"beta": 0.1}, {"entropy_coef": 0.01}], ids=str)
def test_groups_with_equal_rewards_are_skipped_where_their_loss_is_zero(
    changes: dict[str, float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of three groups get the same reward for all replies; the step is TRL's over all three. In fp32 the
    mean of eight rewards of 0.7 is not 0.7 on every machine."""
    rows = [grpo.rows()[number] for number in (0, 1, 4)]

    def rewards(completion_ids: Any, row: list[GRPORow], **_: Any) -> list[float]:
        found = grpo.spread(completion_ids)
        return [value if of == rows[1] else 0.7 for value, of in zip(found, row, strict=True)]

    after, passes = [], []
    for leaves_out in (True, False):
        config = grpo.settings(tmp_path, num_generations=8, gradient_accumulation_steps=3, **changes)
        made = grpo.trainer("qwen3_vl", config, rows, rewards=rewards)
        if not leaves_out:
            monkeypatch.setattr(made, "_has_no_gradient", lambda _: False)
        counted = Mock(wraps=made._score_shared_prefix)
        monkeypatch.setattr(made, "_score_shared_prefix", counted)
        before = trained_weights(made)
        made.train()
        after.append(trained_weights(made))
        passes.append(counted.call_count)
    reference = 3 if "beta" in changes else 0
    assert passes == [3 + reference if changes else 1, 3 + reference]
    assert any(not torch.equal(weight, before[name]) for name, weight in after[0].items())
    torch.testing.assert_close(after[0], after[1], atol=1e-7, rtol=1e-6)


def test_programs_may_begin_while_others_are_written(tmp_path: Path) -> None:
    events: list[tuple[str, Any]] = []

    class Ahead:
        def prepare(self, rows: Any) -> None:
            events.extend(("row", row.id) for row in rows)

        def submit(self, row: Any, reply: str) -> None:
            events.append((row.id, reply))

    seen: list[tuple[str, str]] = []

    def rewards(completions: Any, row: list[GRPORow], **_: Any) -> list[float]:
        seen.extend((of.id, reply[0]["content"]) for of, reply in zip(row, completions, strict=True))
        return [float(len(seen))] * len(row)

    rows = [grpo.rows()[number] for number in (0, 1)]
    made = grpo.trainer("qwen3_vl", grpo.settings(tmp_path), rows, rewards=rewards, prefetcher=Ahead())
    made.train()
    assert [what for what, _ in events[:8]] == ["row"] * 8
    # The very texts that the rewards get, so that they know them again.
    assert sorted(events[8:]) == sorted(seen)


def test_a_trained_tower_runs_in_every_pass_of_every_process(tmp_path: Path) -> None:
    """Also before the update and with text alone: under ZeRO-3 the others would wait for it."""
    rows = [grpo.rows()[4]]
    made = grpo.trainer("qwen3_vl", grpo.settings(tmp_path), rows, frozen=False)
    made._keeps_vision = False
    grpo.ask(made, rows)
    ids, mask, width = grpo.batch(made, REPLIES[:1])
    runs: list[Any] = []
    made._run.model.model.visual.register_forward_hook(lambda *of_pass: runs.append(of_pass))
    with torch.no_grad():
        made._get_per_token_logps_and_entropies(made.model, ids, mask, width)
    assert len(runs) == 1


def test_spread_weights_cannot_sample_layer_by_layer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainer, "is_deepspeed_zero3_enabled", lambda: True)
    config = grpo.settings(tmp_path, ds3_gather_for_generation=False)
    with pytest.raises(ConfigError, match="ds3_gather_for_generation is false"):
        grpo.trainer("qwen3_vl", config, grpo.rows())
