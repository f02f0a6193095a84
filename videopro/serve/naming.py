"""Which film a client means: by its id, by a path in the operator's folders, or as a pocket video."""

from __future__ import annotations

from pathlib import Path

from anyio import CapacityLimiter, to_thread

from videopro.errors import Cancellation
from videopro.pocket import VIDEO_PREFIX, find_video
from videopro.serve.films import ID_PREFIX, Film
from videopro.serve.folders import PREFIX
from videopro.serve.problems import Problem
from videopro.serve.state import ServerState
from videopro.storage import printable

_AT_ONCE = CapacityLimiter(16)


async def film_named(state: ServerState, name: str, cancellation: Cancellation) -> Film:
    """The film; reading it ends when it is cancelled. Raises Problem, and Cancelled."""
    if name.startswith(ID_PREFIX):
        return state.films.get(name)

    def find() -> Film:
        if name.startswith(PREFIX):
            return state.films.from_folder(name.removeprefix(PREFIX), cancellation.check)
        if name.startswith(VIDEO_PREFIX) and state.answerer.is_pocket:
            return state.films.at(find_video(Path(name)), name, cancellation.check)
        message = (
            f"{printable(name, 100)!r} names no film: upload it to /v1/files and give its id, or give "
            f"{PREFIX}RELATIVE/PATH of the server's folders"
        )
        raise Problem(400, message, code="no_film", param="file_id")

    # Reading a long film takes long: it must not take the threads of all other requests.
    return await to_thread.run_sync(find, abandon_on_cancel=True, limiter=_AT_ONCE)
