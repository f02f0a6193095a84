"""The settings of a fine-tuning run: TRL's own, and those for videos and programs."""

from __future__ import annotations

from dataclasses import dataclass, field

from trl import SFTConfig

from videopro.errors import ConfigError
from videopro.train.settings import PART_CHOICES, SFTSettings, check_choice


@dataclass
class VideoSFTConfig(SFTSettings, SFTConfig):
    """TRL's SFTConfig, `SFTSettings` and the settings below. All can be set in a YAML file (`--config`)
    and by flags."""

    _VALID_DICT_FIELDS = [*SFTConfig._VALID_DICT_FIELDS, "eval_modules"]

    # Rows are never truncated (that would separate visual tokens from their features), and the collator needs
    # all columns.
    max_length: int | None = field(
        default=None, metadata={"help": "rows are never truncated; leave it unset"}
    )
    padding_free: bool = field(
        default=False,
        metadata={
            "help": "run the rows of a batch as one row of documents, without padding between them; the loss"
            " is the same"
        },
    )
    remove_unused_columns: bool = field(default=False, metadata={"help": "the collator needs all columns"})

    def __post_init__(self) -> None:
        super().__post_init__()
        self.dataset_kwargs = {"skip_prepare_dataset": True}
        if self.packing:
            raise ConfigError(
                "packing is True, but rows are never cut, nor moved from one batch to another; leave it out, "
                "and set padding_free: true to run a batch as one row"
            )
        for name in ("assistant_only_loss", "eos_token", "chat_template_path"):
            if getattr(self, name):
                raise ConfigError(
                    f"{name} is {getattr(self, name)!r}, which this project's collator does not support; "
                    f"leave {name} out"
                )
        for name in ("max_length", "completion_only_loss"):
            if getattr(self, name) is not None:
                raise ConfigError(
                    f"{name} is {getattr(self, name)!r}; rows are never truncated and the loss is always on "
                    f"the reply: leave {name} out"
                )
        if self.remove_unused_columns:
            raise ConfigError(
                "remove_unused_columns is true, but the collator needs all columns; leave it out"
            )
        for name in ("vision", "projector"):
            check_choice(name, getattr(self, name), PART_CHOICES)
            if getattr(self, f"{name}_lr") is not None and getattr(self, name) == "frozen":
                raise ConfigError(f"{name}_lr is set, but {name} is frozen; leave {name}_lr out, or train it")
            if self.adapter and getattr(self, name) == "trained":
                raise ConfigError(
                    f"{name} is trained and adapter is set, but an adapter's own settings decide what is "
                    "trained; leave one of them out"
                )
        self.check_run("eval_max_new_tokens")
        if self.kept_features_gb < 0:
            raise ConfigError(f"kept_features_gb is {self.kept_features_gb}; it must be at least 0")
