"""Reads a form with a file, which goes straight to the disk: a film is larger than the memory, and would
otherwise be written twice."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from email.message import Message
from pathlib import Path
from typing import Any

import anyio
from fastapi import Request
from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import MultipartParser

from videopro.serve.problems import Problem

_FIELD_BYTES = 2**16
_MOST_FIELDS = 32


@dataclass
class Form:
    """A form: its texts, and its file."""

    texts: dict[str, str] = field(default_factory=dict)
    name: str = ""
    """The name of the file, as the client gives it."""
    bytes: int = 0
    digest: str = ""
    """The SHA-256 of the file, in hex."""


async def receive_form(request: Request, part: Path, limit: int, *, file_field: str = "file") -> Form:
    """Read a form, and write its file to `part`, which must not be there. Raises Problem for another request,
    for a file of more than `limit` bytes, and if the file is missing or empty; nothing is left then."""
    declared = request.headers.get("content-length", "")
    # Before a byte is read: a client that says so is not made to send it all.
    if declared.isdigit() and int(declared) > limit + _FIELD_BYTES * _MOST_FIELDS:
        raise too_large(limit, file_field)
    boundary = _boundary(request.headers.get("content-type", ""))
    form = Form()
    try:
        async with await anyio.open_file(part, "xb") as file:
            reader = _Reader(boundary, file_field, limit)
            async for chunk in _chunks(request):
                content = reader.feed(chunk)
                if content:
                    await file.write(content)
        form = reader.finished()
        if not form.bytes:
            message = (
                f"the form has no file in its field {file_field!r}, or an empty one; send the film there"
            )
            raise Problem(400, message, code="no_file", param=file_field)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return form


def too_large(limit: int, param: str) -> Problem:
    """The refusal of a file that is larger than allowed."""
    message = f"the file is larger than {limit:,} bytes, which is what this server takes"
    return Problem(413, message, code="too_large", param=param)


async def _chunks(request: Request) -> AsyncIterator[bytes]:
    async for chunk in request.stream():
        if chunk:
            yield chunk


def _boundary(content_type: str) -> bytes:
    message = Message()
    message["content-type"] = content_type
    boundary = message.get_param("boundary")
    if message.get_content_type() != "multipart/form-data" or not isinstance(boundary, str) or not boundary:
        raise Problem(415, "send the file as multipart/form-data, as the openai client does", code="no_form")
    return boundary.encode("latin-1", "replace")


class _Reader:
    """The state between two chunks."""

    def __init__(self, boundary: bytes, file_field: str, limit: int) -> None:
        self._form = Form()
        self._file_field = file_field
        self._limit = limit
        self._digest = hashlib.sha256()
        self._out = bytearray()
        self._header = self._value = b""
        self._disposition = Message()
        self._text = bytearray()
        self._is_file = self._has_file = self._is_complete = False
        callbacks: dict[str, Callable[..., Any]] = {
            "on_part_begin": self._begin,
            "on_header_field": self._header_field,
            "on_header_value": self._header_value,
            "on_header_end": self._header_end,
            "on_headers_finished": self._headers_finished,
            "on_part_data": self._data,
            "on_part_end": self._end,
            "on_end": self._finish,
        }
        self._parser = MultipartParser(boundary, callbacks)  # type: ignore[arg-type]

    def feed(self, chunk: bytes) -> bytes:
        """What a chunk holds of the file."""
        try:
            self._parser.write(chunk)
        except MultipartParseError as error:
            raise Problem(400, f"the form cannot be read: {error}", code="no_form") from error
        content, self._out = bytes(self._out), bytearray()
        self._digest.update(content)
        return content

    def finished(self) -> Form:
        """The form. Raises Problem if it was cut off."""
        if not self._is_complete:
            raise Problem(400, "the form was cut off before its end; send it again", code="cut_off")
        self._form.digest = self._digest.hexdigest()
        return self._form

    def _begin(self) -> None:
        self._disposition = Message()
        self._text = bytearray()
        self._is_file = False

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_end(self) -> None:
        if self._header.lower() == b"content-disposition":
            # From a client, and read by the rules of mail headers: bytes that are no UTF-8 stay readable.
            self._disposition["content-disposition"] = self._value.decode("utf-8", "replace")
        self._header = self._value = b""

    def _headers_finished(self) -> None:
        name = self._param("name")
        # The first file alone is the film: a second one would be appended to it.
        self._is_file = name == self._file_field and not self._has_file
        if self._is_file:
            self._has_file = True
            self._form.name = self._param("filename")

    def _param(self, name: str) -> str:
        value = self._disposition.get_param(name, header="content-disposition")
        return value if isinstance(value, str) else ""

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._is_file:
            self._form.bytes += end - start
            if self._form.bytes > self._limit:
                raise too_large(self._limit, self._file_field)
            self._out += data[start:end]
            return
        self._text += data[start:end]
        if len(self._text) > _FIELD_BYTES:
            raise Problem(413, "a text of the form is too long", code="too_large")

    def _end(self) -> None:
        if not self._is_file:
            if len(self._form.texts) >= _MOST_FIELDS:
                raise Problem(400, f"the form has more than {_MOST_FIELDS} fields", code="no_form")
            self._form.texts[self._param("name")] = self._text.decode("utf-8", "replace")

    def _finish(self) -> None:
        self._is_complete = True
