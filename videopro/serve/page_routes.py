"""The page at `/`, made of the viewer's components and its own, and the key as a cookie, for a browser's
players and pictures, which cannot send it."""

from __future__ import annotations

import mimetypes
from functools import cache
from importlib.resources import files
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from videopro.report.pages import read_asset
from videopro.serve.guards import COOKIE, session_of
from videopro.serve.problems import Problem
from videopro.serve.state import state_of

router = APIRouter()

_PAGE = "page.html"
_SESSION_SECONDS = 30 * 86_400


@router.get("/")
async def page() -> Response:
    """The page."""
    return _file(_PAGE)


@router.get("/assets/{name}")
async def asset(name: str) -> Response:
    """A file of the page."""
    return _file(name)


@router.post("/v1/videopro/session", status_code=204)
async def begin_session(request: Request) -> Response:
    """Keep the key that came with the request."""
    reply = Response(status_code=204)
    if state_of(request).limits.keys:
        key = request.headers.get("authorization", "").partition(" ")[2].strip()
        is_secure = request.url.scheme == "https"
        reply.set_cookie(
            COOKIE,
            session_of(key),
            max_age=_SESSION_SECONDS,
            path=f"{request.scope.get('root_path', '')}/",
            httponly=True,
            samesite="strict",
            secure=is_secure,
        )
    return reply


def _file(name: str) -> Response:
    text = _assets().get(name) or read_asset(name)
    if text is None:
        raise Problem(404, f"there is no file {name[:60]!r} here", code="no_route")
    kind = mimetypes.guess_type(name)[0] or "text/plain"
    # A new version of the server has new files, under the same names.
    return Response(text, media_type=kind, headers={"Cache-Control": "no-cache"})


@cache
def _assets() -> dict[str, str]:
    folder: Any = files("videopro.serve").joinpath("assets")
    return {file.name: file.read_text(encoding="utf-8") for file in folder.iterdir()}
