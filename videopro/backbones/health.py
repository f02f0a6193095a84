"""Distinguishes one request that cannot be served from a backbone that can serve none."""

from __future__ import annotations

from videopro.backbones.base import Backbone
from videopro.errors import BackboneError
from videopro.question import Question


def check_alive(backbone: Backbone, message: str) -> None:
    """Raise BackboneError, with `message` and the cause, if the backbone can serve no request at all: a
    server is unreachable, or a device has failed. Otherwise every remaining question would be recorded as
    unanswerable."""
    try:
        # Without any picture: a video that the model cannot take must not count as a dead model.
        backbone.answer(None, Question("Is one more than two?", ("yes", "no")))
    except BackboneError as error:
        raise BackboneError(
            f"{message}\nIt serves no other request either, so the run stops. All finished answers are kept; "
            "fix this and re-run the same command to resume."
        ) from error
