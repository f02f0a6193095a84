"""/v1/files: videos, as OpenAI's files; /v1/videopro/folders: those in the operator's folders."""

from __future__ import annotations

import mimetypes
import re
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Annotated, Any
from urllib.parse import unquote_to_bytes

import numpy as np
import simplejpeg
from anyio import to_thread
from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.responses import FileResponse, MalformedRangeHeader, Response

from videopro.errors import VideoError
from videopro.serve.events import EventStream
from videopro.serve.guards import HANG_UP, SUBTITLE_BYTES
from videopro.serve.problems import Problem, called_by_name, too_large
from videopro.serve.state import ServerState, state_of, video_named
from videopro.serve.store import StoredVideo, video_of
from videopro.video import Video

router = APIRouter()
# Of frames, which are named by the video's content.
UNCHANGING = {"Cache-Control": "private, max-age=31536000, immutable"}

_FIELD = "file"
_JPEG_QUALITY = 85


_EXTENDED_NAME = re.compile(rb"filename\*=utf-8'[^']*'([^;\s]*)", re.IGNORECASE)


class _Form(MultiPartParser):
    """A form whose file is written to its final disk. Starlette first writes to the system's temporary
    folder, which is often in memory and too small for a video."""

    def __init__(self, request: Request, part: Path) -> None:
        # A second file would be another video.
        super().__init__(request.headers, request.stream(), max_files=1)
        self._part = part
        self.is_whole = False

    def on_headers_finished(self) -> None:
        """A field begins."""
        # Some clients send names beyond ASCII as downloads have them.
        self._current_part.content_disposition = _EXTENDED_NAME.sub(
            lambda name: b'filename="%b"' % unquote_to_bytes(name[1]).replace(b'"', b"'"),
            self._current_part.content_disposition or b"",
        )
        super().on_headers_finished()
        upload = self._current_part.file
        if upload is not None:
            upload.file.close()
            upload.file = self._part.open("w+b")

    def on_end(self) -> None:
        """The form ends as it should."""
        self.is_whole = True


async def receive_file(request: Request, part: Path, most: int) -> str:
    """Write the file of a form, of at most `most` bytes, to `part`, and ignore the other fields. Returns the
    client's name of the file. Raises Problem for any other request, a form that is invalid or cut off, and a
    file that is missing, empty or too large."""
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        raise Problem(415, "send the file as multipart/form-data, as the openai client does", code="no_form")
    form = _Form(request, part)
    try:
        upload = (await form.parse()).get(_FIELD)
    except MultiPartException as error:
        raise Problem(400, f"the form cannot be read: {error.message}", code="no_form") from error
    if not form.is_whole:
        raise Problem(400, "the form was cut off; send it again", code="cut_off")
    if not isinstance(upload, UploadFile) or not upload.size:
        message = f"field {_FIELD!r} of the form has no file, or an empty one; send the file there"
        raise Problem(400, message, code="no_file", param=_FIELD)
    if upload.size > most:
        raise too_large(most)
    # The last of it may still be in the file's buffer.
    await upload.close()
    return upload.filename or ""


class _VideoResponse(FileResponse):
    """A file. Ranges that are malformed, or not of bytes, are ignored (RFC 9110, section 14.2)."""

    @classmethod
    def _parse_range_header(cls, http_range: str, file_size: int) -> list[tuple[int, int]]:
        with suppress(MalformedRangeHeader):
            return super()._parse_range_header(http_range, file_size)
        return []


async def file_object(state: ServerState, stored: StoredVideo) -> dict[str, Any]:
    """A video as OpenAI's file object, with its duration, size, subtitles and index under "videopro"."""
    return {
        "id": stored.id,
        "object": "file",
        "bytes": stored.bytes,
        "created_at": stored.created_at,
        "filename": stored.name,
        "purpose": "user_data",
        "status": "processed",
        "videopro": {
            "duration": stored.duration,
            "width": stored.width,
            "height": stored.height,
            "subtitles": stored.subtitles is not None,
            "index": await to_thread.run_sync(state.indexing.state_of, stored),
            "is_uploaded": stored.is_uploaded,
            # Why the model cannot answer about it, such as a small model about a real video.
            "problem": state.answerer.scope_problem(stored),
        },
    }


@router.post("/v1/files")
async def upload(request: Request) -> dict[str, Any]:
    """Upload a video as a form; `purpose` is ignored."""
    state = state_of(request)
    most = state.limits.video_bytes
    with state.videos.receive(int(request.headers.get("content-length", most))) as part:
        name = await receive_file(request, part, most)
        stored = await to_thread.run_sync(state.videos.add, part, name)
    return await file_object(state, stored)


@router.get("/v1/files")
async def files(request: Request) -> dict[str, Any]:
    """List all videos, newest first."""
    state = state_of(request)
    return {
        "object": "list",
        "data": [await file_object(state, stored) for stored in state.videos.all()],
        "has_more": False,
    }


@router.get("/v1/files/{id}")
async def one_file(request: Request, id: str) -> dict[str, Any]:
    """Describe a video."""
    state = state_of(request)
    return await file_object(state, state.videos.get(id))


@router.delete("/v1/files/{id}")
async def delete(request: Request, id: str, questions: bool = False) -> dict[str, Any]:
    """Delete an uploaded video, or forget one in a folder; `questions`: its questions too."""
    state = state_of(request)
    about = await to_thread.run_sync(state.questions.list, id)
    if questions:
        await state.questions.delete(each["id"] for each in about)
    elif any(each["state"] in ("waiting", "running") for each in about):
        message = "a question about this video is running; stop it, or wait"
        raise Problem(409, message, code="video_in_use")
    try:
        await to_thread.run_sync(state.videos.delete, id)
    except Problem:
        if not (questions and about):  # The questions of a video that was deleted before are gone now.
            raise
    return {"id": id, "object": "file", "deleted": True}


@router.get("/v1/files/{id}/content")
async def content(request: Request, id: str) -> Response:
    """The video file; supports ranges."""
    stored = state_of(request).videos.get(id)
    return video_file(stored.path, PurePosixPath(stored.name).name)


def video_file(path: Path, name: str = "") -> Response:
    """The reply with a video file, or the range of it that was requested. `name`: for a download."""
    kind = mimetypes.guess_type(path.name)[0] or ""
    kind = kind if kind.startswith("video/") else "video/mp4"
    return _VideoResponse(
        path,
        media_type=kind,
        headers={"Cache-Control": "private, max-age=86400"},
        filename=name or path.name,
        content_disposition_type="inline",
    )


Time = Annotated[float, Query(ge=0, allow_inf_nan=False)]
Side = Annotated[int, Query(ge=16, le=2048)]
Box = Annotated[str | None, Query(pattern=r"^[\d.]+(,[\d.]+){3}$")]


@router.get("/v1/files/{id}/frame")
async def frame(request: Request, id: str, time: Time, side: Side = 320, box: Box = None) -> Response:
    """The frame at a time, or its part within a box (x0,y0,x1,y1 in 0..1), as JPEG."""
    state = state_of(request)
    stored = state.videos.get(id)
    with called_by_name({str(stored.path): stored.name}):
        image = await to_thread.run_sync(lambda: jpeg(video_of(stored), time, side, box))
    return Response(image, media_type="image/jpeg", headers=UNCHANGING)


@router.get("/v1/files/{id}/questions")
async def questions(request: Request, id: str) -> dict[str, Any]:
    """List the only questions about a video that the model can answer; `any`: it takes any question."""
    state = state_of(request)
    known = await to_thread.run_sync(state.answerer.questions, state.videos.get(id))
    data = [{"question": each.text, "choices": list(each.choices)} for each in known or ()]
    return {"object": "list", "any": known is None, "data": data}


@router.post("/v1/files/{id}/subtitles")
async def subtitles(request: Request, id: str) -> dict[str, Any]:
    """Upload subtitles for a video; they replace the current ones."""
    state = state_of(request)
    state.videos.get(id)
    with state.videos.receive(0) as part:
        name = await receive_file(request, part, SUBTITLE_BYTES)
        stored = await to_thread.run_sync(state.videos.set_subtitles, id, name, part)
    return await file_object(state, stored)


@router.post("/v1/files/{id}/index")
async def index(request: Request, id: str) -> Response:
    """Index the clips of a video, with progress as events. Stops if the client disconnects."""
    state = state_of(request)
    log = state.indexing.begin(state.videos.get(id), request.scope[HANG_UP])
    return EventStream(log.lines())


@router.get("/v1/videopro/folders")
async def videos_in_folders(request: Request) -> dict[str, Any]:
    """List the videos in the folders, by relative path."""
    return {"object": "list", "data": await to_thread.run_sync(state_of(request).videos.folders.videos)}


class NamedVideo(BaseModel):
    """A video on the server."""

    file_id: str = Field(min_length=1, max_length=4096)
    """folder:RELATIVE/PATH, a sample of the model, or an id."""


@router.post("/v1/videopro/videos")
async def open_video(request: Request, video: NamedVideo) -> dict[str, Any]:
    """Open a video that is on the server: its file object, with its id."""
    state = state_of(request)
    return await file_object(state, await video_named(state, video.file_id))


def jpeg(video: Video, time: float, side: int, box: str | None) -> bytes:
    """The frame at `time` (s), or its part within `box`, with a longer side of at most `side` pixels. Raises
    Problem for an invalid box and a damaged frame, VideoError for a frame that cannot be read."""
    x0, y0, x1, y1 = map(float, box.split(",")) if box is not None else (0.0, 0.0, 1.0, 1.0)
    # A part of a picture is cut from one that is large enough for it.
    scale = min(1.0, side / (max(video.width, video.height) * max(x1 - x0, y1 - y0, 1e-3)))
    size = max(1, round(video.height * scale)), max(1, round(video.width * scale))
    (frame,) = video.frames([time], size=size)
    if frame.wanted:
        raise Problem(404, f"{video.path}: damaged at {time:.2f} s", code="no_frame")
    if box is not None:
        try:
            frame = frame.crop((x0, y0, x1, y1))
        except VideoError as error:
            raise Problem(400, str(error), code="no_box", param="box") from error
    return bytes(simplejpeg.encode_jpeg(np.ascontiguousarray(frame.image), quality=_JPEG_QUALITY))
