"""/v1/uploads: films in parts, as OpenAI's Uploads."""

from __future__ import annotations

from typing import Any

from anyio import to_thread
from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from videopro.serve.file_routes import file_object
from videopro.serve.multipart import receive_form
from videopro.serve.state import state_of

router = APIRouter()


class NewUpload(BaseModel):
    """What is to come; `mime_type` and `purpose` are not looked at."""

    filename: str = Field(max_length=1000)
    bytes: int


class CompletedUpload(BaseModel):
    """The order of the parts."""

    part_ids: list[str] = Field(min_length=1, max_length=10_000)
    md5: str | None = None


@router.post("/v1/uploads")
async def begin(request: Request, upload: NewUpload) -> dict[str, Any]:
    """Begin an upload."""
    return state_of(request).uploads.begin(upload.filename, upload.bytes).as_object()


@router.post("/v1/uploads/{id}/parts")
async def add_part(request: Request, id: str) -> dict[str, Any]:
    """Send a part."""
    state = state_of(request)
    part = state.films.new_part()
    form = await receive_form(request, part, state.uploads.room(id), file_field="data")
    return await to_thread.run_sync(state.uploads.add_part, id, part, form.bytes)


@router.post("/v1/uploads/{id}/complete")
async def complete(request: Request, id: str, completed: CompletedUpload) -> dict[str, Any]:
    """Make a film of the parts."""
    state = state_of(request)
    upload, film = await to_thread.run_sync(state.uploads.complete, id, completed.part_ids, completed.md5)
    return {**upload.as_object(), "file": await file_object(state, film)}


@router.post("/v1/uploads/{id}/cancel")
async def cancel(request: Request, id: str) -> dict[str, Any]:
    """Give an upload up."""
    upload = await to_thread.run_sync(state_of(request).uploads.cancel, id)
    return upload.as_object()
