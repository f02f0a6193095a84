"""The bar that transformers shows while it puts weights into a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def hide_weights_bar() -> None:
    """Hide transformers' bar over the tensors that it puts into a model. The bars of downloads stay."""
    from transformers.utils import logging as transformers_logging

    def hook(factory: Callable[..., Any], args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        # By its title: there is no setting for this bar alone.
        if settings.get("desc") == "Loading weights":
            settings = {**settings, "disable": True}
        return factory(*args, **settings)

    transformers_logging.set_tqdm_hook(hook)
