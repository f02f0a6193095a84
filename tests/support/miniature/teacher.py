"""The teacher behind HTTP: python -m tests.support.miniature.teacher PORT

It speaks OpenAI's protocol and answers every chat with what the pocket world's offline teacher writes for the
prompt's question. Like a language model behind an API, it is given the text of the prompt and nothing else.
"""

from __future__ import annotations

import json
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from videopro.pocket.teacher import PocketTeacher
from videopro.question import Question

MODEL = "narrator-1"
_ASKED = re.compile(r".*^Question: (?P<text>.*?)\nChoices:\n(?P<choices>.*)\Z", re.MULTILINE | re.DOTALL)


def reply_to(prompt: str, seed: int) -> str:
    """The program for a prompt, or what the teacher makes of a program that failed or was unsure."""
    teacher = PocketTeacher()
    if "\nBuggy program:\n" in prompt or "\nExisting program:\n" in prompt:
        return teacher.refine(prompt, seed=seed).text
    asked = _ASKED.match(prompt)
    if asked is None:
        return "I cannot see a question in this."
    choices = re.split(r"^[A-J]\. ", asked["choices"], flags=re.MULTILINE)[1:]
    question = Question(asked["text"], tuple(choice.strip() for choice in choices))
    return teacher.plan(question, prompt, adaptive=False, seed=seed).text


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._send({"object": "list", "data": [{"id": MODEL, "object": "model"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        content = body["messages"][-1]["content"]
        prompt = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
        text = reply_to(prompt, int(body.get("seed") or 0))
        message = {"role": "assistant", "content": text}
        # Words, where a server counts tokens.
        usage = {"prompt_tokens": len(prompt.split()), "completion_tokens": len(text.split())}
        usage["total_tokens"] = sum(usage.values())
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        about = {"id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": MODEL}
        self._send({**about, "choices": [choice], "usage": usage})

    def _send(self, content: Any) -> None:
        data = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Not on the terminal."""


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), _Handler).serve_forever()
