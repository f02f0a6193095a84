"""Process-wide state that affects models: sharded training weights, progress bars, the GPU of a thread."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

_REFERENCE = "_hf_deepspeed_config_weak_ref"
_here = threading.local()


class _Settings:
    """Stands for transformers' reference to DeepSpeed's settings. Threads in `loaded_whole` see none; the
    training, which looks them up in its own thread meanwhile, does."""

    def __init__(self, reference: Callable[[], Any]) -> None:
        self._reference = reference

    def __call__(self) -> Any:
        return None if getattr(_here, "depth", 0) else self._reference()


@contextmanager
def loaded_whole() -> Iterator[None]:
    """Within, the models that this thread loads are whole in this process.

    Under ZeRO-3 transformers shards every model that is loaded: its weights are then empty here, and all
    processes would have to load it together, in the same order.
    """
    # Not imported here: where nobody has, there is no such training.
    integration = sys.modules.get("transformers.integrations.deepspeed")
    reference = getattr(integration, _REFERENCE, None)
    if reference is not None and not isinstance(reference, _Settings):
        setattr(integration, _REFERENCE, _Settings(reference))
    _here.depth = getattr(_here, "depth", 0) + 1
    try:
        yield
    finally:
        _here.depth -= 1


def hide_weights_bar() -> None:
    """Hide transformers' bar over the tensors that it puts into a model. The bars of downloads stay."""
    from transformers.utils import logging as transformers_logging

    def hook(factory: Callable[..., Any], args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        # By its title: there is no setting for this bar alone.
        if settings.get("desc") == "Loading weights":
            settings = {**settings, "disable": True}
        return factory(*args, **settings)

    transformers_logging.set_tqdm_hook(hook)


def sharing_gpu() -> Callable[[], None]:
    """An initializer for the threads of a pool: their current GPU is that of this thread. That of a new
    thread is the machine's first, whichever one the process computes on."""
    torch: Any = sys.modules.get("torch")
    # Before a GPU is used the first is everyone's, and to ask for it would open it.
    if torch is None or not torch.cuda.is_initialized():
        return _nothing
    return partial(torch.cuda.set_device, torch.cuda.current_device())


def _nothing() -> None:
    pass
