"""What planners behind a server share: which errors end the run, and which concern one request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from videopro.backbones.server import RequestRefused
from videopro.errors import BackboneError, RunError

# HTTP statuses that concern one request: its form or its length. Any other means that none can be served.
_REQUEST_STATUSES = (400, 413, 422)


@contextmanager
def stopping_run(planner: str) -> Iterator[None]:
    """Within the block, a BackboneError becomes a RunError, except for a refusal of one request."""
    try:
        yield
    except BackboneError as error:
        if isinstance(error, RequestRefused) and error.status in _REQUEST_STATUSES:
            raise
        raise RunError(
            f"planner {planner}: {error}\nNo other question can be answered either, so the run stops. All "
            "finished answers are kept; fix this and re-run the same command to resume."
        ) from None
