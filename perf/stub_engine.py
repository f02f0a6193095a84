"""A stand-in for an engine that answers at once: what a question then takes is this project's own share.

Letters and programs follow from a request's text alone, so that two runs ask for the same. The programs are
of the kinds that the paper shows. A third of the answers are unsure, and their programs are refined.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Mapping
from typing import Any

from tests.support.stub_server import (
    RecordedRequest,
    StubFault,
    StubServer,
    completion,
    entry,
    letter,
    text_of,
)

MODEL = "answers-at-once"
_PROGRAMS = (
    """
    return query_native(video, question, choices)""",
    """
    frames = trim_around(video, (video.start + video.end) / 2, intervals=20, num_frames=16)
    seen = query_frames(frames, "What happens here?")
    return query_mc(frames, question, choices, context=str(seen))""",
    """
    best, found = None, None
    for part in range(3):
        start = video.start + part * video.duration / 3
        frames = trim_frames(video, start, start + video.duration / 3, num_frames=16)
        shown = query_yn(frames, "Is what the question asks about seen here?")
        if best is None or shown.confidence > best:
            best, found = shown.confidence, frames
    return query_mc(found, question, choices)""",
    """
    frames = extract_frames(video, num_frames=24)
    left = [crop_left(frame) for frame in frames[8:16]]
    where = query_yn(left, "Is it on the left?")
    looks = left if where == "Yes" else [crop_right(frame) for frame in frames[8:16]]
    return query_mc(looks, question, choices)""",
)


class StubEngine(StubServer):
    """It takes videos with their times, which it does not look at, and has those of vLLM's metrics that
    perf.flow reads."""

    def __init__(self) -> None:
        super().__init__(models=[{"id": MODEL, "owned_by": "vllm"}])
        self._answered = 0

    def answer(self, seen: RecordedRequest) -> StubFault:
        """What to send back for a request."""
        with self.lock:
            # They hold frames, and nobody looks at them.
            self.seen.clear()
            self._answered += "messages" in seen.body
        if seen.path == "/metrics":
            names = ("e2e_request_latency_seconds_count", "request_success_total")
            return StubFault(body="".join(f"vllm:{name} {self._answered}\n" for name in names).encode())
        if "messages" not in seen.body:
            return super().answer(seen)
        reply = _reply(seen.body)
        # By which a server is found to keep the times of frames.
        reply["usage"]["prompt_tokens"] = len(json.dumps(seen.body.get("media_io_kwargs")))
        return StubFault(body=reply)


def _reply(body: Mapping[str, Any]) -> dict[str, Any]:
    text = text_of(body)
    draw = zlib.crc32(text.encode())
    if body["max_tokens"] == 1:
        words = ["Yes", "No"] if text.endswith("Yes or No only.") else ["A", "B", "C", "D"]
        first = words.pop(draw % len(words))
        sure = 0.6 if (draw >> 8) % 3 == 0 else 0.92
        others = [*words, *map(str, range(19 - len(words)))]
        each = math.log((1 - sure) / len(others))
        return letter(first, [(first, math.log(sure)), *((word, each) for word in others)])
    reply = "A person walks past a table and picks something up."
    if "execute_command" in text:
        program = f"def execute_command(video, question, choices):{_PROGRAMS[draw % len(_PROGRAMS)]}"
        reply = f"<planning>Find the part, and look at it.</planning>\n<code>\n{program}\n</code>"
    return completion(reply, [entry("word", -0.1)] * (len(reply) // 4))
