"""A stand-in for an engine that answers at once, and programs of the kinds that the paper shows: what is
left of a question's time is this project's own.

Letters and programs follow from a request's text alone, so that two runs ask for the same. A third of the
answers are unsure, and their programs are refined.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from typing import Any

from tests.support.stub_server import RecordedRequest, StubFault, StubServer, completion, entry, letter, text_of

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
    return query_mc(left if where == "Yes" else [crop_right(frame) for frame in frames[8:16]], question, choices)""",
)


class StubEngine(StubServer):
    """It has those of vLLM's metrics that perf.flow reads."""

    def __init__(self) -> None:
        super().__init__(_reply, models=[{"id": MODEL, "owned_by": "vllm"}], takes_video="times")
        self._answered = 0

    def answer(self, seen: RecordedRequest) -> StubFault:
        if seen.path == "/metrics":
            names = ("e2e_request_latency_seconds_count", "request_success_total")
            return StubFault(body="".join(f"vllm:{name} {self._answered}\n" for name in names).encode())
        reply = super().answer(seen)
        with self.lock:
            self._answered += seen.path.endswith("/chat/completions")
            # Requests with frames, which nobody looks at.
            self.seen.clear()
        return reply


def _reply(body: Mapping[str, Any]) -> dict[str, Any]:
    text = text_of(body)
    draw = zlib.crc32(text.encode())
    if body["max_tokens"] == 1:
        words = ["Yes", "No"] if text.endswith("Yes or No only.") else ["A", "B", "C", "D"]
        sure = 0.6 if (draw >> 8) % 3 == 0 else 0.92
        others = [*words[: draw % len(words)], *words[draw % len(words) + 1 :], *map(str, range(20 - len(words)))]
        top = [(words[draw % len(words)], math.log(sure)), *((word, math.log((1 - sure) / 19)) for word in others)]
        return letter(top[0][0], top)
    reply = "A person walks past a table and picks something up."
    if "execute_command" in text:
        program = f"def execute_command(video, question, choices):{_PROGRAMS[draw % len(_PROGRAMS)]}"
        reply = f"<planning>Find the part, and look at it.</planning>\n<code>\n{program}\n</code>"
    return completion(reply, [entry("word", -0.1)] * (len(reply) // 4))
