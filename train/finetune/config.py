"""The settings of a fine-tuning run: TRL's, and settings for videos and programs."""

from __future__ import annotations

from dataclasses import dataclass

from trl import SFTConfig

from videopro.errors import ConfigError
from videopro.train.settings import SFTSettings, option

_OWN_BATCHES = "the video collator does not support it"
_WHOLE_ROWS = "rows are never truncated and the loss is always on the reply"


@dataclass
class VideoSFTConfig(SFTSettings, SFTConfig):
    """TRL's SFTConfig, `SFTSettings` and the settings below. All can be set in a YAML file (`--config`)
    and by flags."""

    FIXED = {
        **dict.fromkeys(("assistant_only_loss", "eos_token", "chat_template_path"), _OWN_BATCHES),
        **dict.fromkeys(("max_length", "completion_only_loss"), _WHOLE_ROWS),
    }
    _VALID_DICT_FIELDS = [*SFTConfig._VALID_DICT_FIELDS, "eval_modules"]

    # Truncation would separate visual tokens from their features.
    max_length: int | None = option(None, "rows are never truncated; leave it unset")

    def __post_init__(self) -> None:
        self.set_facts()
        # The collator makes the batches, and needs all columns.
        self.remove_unused_columns = False
        super().__post_init__()
        # TRL would tokenize the rows, without their videos.
        self.dataset_kwargs = {"skip_prepare_dataset": True}
        self.check_run("eval_max_new_tokens")
        if self.packing:
            raise ConfigError(
                "packing is True, but rows are never cut or moved between batches; leave it out, and set "
                "padding_free: true to run a batch as one row"
            )
        for name in ("vision", "projector"):
            if self.adapter and getattr(self, name) == "trained":
                raise ConfigError(
                    f"{name} is trained and adapter is set, but the adapter's settings decide what is "
                    "trained; leave one of them out"
                )
