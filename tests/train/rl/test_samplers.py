"""Replies that an engine draws: what is asked and checked, and the correction of their log-probabilities."""

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from safetensors.torch import load_file

from tests.support import grpo_world as grpo
from tests.support.grpo_world import ScriptedSampler, making
from tests.support.qwen_models import PIXELS
from tests.support.stub_server import StubServer, completion, entry, pictures_of, text_of
from tests.support.training_runs import assert_equal, trained_weights
from videopro.backbones import Sampling
from videopro.backbones.qwen import SampledReply
from videopro.engine.serving import ServedModel
from videopro.errors import BackboneError, ConfigError, RunError
from videopro.train.rl import EngineSampler, GRPORow, TrainingEngines, VideoGRPOTrainer
from videopro.train.rl.data import mix_seed
from videopro.train.rl.engine import adapter_weights, random_weights, write_adapter
from videopro.train.rl.loss_trainer import importance_ratio
from videopro.train.rl.samplers import Draw, LocalSampler

FAMILY = "qwen3_vl"
END = 7


class Engine:
    """A running engine's place: it notes which adapters it gets, and is reached at a stub server."""

    model = ServedModel("base", "base", images=8)

    def __init__(self, url: str, *, takes_adapters: bool = True) -> None:
        self.url = url
        self.loaded: list[str] = []
        self.files: dict[str, Mapping[str, torch.Tensor]] = {}
        self._takes_adapters = takes_adapters

    def load_adapter(self, name: str, folder: Path) -> None:
        assert (folder / "adapter_config.json").is_file()
        self.loaded.append(name)
        self.files[name] = load_file(folder / "adapter_model.safetensors")

    def unload_adapter(self, name: str) -> None:
        self.loaded.remove(name)

    def ask(self, path: str, content: Mapping[str, Any]) -> Any:
        differs = self._takes_adapters and content["model"] != "base"
        top = [{"token": "A", "logprob": -2.0 if differs else -1.0}]
        return {"choices": [{"logprobs": {"content": [{"top_logprobs": top}]}}]}

    def check(self) -> None:
        pass

    def answers(self) -> bool:
        return True


def served(made: VideoGRPOTrainer, *engines: Any, first: int = 0) -> EngineSampler:
    """A sampler of a process that has started all of these engines that take adapters."""
    frames: Any = made._prompt_encoder.frames  # type: ignore[union-attr]
    started = [engine for engine in engines if isinstance(engine, Engine)]
    return EngineSampler(
        TrainingEngines(Engine.model, engines, started, first),  # type: ignore[arg-type]
        made.model,
        frames,
        pixels=PIXELS,
        banned=[3, 4],
        ends=[END],
        decode=lambda ids: " ".join(map(str, ids)),
    )


def replies(
    prompts: Mapping[str, Sequence[int]], ids: Sequence[int] = (50, 51, END), finish: str = "stop"
) -> Callable[[dict[str, Any]], Any]:
    """What vLLM replies, with log-probabilities; `prompts`: each prompt's ids by the end of its text."""

    def reply(body: dict[str, Any]) -> Any:
        asked = next(list(ids) for end, ids in prompts.items() if text_of(body).endswith(end))
        tokens = [entry("x", -(0.5 ** (place + 1))) for place in range(len(ids))]
        made = completion("xy", tokens, finish=finish, choice={"token_ids": [*ids]})
        return {**made, "prompt_token_ids": asked}

    return reply


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> VideoGRPOTrainer:
    return grpo.trainer(FAMILY, grpo.settings(tmp_path_factory.mktemp("made")), grpo.rows())


def draws_of(made: VideoGRPOTrainer, rows: Sequence[GRPORow]) -> tuple[list[Draw], dict[str, Sequence[int]]]:
    """A draw for each row, and the ids of each prompt."""
    prompts = made._prompt_encoder.encode(rows)  # type: ignore[union-attr]
    draws = [Draw(prompt, row, (9, n)) for n, (prompt, row) in enumerate(zip(prompts, rows, strict=True))]
    return draws, {draw.row.prompt: draw.prompt.encoded.ids for draw in draws}


def test_an_engine_is_asked_by_version_and_seed_for_prompts_that_are_ours(made: VideoGRPOTrainer) -> None:
    first, *_, text_only = grpo.rows()
    rows = [first, first, text_only, replace(first, system="Be brief.", before="Look: ")]
    draws, _ = draws_of(made, rows)
    _, ids = draws_of(made, rows[:3])

    def reply(body: dict[str, Any]) -> Any:
        is_last = body["messages"][0]["role"] == "system"
        return replies({first.prompt: draws[3].prompt.encoded.ids} if is_last else ids)(body)

    sampling = Sampling(5, temperature=0.5, top_p=0.9)
    with StubServer(reply, models=None, takes_video="times") as stub:
        engine = Engine(stub.url)
        sampler = served(made, engine)
        # An adapter that must change the replies was loaded for a moment.
        assert engine.loaded == []
        adapter = {name.replace(".default", "") for name in weights_of(made)}
        assert engine.files["policy-check"].keys() == adapter
        sampler.sync(4)
        seen: list[tuple[int, SampledReply]] = []
        written = sampler.write(draws, sampling, lambda number, reply: seen.append((number, reply)))
        sampler.sync(4)
        sampler.sync(5)
        assert engine.loaded == ["policy-v4", "policy-v5"]
        again = sampler.write(draws, sampling, lambda number, reply: None)
        bodies = {(body["model"], body["seed"]): body for body in stub.chats}
        sampler.close()
    # The token that ended a reply is not part of it.
    assert written == again == [SampledReply([50, 51], [-0.5, -0.25], (END, -0.125))] * 4
    assert sorted(number for number, _ in seen) == [0, 1, 2, 3]
    # Each draw has a seed of its own, which is the same in the next round.
    assert len({seed for _, seed in bodies}) == 4
    assert {model for model, _ in bodies} == {"policy-v4", "policy-v5"}
    assert len(bodies) == 8
    for body in bodies.values():
        assert (body["temperature"], body["top_p"], body["max_tokens"]) == (0.5, 0.9, 5)
        assert (body["top_k"], body["min_p"], body["repetition_penalty"]) == (-1, 0.0, 1.0)
        assert body["logit_bias"] == {"3": -100.0, "4": -100.0}
        assert body["stop_token_ids"] == [END]
        is_text = text_of(body) == text_only.text
        assert len(pictures_of(body)) == (0 if is_text else grpo.world.FRAMES)
    (system, *_) = (body for body in bodies.values() if body["messages"][0]["role"] == "system")
    assert [part["type"] for part in system["messages"][1]["content"]] == ["text", "video_url", "text"]


def written(made: VideoGRPOTrainer, reply: Any, *faults: Any) -> list[SampledReply]:
    """To the prompt of text alone, by an engine that replies so after these faults."""
    draws, _ = draws_of(made, grpo.rows()[-1:])
    with StubServer(reply, models=None) as stub:
        stub.faults = [*faults]
        sampler = served(made, Engine(stub.url))
        sampler.sync(0)
        try:
            return sampler.write(draws, Sampling(5, temperature=1.0), lambda *_: None)
        finally:
            sampler.close()


def test_an_engine_that_reads_another_prompt_or_hides_what_it_drew_is_refused(made: VideoGRPOTrainer) -> None:
    row = grpo.rows()[-1]
    _, ids = draws_of(made, [row])
    with pytest.raises(BackboneError, match=f"row '{row.id}' differs.*another chat template"):
        written(made, replies({row.prompt: [*ids[row.prompt][:-1], 11]}))
    with pytest.raises(BackboneError, match="does not return token ids"):
        written(made, lambda body: completion("x", [entry("x", -0.5)]))


def test_a_reply_that_a_stopped_engine_broke_off_is_not_trained_on(made: VideoGRPOTrainer) -> None:
    _, ids = draws_of(made, grpo.rows()[-1:])
    expected = SampledReply([50, 51], [-0.5, -0.25], (END, -0.125))
    assert written(made, replies(ids), replies(ids, [50], finish="abort")) == [expected]


@pytest.mark.parametrize(("ids", "finish"), [([50], "stop"), ([], "stop"), ([END], "length")])
def test_a_reply_is_whole_unless_a_token_that_ends_replies_ended_it(
    ids: list[int], finish: str, made: VideoGRPOTrainer
) -> None:
    _, prompts = draws_of(made, grpo.rows()[-1:])
    assert written(made, replies(prompts, ids, finish)) == [SampledReply(ids, [-0.5] * len(ids))]


def test_a_policy_that_adapts_the_vision_tower_is_refused() -> None:
    """vLLM leaves such weights out (0.32, lora/model_manager.py: "no matching PunicaWrapper")."""
    name = "base_model.model.model.visual.merger.linear_fc1.lora_A.default.weight"
    weight = torch.nn.Parameter(torch.zeros(1))
    policy = SimpleNamespace(named_parameters=lambda: [(name, weight)])
    engines = TrainingEngines(Engine.model, [], [])
    frames: Any = None
    with pytest.raises(ConfigError, match=r"adapts more than the language.*\(base_model.*sampler: local"):
        EngineSampler(engines, policy, frames, pixels=1, banned=[], ends=[], decode=str)


def test_an_engine_that_takes_no_adapter_is_refused_at_once(made: VideoGRPOTrainer) -> None:
    with pytest.raises(BackboneError, match="answers with an adapter exactly as without it"):
        served(made, Engine("http://127.0.0.1:9/v1", takes_adapters=False))


def test_prompts_are_shared_out_and_an_older_version_may_draw(made: VideoGRPOTrainer) -> None:
    """Two engines, of which another process started the second: all replies to a prompt come from one; a
    process that begins with the second gives its first prompt to that."""
    draws, ids = draws_of(made, [grpo.rows()[number] for number in (0, 0, 1, 4, 4)])
    with (
        StubServer(replies(ids), models=None, takes_video="times") as one,
        StubServer(replies(ids), models=None, takes_video="times") as two,
    ):
        engine = Engine(one.url)
        other = SimpleNamespace(url=two.url, check=lambda: None, answers=lambda: True)
        sampler = served(made, engine, other, first=1)
        for step, keep in ((4, None), (5, None), (6, 4)):
            sampler.sync(step, keep)
        assert engine.loaded == ["policy-v4", "policy-v6"]
        numbers: list[int] = []
        sampling = Sampling(5, temperature=1.0)
        written = sampler.write(draws, sampling, lambda number, _: numbers.append(number), version=4)
        asked = [{body["seed"] for body in stub.chats} for stub in (one, two)]
        models = {body["model"] for stub in (one, two) for body in stub.chats}
        sampler.close()
    assert sorted(numbers) == [0, 1, 2, 3, 4]
    assert len(written) == 5
    seeds = [mix_seed(9, number) for number in range(5)]
    assert asked == [{seeds[2]}, {seeds[0], seeds[1], seeds[3], seeds[4]}]
    assert models == {"policy-v4"}


def test_an_error_of_one_of_several_engines_ends_the_others(made: VideoGRPOTrainer) -> None:
    draws, ids = draws_of(made, grpo.rows()[:2])
    raised, answered = threading.Event(), threading.Event()

    def slow(body: dict[str, Any]) -> Any:
        raised.wait(60)
        answered.set()
        return replies(ids)(body)

    def refuse(body: dict[str, Any]) -> Any:
        return completion("x", [entry("x", -0.5)])

    with (
        StubServer(slow, models=None, takes_video="times") as one,
        StubServer(refuse, models=None, takes_video="times") as two,
    ):
        sampler = served(made, Engine(one.url), Engine(two.url))
        sampler.sync(0)
        with pytest.raises(BackboneError, match="does not return token ids"):
            sampler.write(draws, Sampling(5, temperature=1.0), lambda *_: None)
        assert not answered.is_set()
        raised.set()
        sampler.close()


def weights_of(made: VideoGRPOTrainer) -> dict[str, torch.Tensor]:
    return {name: weight for name, weight in made.model.named_parameters() if "lora" in name}


def test_adapters_are_written_as_peft_reads_them(made: VideoGRPOTrainer, tmp_path: Path) -> None:
    """The random one has another effect than a new one, whose second matrices are zero."""
    weights = adapter_weights(made.model)
    write_adapter(made.model, weights, tmp_path)
    assert adapter_weights(made.model, needed=False) == {}
    own = load_file(tmp_path / "adapter_model.safetensors")
    trained = {name.replace(".default", ""): weight for name, weight in weights_of(made).items()}
    assert_equal(own, {name: weight.detach() for name, weight in trained.items()})
    assert all(weight.any() for name, weight in random_weights(weights).items() if "lora_B" in name)


def test_an_adapter_that_the_disk_does_not_take_is_an_error_of_the_run(tmp_path: Path) -> None:
    """It ends every process; of safetensors' own error the others would not be told, and wait."""
    with pytest.raises(RunError, match="the engine's adapter cannot be written"):
        write_adapter(None, {"lora_B": torch.zeros(1)}, tmp_path / "gone")


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        # The second token's ratio is 4 and the fifth's 1/4; whole replies' are 4 x 1 and 1 x 1/4.
        ("token_truncate", [[1.0, 3.0, 1.0], [1.0, 0.5, 1.0]]),
        ("token_mask", [[1.0, 0.0, 1.0], [1.0, 0.0, 1.0]]),
        ("sequence_truncate", [[3.0], [0.5]]),
        ("sequence_mask", [[0.0], [0.0]]),
    ],
)
def test_the_ratio_is_trls(mode: str, expected: list[list[float]]) -> None:
    mask = torch.tensor([[1, 1, 1], [1, 1, 0]])
    drawn = torch.full((2, 3), -2.0)
    policy = drawn + torch.tensor([[0.0, math.log(4), 0.0], [0.0, -math.log(4), 5.0]])
    settings = SimpleNamespace(
        vllm_importance_sampling_mode=mode,
        vllm_importance_sampling_clip_min=0.5,
        vllm_importance_sampling_clip_max=3.0,
    )
    ratio = importance_ratio(policy, drawn, mask, settings)
    torch.testing.assert_close(ratio.values, torch.tensor(expected))
    # The padding counts for nothing.
    torch.testing.assert_close(ratio.raw, torch.tensor([1.0, 4.0, 1.0, 1.0, 0.25]))
    assert ratio.differences.tolist() == pytest.approx([0, math.log(4), 0, 0, math.log(4)])


class Remote(LocalSampler):
    """The policy in this process as if an engine drew: `shift` is added to its log-probabilities."""

    is_remote = True

    def __init__(self, of: VideoGRPOTrainer, shift: float) -> None:
        super().__init__(of._run, of._sampler.copy, banned=of.banned)
        self._shift = shift

    def write(self, draws: Any, sampling: Any, on_reply: Any, version: Any = None) -> list[SampledReply]:
        # At temperature 1 the model's own log-probabilities are those that it was drawn with.
        return [self._shifted(reply) for reply in super().write(draws, sampling, on_reply)]

    def _shifted(self, reply: SampledReply) -> SampledReply:
        end = None if reply.end is None else (reply.end[0], reply.end[1] + self._shift)
        return SampledReply(reply.ids, [value + self._shift for value in reply.logprobs], end)


def test_a_loss_is_corrected_by_the_updates_ratio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where every token was drawn with e^-0.5 of its probability, a step of plain gradient descent is e^0.5
    times as long; without a shift it is that of replies that were drawn here. No further pass is run. Some
    replies have a second turn."""
    steps: dict[float | None, dict[str, torch.Tensor]] = {}
    passes: dict[float | None, int] = {}
    for shift in (None, 0.0, -0.5):
        rows = [grpo.rows()[number] for number in (0, 4)]
        config = grpo.settings(tmp_path, max_steps=1, vllm_importance_sampling_mode="token_truncate")
        made = grpo.trainer(FAMILY, config, rows, next_turn=grpo.refine_some)
        if shift is not None:
            made._sampler = Remote(made, shift)
        before = trained_weights(made)
        counted = Mock(wraps=made._score_shared_prefix)
        monkeypatch.setattr(made, "_score_shared_prefix", counted)
        made.train()
        steps[shift] = {name: weight - before[name] for name, weight in trained_weights(made).items()}
        passes[shift] = counted.call_count
        logged = made.state.log_history[0]
        if shift is None:
            assert "sampling/importance_sampling_ratio/mean" not in logged
            continue
        for name in ("mean", "min", "max"):
            ratio = logged[f"sampling/importance_sampling_ratio/{name}"]
            assert ratio == pytest.approx(math.exp(-shift), abs=1e-3)
        assert logged["sampling/policy_version"] == 0
    assert passes[None] == passes[0.0] == passes[-0.5]
    assert any(weight.any() for weight in steps[None].values())
    longer = {name: step * math.exp(0.5) for name, step in steps[None].items()}
    torch.testing.assert_close(steps[0.0], steps[None], atol=1e-7, rtol=1e-3)
    torch.testing.assert_close(steps[-0.5], longer, atol=1e-7, rtol=1e-3)


@pytest.mark.parametrize("shared", [True, False], ids=["shared", "apart"])
def test_a_pass_may_have_no_reply_that_counts(shared: bool, tmp_path: Path) -> None:
    """With mask_truncated_completions, where none of its replies has an end."""
    given = {"mask_truncated_completions": True, "per_device_train_batch_size": 4}
    config = grpo.settings(tmp_path, shared_prompt=shared, **given)
    made = grpo.trainer(FAMILY, config, grpo.rows()[:1], **making(ScriptedSampler()))
    before = trained_weights(made)
    made.train()
    assert made.state.log_history[0]["completions/clipped_ratio"] == 1
    assert not any("importance_sampling_ratio" in name for name in made.state.log_history[0])
    assert all(torch.equal(weight, before[name]) for name, weight in trained_weights(made).items())
