"""A stand-in for an OpenAI-compatible server that really speaks HTTP on 127.0.0.1.

It answers /v1/models and /v1/chat/completions in the shapes that OpenAI documents and vLLM and SGLang send,
keeps every request for a test to look at, measures how many were in flight at once, and fails as
configured: one `StubFault` or reply function a chat request, in order, then the usual reply again.

It can take video as vLLM does (`takes_video`): a `video_url` of comma-joined JPEGs, with its times in
`media_io_kwargs`, whose rules are those of vLLM 0.33's VideoMediaIO. The prompt's length then counts the
characters of the time markers that Qwen3-VL's processor writes, one a pair of frames.
"""

import base64
import io
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, Self

from PIL import Image


@dataclass
class RecordedRequest:
    """A request as it came in."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass
class StubFault:
    """A reply that is not the usual one. Bytes as they are, or a JSON-able object."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    """Seconds before the status line."""
    drip: float = 0.0
    """Seconds between single bytes of the body."""
    cut: bool = False
    """Close the connection in the middle of the body."""


Reply = Callable[[dict[str, Any]], Any]


def entry(token: str, logprob: float, top: Sequence[tuple[str, float]] = ()) -> dict[str, Any]:
    """One token of `logprobs.content`; `top` are its `top_logprobs`, the token itself included."""
    return {
        "token": token,
        "logprob": logprob,
        "bytes": list(token.encode()),
        "top_logprobs": [
            {"token": text, "logprob": number, "bytes": list(text.encode())} for text, number in top
        ],
    }


def completion(
    content: str | None,
    entries: Sequence[dict[str, Any]] | None,
    *,
    finish: str = "stop",
    prompt_tokens: int = 7,
    message: Mapping[str, Any] | None = None,
    choice: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A chat completion; `entries` None: without log-probabilities."""
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "served",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": content, **(message or {})},
                "logprobs": None if entries is None else {"content": list(entries)},
                "finish_reason": finish,
                **(choice or {}),
            }
        ],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": len(entries or ()),
            "total_tokens": prompt_tokens + len(entries or ()),
        },
    }


def letter(text: str, top: Sequence[tuple[str, float]], **options: Any) -> dict[str, Any]:
    """A one-token completion whose token is the first of `top`."""
    return completion(text, [entry(*top[0], top)], finish="length", **options)


def text_of(body: Mapping[str, Any]) -> str:
    """All text of a request's messages, joined."""
    texts = []
    for message in body["messages"]:
        content = message["content"]
        texts += [content] if isinstance(content, str) else [part.get("text", "") for part in content]
    return "".join(texts)


def pictures_of(body: Mapping[str, Any]) -> list[Image.Image]:
    """The pictures of a request in order, decoded; those of a `video_url` too."""
    pictures: list[Image.Image] = []
    for message in body["messages"]:
        for part in message["content"] if isinstance(message["content"], list) else ():
            url = part.get(part["type"], {}).get("url", "") if part["type"] != "text" else ""
            for data in url.partition("base64,")[2].split(",") if url else ():
                pictures.append(Image.open(io.BytesIO(base64.b64decode(data, validate=True))))
    return pictures


class BadRequest(Exception):
    """What a server answers with status 400."""


def video_times(body: Mapping[str, Any], takes: Literal["times", "no times"]) -> list[float]:
    """The times that a vLLM of today ("times") or of early 2026 ("no times") gives the frames of a video."""
    asked = body.get("media_io_kwargs", {}).get("video", {})
    frames = len(pictures_of(body))
    if asked.get("num_frames", 32) > 0:
        frames = min(frames, asked.get("num_frames", 32))
    rate = float(asked.get("fps", 1))
    indices = asked.get("frames_indices", list(range(frames)))
    if takes == "no times":
        indices = list(range(frames))
    if not all(isinstance(index, int) for index in indices) or len(indices) != frames:
        raise BadRequest(
            f"frames_indices length ({len(indices)}) must match number of frames sent ({frames})"
        )
    if asked.get("total_num_frames", frames) < frames:
        raise BadRequest("total_num_frames must be >= number of frames sent")
    return [index / rate for index in indices]


def _markers(times: Sequence[float]) -> str:
    padded = [*times, *times[-1:]] if len(times) % 2 else list(times)
    pairs = zip(padded[::2], padded[1::2], strict=True)
    return "".join(f"<{(first + second) / 2:.1f} seconds>" for first, second in pairs)


class StubServer:
    """The server; use it in a `with` block."""

    def __init__(
        self,
        reply: Reply | None = None,
        *,
        models: Sequence[Mapping[str, Any]] | None = ({"id": "served", "owned_by": "stub"},),
        key: str | None = None,
        takes_video: Literal["times", "no times", "refused"] = "refused",
        version: str | None = None,
        port: int = 0,
    ) -> None:
        self.reply = reply or (lambda body: letter("A", [("A", -0.5)]))
        self.models = models
        self.key = key
        self.takes_video = takes_video
        self.version = version
        """What vLLM says at /version; None: there is no such page."""
        self.faults: list[StubFault | Reply] = []
        self.pages: dict[str, StubFault] = {}
        """What is sent from some paths whatever is asked."""
        self.is_down = False
        """Every connection is closed without a reply, as of a killed server."""
        self.seen: list[RecordedRequest] = []
        self.in_flight = 0
        self.peak = 0
        self.lock = threading.Lock()
        self.http = _Server(("127.0.0.1", port), _Handler)
        self.http.stub = self
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"

    def __enter__(self) -> Self:
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.http.shutdown()
        self.http.server_close()

    @property
    def chats(self) -> list[dict[str, Any]]:
        """Bodies of the chat requests so far."""
        return [seen.body for seen in self.seen if seen.path.endswith("/chat/completions")]

    def answer(self, seen: RecordedRequest) -> StubFault:
        """What to send back for a request."""
        if seen.path in self.pages:
            return self.pages[seen.path]
        if self.key is not None and seen.headers.get("authorization") != f"Bearer {self.key}":
            given = seen.headers.get("authorization", "").removeprefix("Bearer ")
            return StubFault(
                401, {"error": {"message": f"Incorrect API key provided: {given}", "code": "invalid_api_key"}}
            )
        if seen.path == "/v1/models":
            if self.models is None:
                return StubFault(404, {"detail": "Not Found"})
            return StubFault(
                body={"object": "list", "data": [{"object": "model", **model} for model in self.models]}
            )
        if seen.path == "/version" and self.version is not None:
            return StubFault(body={"version": self.version})
        if seen.path != "/v1/chat/completions":
            return StubFault(404, {"detail": "Not Found"})
        with self.lock:
            fault = self.faults.pop(0) if self.faults else None
        if isinstance(fault, StubFault):
            return fault
        offered = [model["id"] for model in self.models or ()]
        if self.models is not None and seen.body["model"] not in offered:
            message = f"The model `{seen.body['model']}` does not exist."
            return StubFault(404, {"error": {"message": message, "type": "NotFoundError", "code": 404}})
        try:
            made = (fault or self.reply)(seen.body)
            if isinstance(made, StubFault):
                return made
            if "video_url" in json.dumps(seen.body["messages"]):
                if self.takes_video == "refused":
                    raise BadRequest("Unknown part type: video_url")
                made["usage"]["prompt_tokens"] = 100 + len(_markers(video_times(seen.body, self.takes_video)))
        except BadRequest as error:
            return StubFault(400, {"error": {"message": str(error), "type": "BadRequestError", "code": 400}})
        return StubFault(body=made)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    stub: StubServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that hang up are part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # The head and the body of a reply go out in two writes; together with the client's delayed
    # acknowledgement that would cost 40 ms a request.
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._handle({})

    def do_POST(self) -> None:
        self._handle(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _handle(self, body: dict[str, Any]) -> None:
        stub = self.server.stub
        if stub.is_down:
            self.close_connection = True
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        with stub.lock:
            seen = RecordedRequest(self.path, headers, body)
            stub.seen.append(seen)
            stub.in_flight += 1
            stub.peak = max(stub.peak, stub.in_flight)
        try:
            fault = stub.answer(seen)
            time.sleep(fault.delay)
            if stub.is_down:
                self.close_connection = True
                return
        finally:
            # Before the reply is out: the client's next request may come at once.
            with stub.lock:
                stub.in_flight -= 1
        data = fault.body if isinstance(fault.body, bytes) else json.dumps(fault.body).encode()
        self.send_response(fault.status)
        head = {"Content-Type": "application/json", "Content-Length": str(len(data)), **fault.headers}
        for name, value in head.items():
            self.send_header(name, value)
        self.end_headers()
        if fault.cut:
            self.wfile.write(data[: len(data) // 2])
            self.wfile.flush()
            self.close_connection = True
            return
        if fault.drip:
            for byte in data:
                self.wfile.write(bytes([byte]))
                self.wfile.flush()
                time.sleep(fault.drip)
            return
        self.wfile.write(data)
