"""The settings of a GRPO run: TRL's own, and those for videos and programs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, get_args

from trl import GRPOConfig

from videopro.errors import ConfigError
from videopro.reasoning import ReasoningSettings
from videopro.traces import FinalRule
from videopro.train.rewards import ACCURACIES, ANSWER
from videopro.train.rl.data import KINDS
from videopro.train.runtime import MODULES_HELP, TrainingConfig, check_choice

SINGLE, TWO_TURN = "single", "two_turn"
EPISODES = (SINGLE, TWO_TURN)


@dataclass
class VideoGRPOConfig(TrainingConfig, GRPOConfig):
    """TRL's GRPOConfig, `TrainingConfig` and the settings below. All can be set in a YAML file (`--config`)
    and by flags."""

    ROWS = "grpo.jsonl"

    kinds: list[str] = field(
        default_factory=lambda: list(KINDS), metadata={"help": f"kinds of prompts: {', '.join(KINDS)}"}
    )
    prompt_video: bool = field(
        default=True,
        metadata={
            "help": "prompts begin with the video; false: planning from the question's text, sampled by TRL"
        },
    )
    shared_prompt: bool = field(
        default=True,
        metadata={"help": "log-prob passes run the prompt once for all replies of its group"},
    )
    sampling_batch_size: int | None = field(
        default=None,
        metadata={"help": "replies sampled in one batch; unset: all of a process's replies"},
    )
    kept_features_gb: float = field(
        default=1.0,
        metadata={
            "help": "memory in GB on the model's device for a frozen vision tower's features of recent videos"
        },
    )
    answerer: str | None = field(
        default=None,
        metadata={
            "help": "the model that answers inside programs: a name or server:MODEL@URL; unset: the model in"
            " training without its adapter, or the base that a merged planner records"
        },
    )
    modules: dict[str, Any] | str | None = field(default=None, metadata={"help": MODULES_HELP})
    episodes: str = field(
        default=SINGLE,
        metadata={
            "help": "single: a rollout is one reply (as in the paper); two_turn: a plan that failed or is"
            " not confident is refined as in inference, and both replies get the episode's reward",
            "choices": EPISODES,
        },
    )
    tau: float = field(
        default=ReasoningSettings.tau,
        metadata={"help": "two-turn episodes refine answers below this confidence, as inference does"},
    )
    final: FinalRule = field(
        default="last",
        metadata={
            "help": "which answer of a two-turn episode earns the accuracy reward, as in videopro infer:"
            " last, last-answered or best",
            "choices": get_args(FinalRule),
        },
    )
    accuracy: str = field(
        default=ANSWER,
        metadata={
            "help": "the accuracy reward; answer: 1 for a right answer (Eq. 3); probability: the probability"
            " of the right letter in the answering call, so that a lucky guess earns less",
            "choices": ACCURACIES,
        },
    )
    run_ahead: bool = field(
        default=True,
        metadata={"help": "start a program as soon as its reply is written, while others are being written"},
    )
    reward_workers: int = field(default=4, metadata={"help": "programs run in parallel by each process"})

    _VALID_DICT_FIELDS = [*GRPOConfig._VALID_DICT_FIELDS, "modules"]

    # A reply's log-probabilities must be those that it was sampled with.
    disable_dropout: bool = field(default=True, metadata={"help": "as in GRPOConfig"})

    def __post_init__(self) -> None:
        super().__post_init__()
        unknown = [kind for kind in self.kinds if kind not in KINDS]
        if unknown or not self.kinds:
            raise ConfigError(f"kinds is {self.kinds!r}; name some of {', '.join(KINDS)}")
        check_choice("episodes", self.episodes, EPISODES)
        check_choice("final", self.final, get_args(FinalRule))
        check_choice("accuracy", self.accuracy, ACCURACIES)
        if self.episodes != SINGLE and not self.prompt_video:
            raise ConfigError(
                f"episodes is {self.episodes!r}, but with prompt_video: false TRL samples, and its rollouts "
                "have one reply; leave one of them out"
            )
        if not 0 <= self.tau <= 1:
            raise ConfigError(f"tau is {self.tau}; it must be from 0 to 1")
        self.check_run("reward_workers", "sampling_batch_size")
        if self.kept_features_gb < 0:
            raise ConfigError(f"kept_features_gb is {self.kept_features_gb}; it must be at least 0")
        if self.reward_weights is not None:
            raise ConfigError(
                "reward_weights is set, but the weights come with the rewards (train/rewards/functions.py); "
                "leave it out"
            )
        self._check_saves()

    def without_effect(self) -> tuple[str, ...]:
        """See `TrainingConfig`."""
        return ("final",) if self.episodes == SINGLE else ()

    def _check_saves(self) -> None:
        """Raise ConfigError if a checkpoint would be saved before the last step on the sampled replies, which
        it would lose."""
        every = self.steps_per_sampling * self.num_iterations
        if self.save_strategy == "steps" and self.save_steps >= 1:
            passes = int(self.save_steps) * self.gradient_accumulation_steps
            if passes % every and every % self.gradient_accumulation_steps == 0:
                steps = every // self.gradient_accumulation_steps
                raise ConfigError(
                    f"save_steps is {int(self.save_steps)}, but replies are sampled for {steps} steps at a "
                    f"time; give a multiple of {steps}, so that a run resumes exactly"
                )

    def check_sampling(self) -> None:
        """Raise ConfigError for sampling settings that prompts with videos do not support."""
        given = {
            "use_vllm": self.use_vllm,
            "top_k": self.top_k != 0,
            "min_p": self.min_p is not None,
            "repetition_penalty": self.repetition_penalty != 1.0,
            "generation_kwargs": bool(self.generation_kwargs),
            "cache_implementation": self.cache_implementation is not None,
        }
        for name, changed in given.items():
            if changed:
                raise ConfigError(
                    f"{name} is {getattr(self, name)!r}, but prompts with videos are sampled in this process "
                    "with temperature and top_p only; leave it out, or set prompt_video: false"
                )

    @property
    def steps_per_sampling(self) -> int:
        """Batches made from one round of sampling, as computed by GRPOConfig."""
        assert self.steps_per_generation is not None
        return self.steps_per_generation

    @property
    def longest(self) -> int:
        """The maximum length of a reply in tokens. Raises ConfigError if it is not set."""
        if self.max_completion_length is None:
            raise ConfigError(
                "max_completion_length is not set; set the maximum length of a reply in tokens, such as 1024"
            )
        return self.max_completion_length
