"""/v1/files: films, as OpenAI's files; /v1/videopro/folders: those in the operator's folders."""

from __future__ import annotations

import mimetypes
from collections.abc import AsyncIterator
from typing import Annotated, Any

import anyio
import numpy as np
import simplejpeg
from anyio import to_thread
from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import FileResponse, Response

from videopro.errors import Cancellation, VideoError
from videopro.serve.events import EventStream, event_line
from videopro.serve.films import FOLDER_PREFIX, Film, video_of
from videopro.serve.limits import SUBTITLE_BYTES
from videopro.serve.multipart import receive_file
from videopro.serve.problems import Problem
from videopro.serve.requests import called_by_name
from videopro.serve.state import ServerState, film_named, state_of

router = APIRouter()

_JPEG_QUALITY = 85


async def file_object(state: ServerState, film: Film) -> dict[str, Any]:
    """A film as OpenAI's file object, with what is particular to films under "videopro"."""
    return {
        "id": film.id,
        "object": "file",
        "bytes": film.bytes,
        "created_at": film.created_at,
        "filename": film.name,
        "purpose": "user_data",
        "status": "processed",
        "videopro": {
            "duration": film.duration,
            "width": film.width,
            "height": film.height,
            "subtitles": film.subtitles is not None,
            "index": await to_thread.run_sync(state.indexing.state_of, film),
            "is_uploaded": film.is_uploaded,
            # Why the model cannot answer about it, such as a small model about a real film.
            "problem": state.answerer.scope_problem(film),
        },
    }


@router.post("/v1/files")
async def upload(request: Request) -> dict[str, Any]:
    """Upload a film in one form; `purpose` is not looked at."""
    state = state_of(request)
    with state.films.receive(state.limits.film_bytes) as incoming:
        name = await receive_file(request, incoming)
        film = await to_thread.run_sync(state.films.add, incoming.path, name, incoming.digest)
    return await file_object(state, film)


@router.get("/v1/files")
async def files(request: Request) -> dict[str, Any]:
    """All films, newest first."""
    state = state_of(request)
    return {
        "object": "list",
        "data": [await file_object(state, film) for film in state.films.all()],
        "has_more": False,
    }


@router.get("/v1/files/{id}")
async def one_file(request: Request, id: str) -> dict[str, Any]:
    """A film."""
    state = state_of(request)
    return await file_object(state, state.films.get(id))


@router.delete("/v1/files/{id}")
async def delete(request: Request, id: str) -> dict[str, Any]:
    """Remove an uploaded film, or forget one in a folder."""
    state = state_of(request)
    if state.questions.about(id):
        message = "a question about this film is being answered; stop it first, or wait"
        raise Problem(409, message, code="film_in_use")
    await to_thread.run_sync(state.films.delete, id)
    return {"id": id, "object": "file", "deleted": True}


@router.get("/v1/files/{id}/content")
async def content(request: Request, id: str) -> Response:
    """The film itself, in ranges too, for a player."""
    film = state_of(request).films.get(id)
    kind = mimetypes.guess_type(film.path.name)[0] or ""
    kind = kind if kind.startswith("video/") else "video/mp4"
    return FileResponse(film.path, media_type=kind, headers={"Cache-Control": "private, max-age=86400"})


@router.get("/v1/files/{id}/frame")
async def frame(
    request: Request,
    id: str,
    time: Annotated[float, Query(ge=0, allow_inf_nan=False)],
    side: Annotated[int, Query(ge=16, le=2048)] = 320,
    box: str | None = None,
) -> Response:
    """The picture at a time, or the part of it within a box (x0,y0,x1,y1 in 0..1), as JPEG."""
    state = state_of(request)
    film = state.films.get(id)
    with called_by_name({str(film.path): film.name}):
        image = await to_thread.run_sync(_jpeg, film, time, side, box)
    # By the film's content: it never changes.
    return Response(
        image, media_type="image/jpeg", headers={"Cache-Control": "private, max-age=31536000, immutable"}
    )


@router.post("/v1/files/{id}/subtitles")
async def subtitles(request: Request, id: str) -> dict[str, Any]:
    """Give a film subtitles, in place of those that it has."""
    state = state_of(request)
    state.films.get(id)
    with state.films.receive(SUBTITLE_BYTES, is_film=False) as incoming:
        name = await receive_file(request, incoming)
        text = await anyio.Path(incoming.path).read_bytes()
        film = await to_thread.run_sync(state.films.set_subtitles, id, name, text)
    return await file_object(state, film)


@router.post("/v1/files/{id}/index")
async def index(request: Request, id: str) -> Response:
    """Index the clips of a film; the progress comes as events. A client that hangs up stops it, unless
    another follows it too."""
    state = state_of(request)
    film = state.films.get(id)
    log, leave = state.indexing.join(film)

    async def lines() -> AsyncIterator[bytes]:
        async for number, event in log.follow():
            yield event_line(event, id=number)
        leave()

    return EventStream(lines(), on_hang_up=leave)


class FolderFilm(BaseModel):
    """A film in a folder."""

    path: str = Field(min_length=1, max_length=4096)


@router.get("/v1/videopro/folders")
async def films_in_folders(request: Request) -> dict[str, Any]:
    """The films in the folders, by relative path."""
    return {"object": "list", "data": await to_thread.run_sync(state_of(request).films.folders.films)}


@router.post("/v1/videopro/folders")
async def open_film(request: Request, film: FolderFilm) -> dict[str, Any]:
    """A film in a folder as a file object, with its id."""
    state = state_of(request)
    return await file_object(state, await film_named(state, FOLDER_PREFIX + film.path, Cancellation()))


def _jpeg(film: Film, time: float, side: int, box: str | None) -> bytes:
    """The frame on display at `time` (s), or its part within `box`, with a longer side of at most `side`
    pixels. Raises Problem for a box that is none, VideoError for a frame that cannot be read."""
    video = video_of(film)
    corners = None if box is None else _corners(box)
    longest = max(video.width, video.height)
    # A part of a picture is cut from one that is large enough for it.
    share = 1.0 if corners is None else max(corners[2] - corners[0], corners[3] - corners[1])
    scale = min(1.0, side / (longest * max(share, 1e-3)))
    size = max(1, round(video.height * scale)), max(1, round(video.width * scale))
    (frame,) = video.frames([time], size=size)
    if corners is not None:
        try:
            frame = frame.crop(corners)
        except VideoError as error:
            raise Problem(400, str(error), code="no_box", param="box") from error
    return bytes(simplejpeg.encode_jpeg(np.ascontiguousarray(frame.image), quality=_JPEG_QUALITY))


def _corners(box: str) -> tuple[float, float, float, float]:
    try:
        x0, y0, x1, y1 = map(float, box.split(","))
    except ValueError:
        message = f"box {box[:60]!r}: give x0,y0,x1,y1 in 0..1 of the picture"
        raise Problem(400, message, code="no_box", param="box") from None
    return x0, y0, x1, y1
