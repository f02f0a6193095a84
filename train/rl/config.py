"""The settings of a GRPO run: TRL's own, and what videos and programs add to them.

Knows settings; must not know what is done with them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, get_args

from trl import GRPOConfig

from videopro.errors import ConfigError
from videopro.reasoning import ReasoningSettings
from videopro.traces import FinalRule
from videopro.train.rewards.scoring import ACCURACIES, ANSWER
from videopro.train.rl.data import KINDS
from videopro.train.runtime.config import MODULES_HELP, TrainingConfig, check_choice

SINGLE, TWO_TURN = "single", "two_turn"
EPISODES = (SINGLE, TWO_TURN)


@dataclass
class VideoGRPOConfig(TrainingConfig, GRPOConfig):
    """TRL's GRPOConfig, `TrainingConfig` and the settings below, which a YAML file (`--config`) and flags
    may give alike."""

    ROWS = "grpo.jsonl"

    kinds: list[str] = field(
        default_factory=lambda: list(KINDS), metadata={"help": f"kinds of prompts: {', '.join(KINDS)}"}
    )
    prompt_video: bool = field(
        default=True,
        metadata={
            "help": "prompts begin with the video; false: planning from the question's text, all by TRL"
        },
    )
    shared_prompt: bool = field(
        default=True,
        metadata={"help": "log-prob passes run the prompt once for the replies of its group"},
    )
    sampling_batch_size: int | None = field(
        default=None,
        metadata={"help": "replies written side by side; unset: all that a process has to write"},
    )
    kept_features_gb: float = field(
        default=1.0,
        metadata={
            "help": "memory for what a frozen vision tower made of videos seen last, on the model's device"
        },
    )
    answerer: str | None = field(
        default=None,
        metadata={
            "help": "who answers inside programs: a model, or server:MODEL@URL; unset: the model in training"
            " without its adapter"
        },
    )
    modules: dict[str, Any] | str | None = field(default=None, metadata={"help": MODULES_HELP})
    episodes: str = field(
        default=SINGLE,
        metadata={
            "help": "single: a rollout is one reply (the paper's form); two_turn: a plan that failed or is"
            " unsure is refined as in inference, and both replies are trained on what the episode earns",
            "choices": EPISODES,
        },
    )
    tau: float = field(
        default=ReasoningSettings.tau,
        metadata={"help": "episodes of two turns refine answers below this confidence, as inference does"},
    )
    final: FinalRule = field(
        default="last",
        metadata={
            "help": "which answer of an episode of two turns earns accuracy, as in videopro.infer: last,"
            " last-answered or best",
            "choices": get_args(FinalRule),
        },
    )
    accuracy: str = field(
        default=ANSWER,
        metadata={
            "help": "what the accuracy reward pays: answer: 1 for a right one (Eq. 3); probability: what the"
            " answering call gave the right letter, so that a lucky guess earns what it is",
            "choices": ACCURACIES,
        },
    )
    run_ahead: bool = field(
        default=True,
        metadata={"help": "a program begins as soon as its reply is written, while others are being written"},
    )
    reward_workers: int = field(default=4, metadata={"help": "programs run side by side, a process"})

    _VALID_DICT_FIELDS = [*GRPOConfig._VALID_DICT_FIELDS, "modules"]

    # Log-probabilities of a reply are to be those that it was sampled with.
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
                f"episodes is {self.episodes!r} and prompts are TRL's own (prompt_video: false), which end "
                "with a reply; leave one of them out"
            )
        if not 0 <= self.tau <= 1:
            raise ConfigError(f"tau is {self.tau}; it must lie in 0..1")
        self.check_run("reward_workers", "sampling_batch_size")
        if self.kept_features_gb < 0:
            raise ConfigError(f"kept_features_gb is {self.kept_features_gb}; it must be at least 0")
        if self.reward_weights is not None:
            raise ConfigError(
                "reward_weights come with the rewards (train/rewards/functions.py): leave them out"
            )
        self._check_saves()

    def _check_saves(self) -> None:
        """A checkpoint between a sampling and the last step on its replies would lose them."""
        every = self.steps_a_sampling * self.num_iterations
        if self.save_strategy == "steps" and self.save_steps >= 1:
            passes = int(self.save_steps) * self.gradient_accumulation_steps
            if passes % every and every % self.gradient_accumulation_steps == 0:
                steps = every // self.gradient_accumulation_steps
                raise ConfigError(
                    f"save_steps is {int(self.save_steps)} and replies are sampled for {steps} steps "
                    f"at a time; give a multiple of {steps}, so that a run can be resumed as it was"
                )

    def check_sampling(self) -> None:
        """Raise ConfigError for settings of sampling that prompts with videos do without."""
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
                    f"{name} is {getattr(self, name)!r}, and prompts with videos are sampled in this process "
                    "by temperature and top_p; leave it out, or plan without videos (prompt_video: false)"
                )

    @property
    def steps_a_sampling(self) -> int:
        """Batches that are made of one round of sampling; GRPOConfig works it out."""
        assert self.steps_per_generation is not None
        return self.steps_per_generation

    @property
    def longest(self) -> int:
        """Tokens of a reply at most. Raises ConfigError where there is no limit."""
        if self.max_completion_length is None:
            raise ConfigError(
                "max_completion_length is unset; give the longest reply in tokens, such as 1024"
            )
        return self.max_completion_length
