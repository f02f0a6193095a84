"""The settings of a GRPO run: TRL's, and settings for videos and programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trl import GRPOConfig

from videopro.errors import ConfigError
from videopro.train.settings import VLLM, GRPOSettings, check_kinds

_SAMPLED = "replies are sampled with temperature and top_p only, in this process or by sampler: vllm"


@dataclass
class VideoGRPOConfig(GRPOSettings, GRPOConfig):
    """TRL's GRPOConfig and `GRPOSettings`. All can be set in a YAML file (`--config`) and by flags."""

    FIXED = {
        "reward_weights": "the weights come with the rewards (train/rewards/functions.py)",
        "train_sampling_strategy": "GRPO draws prompts at random, with a group of replies to each",
        **dict.fromkeys(("use_vllm", "top_k", "min_p", "repetition_penalty"), _SAMPLED),
        **dict.fromkeys(("generation_kwargs", "cache_implementation"), _SAMPLED),
    }
    _VALID_DICT_FIELDS = [*GRPOConfig._VALID_DICT_FIELDS, "modules", "vllm"]

    def __post_init__(self) -> None:
        self.set_facts()
        # A reply's log-probabilities must be those that it was sampled with.
        self.disable_dropout = True
        super().__post_init__()
        check_kinds(self.kinds)
        self.check_run("reward_workers")
        if self.sampler != VLLM:
            for name in ("vllm", "engine_gpus"):
                if getattr(self, name):
                    raise ConfigError(
                        f"{name} is set, but sampler is not 'vllm'; set sampler: vllm, or leave {name} out"
                    )
            if self.async_rollouts:
                raise ConfigError(
                    f"async_rollouts is true, but sampler is {self.sampler!r}: the training process then "
                    "samples and trains in turn; set sampler: vllm, or leave async_rollouts out"
                )
        if not 0 <= self.tau <= 1:
            raise ConfigError(f"tau is {self.tau}; it must be from 0 to 1")
        self._check_correction()
        self._check_saves()

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
                    f"time; set a multiple of {steps}, so that a run resumes exactly"
                )

    def _check_correction(self) -> None:
        """Raise ConfigError where the importance ratio would take the loss away: an engine draws from the
        tokens that top-p leaves, whose probabilities are larger there by what it cuts off, at each token."""
        of_reply = self.vllm_importance_sampling_mode.startswith("sequence")
        if self.sampler == VLLM and self.top_p < 1 and self.vllm_importance_sampling_correction and of_reply:
            raise ConfigError(
                f"top_p is {self.top_p:g} with sampler: vllm, and vllm_importance_sampling_mode is "
                f"{self.vllm_importance_sampling_mode!r}: the ratio of a whole reply would shrink toward 0 "
                "with each token; set top_p: 1.0, or vllm_importance_sampling_mode: token_truncate"
            )

    @property
    def dedicated_gpus(self) -> list[str]:
        """The names of the GPUs that only engines use."""
        # A YAML file may have a list, or one number.
        named: Any = self.engine_gpus
        parts = named if isinstance(named, list) else str("" if named is None else named).split(",")
        return [name for part in parts if (name := str(part).strip())]

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
