"""/v1/videopro/session: the key as a cookie, for a browser's players and pictures, which cannot send it."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from videopro.serve.guards import COOKIE, session_of
from videopro.serve.state import state_of

router = APIRouter()

_SECONDS = 30 * 86_400


@router.post("/v1/videopro/session", status_code=204)
async def begin(request: Request) -> Response:
    """Keep the key that came with the request."""
    reply = Response(status_code=204)
    if state_of(request).limits.keys:
        key = request.headers.get("authorization", "").partition(" ")[2].strip()
        is_secure = request.url.scheme == "https"
        reply.set_cookie(
            COOKIE,
            session_of(key),
            max_age=_SECONDS,
            path=f"{request.scope.get('root_path', '')}/",
            httponly=True,
            samesite="strict",
            secure=is_secure,
        )
    return reply
