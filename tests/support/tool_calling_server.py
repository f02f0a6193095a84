"""A local server of OpenAI's chat protocol whose model calls tools by a script."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Turn = str | Sequence[tuple[str, dict[str, Any]]]
"""What the model says, or the calls that it makes: names and arguments."""


class ToolCallingServer:
    """`requests`: the bodies of all requests so far."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        self.requests: list[dict[str, Any]] = []
        self._turns = list(turns)
        self.url = ""

    def reply(self, body: dict[str, Any]) -> dict[str, Any]:
        turn = self._turns[len(self.requests)]
        self.requests.append(body)
        message: dict[str, Any] = {"role": "assistant", "content": turn if isinstance(turn, str) else None}
        if not isinstance(turn, str):
            message["tool_calls"] = [
                {
                    "id": f"call_{len(self.requests)}_{number}",
                    "type": "function",
                    "function": {"name": name, "arguments": json.dumps(arguments)},
                }
                for number, (name, arguments) in enumerate(turn)
            ]
        finish = "stop" if isinstance(turn, str) else "tool_calls"
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": body.get("model", "scripted"),
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
        }


@contextmanager
def tool_calling_server(turns: Sequence[Turn]) -> Iterator[ToolCallingServer]:
    """The server, at `url`, until the block ends."""
    server = ToolCallingServer(turns)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            whole = server.reply(body)
            reply = _streamed(whole) if body.get("stream") else json.dumps(whole).encode()
            self.send_response(200)
            kind = "text/event-stream" if body.get("stream") else "application/json"
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, *args: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, daemon=True)
    thread.start()
    server.url = f"http://127.0.0.1:{http.server_port}/v1"
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join()


def _streamed(reply: dict[str, Any]) -> bytes:
    """The reply as events: all of the message, its end, and its usage."""
    (choice,) = reply["choices"]
    message = {**choice["message"]}
    if "tool_calls" in message:
        message["tool_calls"] = [{"index": n, **each} for n, each in enumerate(message["tool_calls"])]
    head = {**reply, "object": "chat.completion.chunk", "choices": [], "usage": None}
    chunks: list[dict[str, Any]] = [
        {**head, "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
        {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]},
        {**head, "usage": reply["usage"]},
    ]
    return b"".join(f"data: {json.dumps(each)}\n\n".encode() for each in chunks) + b"data: [DONE]\n\n"
