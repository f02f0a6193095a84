"""The page at `/`, made of the viewer's components and its own."""

from __future__ import annotations

import mimetypes
from functools import cache
from importlib.resources import files
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from videopro.serve.problems import Problem
from videopro.view import read_asset

router = APIRouter()

_PAGE = "page.html"


@router.get("/")
async def page() -> Response:
    """The page."""
    return _file(_PAGE)


@router.get("/assets/{name}")
async def asset(name: str) -> Response:
    """A file of the page."""
    return _file(name)


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
