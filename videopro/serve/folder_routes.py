"""/v1/videopro/folders: the films in the operator's folders. And the session of the page."""

from __future__ import annotations

from typing import Any

from anyio import to_thread
from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from videopro.errors import Cancellation
from videopro.serve.file_routes import file_object
from videopro.serve.folders import PREFIX
from videopro.serve.guards import COOKIE, session_of
from videopro.serve.naming import film_named
from videopro.serve.state import state_of

router = APIRouter()

_SESSION_SECONDS = 30 * 86_400


class FolderFilm(BaseModel):
    """A film in a folder."""

    path: str = Field(min_length=1, max_length=4096)


@router.get("/v1/videopro/folders")
async def films(request: Request) -> dict[str, Any]:
    """The films in the folders, by relative path."""
    return {"object": "list", "data": await to_thread.run_sync(state_of(request).films.folders.films)}


@router.post("/v1/videopro/folders")
async def open_film(request: Request, film: FolderFilm) -> dict[str, Any]:
    """A film in a folder as a file object, with its id."""
    state = state_of(request)
    return await file_object(state, await film_named(state, PREFIX + film.path, Cancellation()))


@router.post("/v1/videopro/session", status_code=204)
async def begin_session(request: Request) -> Response:
    """A cookie for a browser that has sent the key: players and pictures cannot send it themselves."""
    reply = Response(status_code=204)
    key = request.headers.get("authorization", "").partition(" ")[2].strip()
    if state_of(request).limits.keys:
        reply.set_cookie(
            COOKIE,
            session_of(key),
            max_age=_SESSION_SECONDS,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
    return reply
