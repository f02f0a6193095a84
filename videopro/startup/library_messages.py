"""Hides lines that other libraries print and that tell a user of VideoPro nothing, each by its own text.

Importing this module hides them; it imports no other library. Everything else that libraries say is shown.
"""

from __future__ import annotations

import logging
import warnings

# (logger, beginning of the message)
_LOGGED = (
    # bitsandbytes, which peft imports if it is installed, looks for a CPU kernel of 4-bit weights; QLoRA on a
    # CPU is not supported here, and on a GPU the kernel is not used.
    ("bitsandbytes.backends.cpu.ops", "Failed to load CPU gemm_4bit_forward"),
    # DeepSpeed, which accelerate imports if it is installed, on a machine without a GPU.
    ("DeepSpeed", "Setting accelerator to CPU"),
)
# (category, regular expression of the message's beginning)
_WARNED: tuple[tuple[type[Warning], str], ...] = (
    # TRL and peft still use these names of transformers 5; they go on working until version 6.
    (FutureWarning, "`(is_)?gradient_checkpointing(_enable|_disable)?` is deprecated"),
    # peft looks for the base model's config by its name, to see whether the vocabulary was enlarged. "pocket"
    # is no folder or hub name, and no vocabulary is enlarged here.
    (UserWarning, "Could not find a config file in .* will assume that the vocabulary was not modified"),
    # Of every rollout_func of TRL's GRPOTrainer: tests hold it to what we need of it.
    (UserWarning, "You are using 'rollout_func', which is an experimental feature"),
    # Of an adapter for another model, which is refused with the names of these weights.
    (UserWarning, "Found missing adapter keys while loading the checkpoint"),
    # The same where no hub can be reached.
    (
        UserWarning,
        r"(?s)Unable to fetch remote file .* ignoring the lookup for the file config\.json",
    ),
)


class _Hidden(logging.Filter):
    """Drops records whose message begins like this."""

    def __init__(self, beginning: str) -> None:
        super().__init__()
        self._beginning = beginning

    def filter(self, record: logging.LogRecord) -> bool:
        return not record.getMessage().startswith(self._beginning)


class _HubRetries(logging.Filter):
    """One line for all attempts to reach the hub, instead of two for each of them; the error that follows
    says what to do. A rate limit is still reported."""

    def __init__(self) -> None:
        super().__init__()
        self._was_reported = False

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        if message.startswith("Retrying in "):
            return False
        reason, is_attempt, _ = message.partition(" thrown while requesting ")
        if not is_attempt:
            return True
        if self._was_reported:
            return False
        self._was_reported = True
        record.msg, record.args = (
            f"the hub does not answer ({reason}); trying for about half a minute, for each file of the model",
            (),
        )
        return True


for _logger, _beginning in _LOGGED:
    logging.getLogger(_logger).addFilter(_Hidden(_beginning))
logging.getLogger("huggingface_hub.utils._http").addFilter(_HubRetries())
for _category, _message in _WARNED:
    warnings.filterwarnings("ignore", message=_message, category=_category)
