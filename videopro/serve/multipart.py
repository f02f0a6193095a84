"""Reads a form with a file, which goes straight to the disk: a film is larger than the memory, and forms of
Starlette would write it twice."""

from __future__ import annotations

from anyio import to_thread
from fastapi import Request
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from videopro.serve.films import Incoming
from videopro.serve.problems import Problem

_FIELD = "file"


async def receive_file(request: Request, incoming: Incoming) -> str:
    """Write the file of a form to `incoming`; the other fields are not looked at. Returns its name, as the
    client gives it. Raises Problem for another request, a form that cannot be read or is cut off, a file that
    is missing or empty, and as `incoming` does."""
    kind, options = parse_options_header(request.headers.get("content-type"))
    if kind != b"multipart/form-data" or not options.get(b"boundary"):
        raise Problem(415, "send the file as multipart/form-data, as the openai client does", code="no_form")
    declared = int(request.headers.get("content-length", 0))
    try:
        reader = _Reader(options[b"boundary"], declared)
        async for chunk in request.stream():
            reader.feed(chunk)
            if reader.content:
                await to_thread.run_sync(incoming.write, bytes(reader.content), reader.at_most)
    except FormParserError as error:
        raise Problem(400, f"the form cannot be read: {error}", code="no_form") from error
    if not reader.is_complete:
        raise Problem(400, "the form was cut off before its end; send it again", code="cut_off")
    if not incoming.size:
        message = f"the form has no file in its field {_FIELD!r}, or an empty one; send the film there"
        raise Problem(400, message, code="no_file", param=_FIELD)
    return reader.name


class _Reader:
    """The state between two chunks."""

    def __init__(self, boundary: bytes, declared: int) -> None:
        """`declared`: the bytes of the form, as its client says; 0: it does not say."""
        self.name = ""
        self.content = bytearray()
        """What the last chunk holds of the file."""
        self.at_most = 0
        """The bytes of the file, if nothing but the end of the form follows it; 0 if nobody knows."""
        self.is_complete = False
        self._declared, self._read = declared, 0
        self._ending = len(b"\r\n--" + boundary + b"--\r\n")
        self._header = self._value = self._disposition = b""
        self._is_file = self._has_file = False
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin,
                "on_header_field": self._header_field,
                "on_header_value": self._header_value,
                "on_header_end": self._header_end,
                "on_headers_finished": self._headers_finished,
                "on_part_data": self._data,
                "on_end": self._finish,
            },
        )

    def feed(self, chunk: bytes) -> None:
        self.content.clear()
        self._parser.write(chunk)
        self._read += len(chunk)

    def _begin(self) -> None:
        self._disposition = b""

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_end(self) -> None:
        if self._header.lower() == b"content-disposition":
            self._disposition = self._value
        self._header = self._value = b""

    def _headers_finished(self) -> None:
        _, options = parse_options_header(self._disposition)
        # The first file alone is the film: a second one would be appended to it.
        self._is_file = options.get(b"name") == _FIELD.encode() and not self._has_file
        if self._is_file:
            self._has_file = True
            # From a client: bytes that are no UTF-8 stay readable.
            self.name = options.get(b"filename", b"").decode("utf-8", "replace")

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._is_file:
            if not self.at_most:
                self.at_most = max(0, self._declared - self._read - start - self._ending)
            self.content += data[start:end]

    def _finish(self) -> None:
        self.is_complete = True
