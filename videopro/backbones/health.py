"""Telling a request that cannot be served from a backbone that serves none. Knows the backbone's
interface."""

from __future__ import annotations

from videopro.backbones.base import Backbone
from videopro.errors import BackboneError
from videopro.question import Question


def check_alive(backbone: Backbone, message: str) -> None:
    """Tell a request that cannot be served from a backbone that serves none: a server that is gone, a device
    in error. Without this, every question left would be recorded as unanswerable. Raises BackboneError."""
    try:
        backbone.answer(None, Question("Is one more than two?", ("yes", "no")))
    except BackboneError as error:
        raise BackboneError(
            f"{message}\nThe backbone serves no other request either, so the run stops; what was "
            "answered is safe, and the same command goes on once this is mended."
        ) from error
