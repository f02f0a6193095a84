"""Which film a client means: by its id, by a path in the operator's folders, as a pocket video, or, where
that is allowed, by an address."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from anyio import CapacityLimiter, to_thread

from videopro.errors import Cancellation
from videopro.pocket import VIDEO_PREFIX, find_video
from videopro.serve.fetching import SCHEMES, fetch
from videopro.serve.films import ID_PREFIX, Film
from videopro.serve.folders import PREFIX
from videopro.serve.problems import Problem
from videopro.serve.state import ServerState
from videopro.storage import printable

_AT_ONCE = CapacityLimiter(16)


async def film_named(state: ServerState, name: str, cancellation: Cancellation) -> Film:
    """The film; reading or fetching it ends when it is cancelled. Raises Problem, and Cancelled."""
    if name.startswith(ID_PREFIX):
        return state.films.get(name)

    def find() -> Film:
        if name.startswith(PREFIX):
            return state.films.from_folder(name.removeprefix(PREFIX), cancellation.check)
        if name.startswith(VIDEO_PREFIX) and state.answerer.is_pocket:
            return state.films.at(find_video(Path(name)), name, cancellation.check)
        if name.startswith(SCHEMES):
            return _fetched(state, name, cancellation)
        message = (
            f"{printable(name, 100)!r} names no film: upload it to /v1/files and give its id, or give "
            f"{PREFIX}RELATIVE/PATH of the server's folders"
        )
        raise Problem(400, message, code="no_film", param="file_id")

    # Fetching takes long: it must not take the threads of all other requests.
    return await to_thread.run_sync(find, abandon_on_cancel=True, limiter=_AT_ONCE)


def _fetched(state: ServerState, url: str, cancellation: Cancellation) -> Film:
    if not state.limits.allows_urls:
        message = (
            "this server fetches no addresses; upload the film to /v1/files and give its id "
            "(its operator can allow addresses: --allow-urls)"
        )
        raise Problem(403, message, code="urls_not_allowed", param="video_url")
    part = state.films.new_part()
    limit = min(state.limits.film_bytes, state.films.room())
    digest = fetch(url, part, limit=limit, seconds=state.limits.url_seconds, check=cancellation.check)
    name = PurePosixPath(unquote(urlsplit(url).path)).name or "film"
    return state.films.add(part, name, digest)
