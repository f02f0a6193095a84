"""The settings of GRPO in addition to TRL's."""

# ruff: noqa: RUF009 (`option` makes a field of a dataclass, no default)

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, get_args

from videopro.methods.program import REASONED, REASONED_HELP, ReasoningSettings
from videopro.traces import FinalRule, ReasonedRule
from videopro.train.rewards import ACCURACIES, ANSWER, EQUATION, FORMS
from videopro.train.settings.planner_training import KINDS, MODULES_HELP, TrainingConfig, option

LOCAL, VLLM = "local", "vllm"
SAMPLERS = (LOCAL, VLLM)
SINGLE, TWO_TURN = "single", "two_turn"
EPISODES = (SINGLE, TWO_TURN)


@dataclass
class GRPOSettings(TrainingConfig):
    """A mixin: list it before TRL's GRPOConfig in the bases."""

    ROWS = "grpo.jsonl"
    STAGE = "grpo"

    # A list: TRL's parser has no tuples.
    kinds: list[str] = field(
        default_factory=lambda: list(KINDS), metadata={"help": f"kinds of prompts: {', '.join(KINDS)}"}
    )
    prompt_video: bool = option(
        True, "begin prompts with the video; false: plan from the question's text, sampled by TRL"
    )
    shared_prompt: bool = option(True, "run the prompt once for all replies of its group in log-prob passes")
    sampler: str = option(
        LOCAL,
        "what samples replies: local (the policy in this process) or vllm (an engine on the GPU of each "
        "process, which loads the adapter before each round)",
        SAMPLERS,
    )
    # A mapping, or the JSON of one: a flag is text.
    vllm: dict[str, Any] | str | None = option(
        None,
        "with sampler: vllm, the engine's settings, as --vllm of videopro infer, such as program: engine; "
        "memory defaults to 0.45 here",
    )
    engine_gpus: str | None = option(
        None,
        "with sampler: vllm, GPUs reserved for engines, such as 4,5,6,7, each engine on as many as gpus in "
        "vllm; the processes of a machine share them. Unset: one engine on the GPU of each process",
    )
    async_rollouts: bool = option(
        False,
        "with sampler: vllm, sample the next replies while the policy trains on these: one-step off-policy, "
        "corrected by the importance ratio",
    )
    # A frozen tower makes the same features in every step, so that only new videos need be encoded.
    kept_features_gb: float = option(
        1.0, "GB of the model's device to keep a frozen vision tower's features of recent videos"
    )
    # Not the policy: the model that answers inside programs would change with every step, and the rewards
    # with it.
    answerer: str | None = option(
        None,
        "the model that answers inside programs: a name or server:MODEL@URL; unset: the model in"
        " training without its adapter, or the base that a merged planner records",
    )
    modules: dict[str, Any] | str | None = option(None, MODULES_HELP)
    episodes: str = option(
        SINGLE,
        "single: a rollout is one reply (as in the paper); two_turn: a plan that fails or is not confident "
        "is refined as in inference, and both replies get the episode's reward",
        EPISODES,
    )
    tau: float = option(
        ReasoningSettings.tau, "in two-turn episodes, refine answers below this confidence, as in inference"
    )
    # As in inference, which also may keep the answer before a refinement that made it worse.
    final: FinalRule = option(
        "last",
        "the answer of a two-turn episode that earns the accuracy reward, as in videopro infer: last, "
        "last-answered or best",
        get_args(FinalRule),
    )
    accuracy: str = option(
        ANSWER,
        "the accuracy reward; answer: 1 for a right answer (Eq. 3); probability: the probability"
        " of the right letter in the answering call, so that a lucky guess earns less",
        ACCURACIES,
    )
    form: str = option(
        EQUATION,
        "the rewards for format and mode; equation: for form alone, and for the oracle mode alone"
        " (Eq. 3, A.3); strict: a reply that ends in a guess is malformed, and a malformed reply earns no"
        " mode reward",
        FORMS,
    )
    reasoned_confidence: ReasonedRule = option(REASONED, REASONED_HELP, get_args(ReasonedRule))
    run_ahead: bool = option(
        True, "start each program as soon as its reply is complete, while others are still sampled"
    )
    reward_workers: int = option(4, "programs to run in parallel per process")
