"""/v1/videopro/folders: the films in the operator's folders."""

from __future__ import annotations

from typing import Any

from anyio import to_thread
from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from videopro.errors import Cancellation
from videopro.serve.file_routes import file_object
from videopro.serve.folders import PREFIX
from videopro.serve.naming import film_named
from videopro.serve.state import state_of

router = APIRouter()


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
