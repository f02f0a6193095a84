"""Which film a client means: by its id, by a path in the operator's folders, as a pocket video, or, where
that is allowed, by an address."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from anyio import to_thread

from videopro.pocket import VIDEO_PREFIX, find_video
from videopro.serve.films import ID_PREFIX, Film
from videopro.serve.folders import PREFIX
from videopro.serve.problems import Problem
from videopro.serve.state import ServerState
from videopro.storage import printable


async def film_named(state: ServerState, name: str) -> Film:
    """The film. Raises Problem."""
    if name.startswith(ID_PREFIX):
        return state.films.get(name)
    if name.startswith(PREFIX):
        return await to_thread.run_sync(state.films.from_folder, name.removeprefix(PREFIX))
    if name.startswith(VIDEO_PREFIX) and state.answerer.is_pocket:
        path = await to_thread.run_sync(find_video, Path(name))
        return await to_thread.run_sync(partial(state.films.at, path, name))
    shown = printable(name, 100)
    message = (
        f"{shown!r} names no film: upload it to /v1/files and give its id, or give {PREFIX}RELATIVE/PATH of "
        "the server's folders"
    )
    raise Problem(400, message, code="no_film", param="file_id")
