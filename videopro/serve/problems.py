"""Errors for clients, in OpenAI's format: one line that names the fix, never a stack trace.

Flags, packages, paths and addresses are the operator's: they are in the log, and clients learn what they can
do without them.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import takewhile
from typing import Any

from videopro.errors import (
    BackboneError,
    Failure,
    NativeError,
    RunError,
    UnexpectedError,
    VideoProError,
    is_full,
)
from videopro.storage import encodable

logger = logging.getLogger(__name__)

_RETRY_SECONDS = 30
_UNEXPECTED = "unexpected error; ask the operator, whose log has the details"
_NOT_SET_UP = "this server is not set up for this; ask the operator"
_SILENT = "the model's server does not answer; try again later, or ask the operator"
_REFUSED = "the model refused this question; shorten it, use fewer frames, or ask the operator"
_MODEL_SERVER = re.compile(r"\bserver https?://")
_REFUSAL = "refused the request"
_OPERATORS = re.compile(
    r"(?<![\w-])--[a-z]|\w://|(?<![\w./])/\w[\w.-]*/|\b(?:pip install|hf download|vllm serve|MODEL@URL)\b"
)


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


def problem_of(error: BaseException, about: str) -> Problem:
    """The problem that clients get for an error. Logs what they do not see; `about`: the question or the
    request that met it."""
    if isinstance(error, Problem):
        return error
    cause: BaseException | None = error
    while cause is not None and not (isinstance(cause, OSError) and is_full(cause)):
        cause = cause.__cause__
    if cause is not None:
        message = "the server's disk is full; delete videos, or ask the operator"
        return Problem(507, message, code="disk_full", retry_after=_RETRY_SECONDS)
    if isinstance(error, VideoProError):
        message = told_of(str(error))
        if message != str(error):
            logger.error("%s: %s", about, error)
        if isinstance(error, BackboneError) or _MODEL_SERVER.search(str(error)):
            return Problem(502, message, code="model_error")
        return Problem(500 if isinstance(error, RunError | UnexpectedError) else 400, message)
    logger.error("%s: unexpected error", about, exc_info=error)
    return Problem(500, _UNEXPECTED, code="unexpected")


def told_of(message: str) -> str:
    """An error message without what only the operator can use."""
    if _MODEL_SERVER.search(message):
        return _REFUSED if _REFUSAL in message else _SILENT
    if not _OPERATORS.search(message):
        return message
    # What is wrong, and then the fix.
    parts = [*takewhile(lambda part: not _OPERATORS.search(part), message.split("; "))]
    return "; ".join([*parts, "ask the operator"]) if parts else _NOT_SET_UP


def failure_told(failure: Failure, names: Mapping[str, str], about: str) -> Failure:
    """The failure of a question as clients see it, with their names (`called_by_name`). Logs what they do not
    see; `about` as in `problem_of`."""
    is_unexpected = failure.type in (UnexpectedError.__name__, NativeError.__name__)
    named = with_names(failure.message, names)
    message = _UNEXPECTED if is_unexpected else told_of(named)
    if message != named:
        logger.error("%s: %s", about, failure.log or failure.message)
    return replace(failure, message=message, log="")


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
        if not isinstance(error, Problem):
            error.args = (with_names(str(error), names), *error.args[1:])
        raise


def with_names(message: str, names: Mapping[str, str]) -> str:
    """The message with these names."""
    for inner, name in names.items():
        message = message.replace(inner, name)
    return message
