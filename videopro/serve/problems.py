"""Errors for clients, in OpenAI's format: one line that names the fix, never a stack trace."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from videopro.errors import BackboneError, VideoProError, is_full
from videopro.storage import encodable

_RETRY_SECONDS = 30
_UNEXPECTED = "unexpected error; see the server's own output"


class Problem(VideoProError):
    """A refused request, with the status of its reply.

    `code`: identifies the problem for programs; `param`: the field of the request that is wrong.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.param = param
        self.retry_after = retry_after
        """Seconds until the client should try again."""

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the reply."""
        return {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}


def problem_of(error: BaseException) -> Problem:
    """The problem that clients get for an error. Prints unexpected errors on stderr, with their stack
    trace."""
    if isinstance(error, Problem):
        return error
    cause: BaseException | None = error
    while cause is not None and not (isinstance(cause, OSError) and is_full(cause)):
        cause = cause.__cause__
    if cause is not None:
        message = "the server's disk is full; delete videos, or ask the operator"
        return Problem(507, message, code="disk_full", retry_after=_RETRY_SECONDS)
    if isinstance(error, BackboneError):
        return Problem(502, str(error), code="model_error")
    if isinstance(error, VideoProError):
        return Problem(400, str(error))
    traceback.print_exception(error, file=sys.stderr)
    return Problem(500, _UNEXPECTED, code="unexpected")


def body_of(problem: Problem) -> dict[str, Any]:
    """The body of the reply, in OpenAI's format."""
    is_ours = problem.status >= 500 or problem.retry_after is not None
    kind = "server_error" if is_ours else "invalid_request_error"
    message = encodable(str(problem))
    return {"error": {"message": message, "type": kind, "param": problem.param, "code": problem.code}}


def too_large(most: int) -> Problem:
    """The refusal of a file of more than `most` bytes."""
    message = f"the file is larger than {most:,} bytes, the limit of this server"
    return Problem(413, message, code="too_large", param="file")


@contextmanager
def called_by_name(names: Mapping[str, str]) -> Iterator[None]:
    """In errors, replace the paths and addresses in `names` by the names that clients know."""
    try:
        yield
    except VideoProError as error:
        shown = with_names(str(error), names)
        if isinstance(error, Problem) or shown == str(error):
            raise
        raise type(error)(shown) from error


def with_names(message: str, names: Mapping[str, str]) -> str:
    """The message with these names."""
    for inner, name in names.items():
        message = message.replace(inner, name)
    return message
