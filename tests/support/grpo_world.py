"""Prompts about the short videos of `sft_world`, trainers of tiny Qwen checkpoints, and whole runs with
rewards that need no program, for tests of GRPO.

`rows` are a prompt of each kind; `trainer` is the real one, with the reward `spread`; `ask`, `write` and
`batch` take its steps one by one. `ScriptedSampler` stands for an engine, `SomeRewards` for rewards of
programs, and `arguments` are the flags of the command.

Run as a script, it is two steps for launchers of several ranks: grpo_world.py OUTPUT REPLIES VIDEOS [ahead],
with replies a process and pass, and the folder of videos (x264 makes other files each time)."""

import os
import random
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForImageTextToText

from tests.support import sft_world as world
from tests.support.qwen_models import checkpoint
from tests.support.training_runs import LORA, NO_MODELS, flags
from videopro.backbones import Sampling
from videopro.backbones.qwen import SampledReply
from videopro.executor import parse_program
from videopro.question import Answer, prompts
from videopro.traces import Execution, Failure
from videopro.train.rewards import TurnOutcome
from videopro.train.rewards.runs import ProgramOutcome
from videopro.train.rl import GRPORow, PromptEncoder, VideoGRPOConfig, VideoGRPOTrainer, as_dataset
from videopro.train.rl.rollouts import Rollout
from videopro.train.rl.samplers import Draw, OnReply
from videopro.train.runtime.trainable import choose_trained


def row(number: int, kind: str, video: str, prompt: str, **fields: Any) -> GRPORow:
    given: dict[str, Any] = {"id": f"{video}-{number}/{kind}", "kind": kind, "prompt": prompt}
    given |= {"video": world.folder() / "videos" / f"{video}.mp4", "subtitles": None, "oracle_mode": "native"}
    return GRPORow(**{**given, "question": world.QUESTIONS[number], "answer": "A", **fields})


def rows() -> list[GRPORow]:
    """A prompt of each kind, and one without its video: prompts and videos of several lengths."""
    first, second, third = world.QUESTIONS
    program, log = prompts.NATIVE_PROGRAM, "NameError: no such thing\n  line 2"
    return [
        row(0, "plan", "a", prompts.plan(first)),
        row(1, "bug_fix", "b", prompts.bug_fix(second, program, log)),
        row(2, "native_refinement", "c", prompts.native_refinement(third, program)),
        row(0, "program_refinement", "a", prompts.program_refinement(first, program)),
        row(2, "plan", "b", prompts.plan(third), prompt_video=False),
    ]


def refined(row: GRPORow, log: str = "NameError: no") -> GRPORow:
    """The row of a second turn."""
    return replace(row, kind="bug_fix", prompt=prompts.bug_fix(row.question, prompts.NATIVE_PROGRAM, log))


def refine_some(given: Sequence[GRPORow], replies: Sequence[str]) -> list[GRPORow | None]:
    """What is asked after first replies, by the row and the reply alone: some end their rollout."""
    return [refined(row) if len(reply) % 2 else None for row, reply in zip(given, replies, strict=True)]


def record(row: GRPORow) -> dict[str, Any]:
    """The row as it stands in a file."""
    asked = {"question": row.question.text, "choices": list(row.question.choices)}
    return {**vars(row), **asked, "video": str(row.video)}


def settings(output: Path, **changes: Any) -> VideoGRPOConfig:
    """Settings for a CPU, under which a step is the gradient times the rate."""
    group = {"per_device_train_batch_size": 8, "num_generations": 4, "max_completion_length": 6}
    step: dict[str, Any] = {"optim": "sgd", "learning_rate": 0.05, "lr_scheduler_type": "constant"}
    step |= {"max_grad_norm": 0.0, "max_steps": 1, "seed": 3}
    return VideoGRPOConfig(output_dir=str(output), **{**world.ON_A_CPU, **group, **step, **changes})


def spread(completion_ids: Any, **_: Any) -> list[float]:
    """A reward that differs between replies."""
    return [sum(ids) % 17 / 17 + len(ids) for ids in completion_ids]


def trainer(
    family: str,
    config: VideoGRPOConfig,
    chosen: list[GRPORow],
    *,
    rewards: Any = spread,
    frozen: bool = True,
    kept_bytes: int = 10**9,
    use_peft: bool = True,
    banned: Any = None,
    **more: Any,
) -> VideoGRPOTrainer:
    """A trainer of a tiny checkpoint, as `videopro.train.grpo` makes it, with a plain reward."""
    # Not `reference`: a copy has lost what ZeRO-3 knows of its partitioned weights.
    model = AutoModelForImageTextToText.from_pretrained(checkpoint(family), dtype=torch.float32)
    peft = choose_trained(model, world.model_settings(family, use_peft=use_peft), ["language"])
    batches = world.collator(family)
    inputs, cache = batches._inputs, batches._frames
    return VideoGRPOTrainer(
        model=model,
        args=config,
        reward_funcs=[rewards],
        train_dataset=as_dataset(chosen),
        processing_class=inputs.processor,
        peft_config=peft,
        make_prompts=lambda run, _: PromptEncoder(inputs, cache, run, frozen=frozen, kept_bytes=kept_bytes),
        banned=inputs.visual_tokens() if banned is None else banned,
        **more,
    )


def ask(of: VideoGRPOTrainer, chosen: list[GRPORow]) -> None:
    """Have a trainer make the prompts of these rows."""
    of._rows = chosen
    of._rollouts = [Rollout((prompt,)) for prompt in of._begin_round(chosen, of._seed()).prompts]


def write(of: VideoGRPOTrainer, seed: int) -> list[SampledReply]:
    """Replies to the prompts in hand."""
    asked = replace(of._begin_round(of._rows, seed), first=of._eval_rows)
    return of._write(asked.draws(), seed, asked.version)


def batch(of: VideoGRPOTrainer, replies: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Prompts in hand and these replies as TRL lays them out: ids, mask and the width of the replies."""
    made = [rollout.prompts[0] for rollout in of._rollouts]
    shown = max(len(prompt.encoded.ids) for prompt in made)
    width = max(map(len, replies))
    ids = torch.full((len(made), shown + width), 0)
    mask = torch.zeros_like(ids)
    for number, (prompt, reply) in enumerate(zip(made, replies, strict=True)):
        start = shown - len(prompt.encoded.ids)
        whole = [*prompt.encoded.ids, *reply]
        ids[number, start : start + len(whole)] = torch.tensor(whole)
        mask[number, start : start + len(whole)] = 1
    return ids, mask, width


# ---- a sampler in an engine's place -----------------------------------------------------------------------


@dataclass(frozen=True)
class Written:
    """What was asked for in one call."""

    version: int | None
    draws: tuple[tuple[str, str, tuple[int, int]], ...]
    """Row, kind of prompt and seed."""
    thread: str
    newest: int
    """The newest version at that time."""


class ScriptedSampler:
    """Its replies depend on their seeds alone: runs that sample ahead and runs that do not get the same ones,
    whatever the policy was. `before` is called with the number of a call before its replies are made, in the
    thread that asks."""

    is_remote = True

    def __init__(self, before: Callable[[int], object] = lambda call: None) -> None:
        self.version = -1
        self.served: list[int] = []
        """The versions that an engine has."""
        self.written: list[Written] = []
        self._before = before
        self._one_at_a_time = threading.Lock()

    def sync(self, step: int, keep: int | None = None) -> None:
        self.version = step
        self.served += [step] if step not in self.served else []
        while len(self.served) > 2:
            self.served.remove(next(version for version in self.served if version != keep))

    def write(
        self, draws: Sequence[Draw], sampling: Sampling, on_reply: OnReply, version: int | None = None
    ) -> list[SampledReply]:
        assert self._one_at_a_time.acquire(blocking=False), "two rounds were written at a time"
        try:
            assert version in self.served
            asked = tuple((draw.row.id, draw.row.kind, draw.seed) for draw in draws)
            thread = threading.current_thread().name
            self.written.append(Written(version, asked, thread, self.version))
            self._before(len(self.written) - 1)
            replies = [reply(draw.seed) for draw in draws]
            for number, each in enumerate(replies):
                on_reply(number, each)
            return replies
        finally:
            self._one_at_a_time.release()

    def close(self) -> None:
        pass


def reply(seed: tuple[int, int]) -> SampledReply:
    """Up to five tokens, each with a log-probability; it ends by its length."""
    chance = random.Random(repr(seed))
    ids = [chance.randrange(20, 90) for _ in range(chance.randrange(1, 6))]
    return SampledReply(ids, [-4.5 + chance.random() / 2 for _ in ids])


def making(sampler: ScriptedSampler) -> dict[str, Any]:
    """The settings of a trainer that samples with it."""
    return {"make_sampler": lambda policy, ends: sampler}


# ---- whole runs --------------------------------------------------------------------------------------------


def arguments(output: Path, **changes: Any) -> list[str]:
    """Flags for a run on a CPU."""
    data = output.parent / "grpo.jsonl"
    if not data.exists():
        world.write(data, [record(row) for row in rows()])
    group = {"num_generations": 4, "per_device_train_batch_size": 4, "max_completion_length": 6}
    given = {"train_data": data, "modules": NO_MODELS, **group, "max_steps": 2}
    return flags(output, **{**LORA, **given, **changes})


class SomeRewards(nullcontext[Any]):
    """In place of `ProgramRewards`: a reward that a random model earns too."""

    latest: "SomeRewards"

    def __init__(self, backbone: Any, **_: Any) -> None:
        super().__init__(self)
        self.backbone = backbone
        self.functions = [spread]
        self.weights = [1.0]
        self.left_out_lines: list[str] = []
        SomeRewards.latest = self

    def prepare(self, *given: Any) -> None:
        pass

    submit = prepare

    def run(self, rows: Any, replies: Any) -> list[TurnOutcome]:
        """Some programs fail, so that episodes of one turn and of two are mixed."""
        failed = ProgramOutcome(Execution("failed", error=Failure("NameError", "no")), "NameError: no")
        right = ProgramOutcome(Execution("ok", Answer("A", 0.9)), "")
        outcomes = [failed if len(reply) % 2 else right for reply in replies]
        return [TurnOutcome(r, parse_program(r), made) for r, made in zip(replies, outcomes, strict=True)]


def two_steps(output: Path, replies: int, *, ahead: bool = False) -> None:
    """Two steps over two groups with videos and one of text alone, rollouts of one turn and of two among
    them; the adapter ends in `output`."""
    chosen = [rows()[number] for number in (0, 1, 4)]
    # Before there are several processes, of which only the first would write it.
    checkpoint("qwen3_vl")
    several: dict[str, Any] = {}
    if os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true":
        several = {"use_cpu": False}  # in the CPU's stead `as_accelerator` has a GPU
    elif "RANK" in os.environ:
        several = {"ddp_backend": "gloo"}
    sampler = {}
    if ahead:
        several |= {"sampler": "vllm", "async_rollouts": True}
        sampler = making(ScriptedSampler())
    several |= {"per_device_train_batch_size": replies, "max_steps": 2}
    config = settings(output, beta=0.1, learning_rate=0.2, **several)
    made = trainer("qwen3_vl", config, chosen, next_turn=refine_some, **sampler)
    made.train()
    made.save_model(str(output))


if __name__ == "__main__":
    world.folder = lambda: Path(sys.argv[3])  # type: ignore[assignment]
    two_steps(Path(sys.argv[1]), int(sys.argv[2]), ahead="ahead" in sys.argv[4:])
