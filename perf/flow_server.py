"""The HTTP server in front of perf/flow_engine.py: chat completions as vLLM gives them.

It decodes no picture and has no model. Letters and programs follow from the text of a request alone, so that
two runs ask for the same; a third of the answers are unsure, and their programs are refined. The programs are
of the kinds that the paper shows: one look at the whole video, an interval, several looks that are compared,
a crop.
"""

from __future__ import annotations

import asyncio
import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from perf.flow_engine import Engine

MODEL = "known-speed"
# Characters of a token, about.
TOKEN = 3.5
# A frame's time in the prompt: "<12.3 seconds>" and the marks around the frame.
TIME_TOKENS = 10
UNSURE = 0.33

_PLANNING = """<planning>
The question is about something that is seen in the video and has to be found first. Look at the right part
of it, check what is there, and answer from the frames that show it. Where one look is enough, the answer is
asked for directly.
</planning>
<code>
{code}
</code>"""
PROGRAMS = (
    """def execute_command(video, question, choices):
    return query_native(video, question, choices)""",
    """def execute_command(video, question, choices):
    middle = (video.start + video.end) / 2
    frames = trim_around(video, middle, intervals=20, num_frames=16)
    seen = query_frames(frames, "What happens here?")
    return query_mc(frames, question, choices, context=str(seen))""",
    """def execute_command(video, question, choices):
    best, found = None, None
    for part in range(3):
        start = video.start + part * video.duration / 3
        frames = trim_frames(video, start, start + video.duration / 3, num_frames=16)
        shown = query_yn(frames, "Is what the question asks about seen here?")
        if best is None or shown.confidence > best:
            best, found = shown.confidence, frames
    return query_mc(found, question, choices)""",
    """def execute_command(video, question, choices):
    frames = extract_frames(video, num_frames=24)
    left = [crop_left(frame) for frame in frames[8:16]]
    where = query_yn(left, "Is it on the left?")
    looks = left if where == "Yes" else [crop_right(frame) for frame in frames[8:16]]
    return query_mc(looks, question, choices)""",
)


def serve(pixels: int) -> None:
    """Serve on a free port of this machine until this process is ended, and print the port. `pixels`: of a
    frame, for the number of its tokens."""
    asyncio.run(_serve(pixels))


async def _serve(pixels: int) -> None:
    engine = Engine()
    stepping = asyncio.create_task(engine.run())
    server = await asyncio.start_server(
        lambda reader, writer: _connection(reader, writer, engine, pixels),
        "127.0.0.1",
        0,
        limit=1 << 26,
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await stepping


async def _connection(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    engine: Engine,
    pixels: int,
) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            first, *fields = head.decode("latin-1").split("\r\n")
            named = dict(line.lower().split(": ", 1) for line in fields if line)
            body = await reader.readexactly(int(named.get("content-length", 0)))
            path = first.split()[1]
            reply = json.dumps(await _reply(path, body, engine, pixels)).encode()
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                % len(reply)
                + reply
            )
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def _reply(path: str, body: bytes, engine: Engine, pixels: int) -> dict[str, Any]:
    if path.endswith("/models"):
        return {"data": [{"id": MODEL, "owned_by": "vllm", "root": MODEL, "object": "model"}]}
    if path == "/stats":
        return asdict(engine.stats)
    request = json.loads(body)
    if path == "/reset":
        engine.speed = float(request["speed"])
        engine.reset()
        return {}
    text, frames, pairs, pictures = read_request(request)
    visual = math.ceil(frames / (2 if pairs else 1)) * (pixels // 1024)
    text_tokens = round(len(text) / TOKEN) + math.ceil(frames / (2 if pairs else 1)) * TIME_TOKENS
    draw = zlib.crc32(text.encode())
    reply = letter(text, draw) if request["max_tokens"] == 1 else written(text, draw)
    await engine.serve(text_tokens, visual, pictures, reply["usage"]["completion_tokens"])
    reply["usage"]["prompt_tokens"] = text_tokens + visual
    return reply


def read_request(request: Mapping[str, Any]) -> tuple[str, int, bool, int]:
    """A request's text, its number of frames, whether they are a video (merged in pairs), and their hash; 0
    without frames."""
    texts: list[str] = []
    frames, pairs, pictures = 0, False, 0
    for message in request["messages"]:
        content = message["content"]
        parts: list[dict[str, Any]] = (
            [{"type": "text", "text": content}] if isinstance(content, str) else content
        )
        for part in parts:
            if part["type"] == "text":
                texts.append(part["text"])
                continue
            url = part[part["type"]]["url"]
            frames += url.count(",")
            pairs = pairs or part["type"] == "video_url"
            pictures = hash((pictures, url))
    # The times before single pictures are no part of what is asked.
    return texts[-1] if texts else "", frames, pairs, pictures


def letter(text: str, draw: int) -> dict[str, Any]:
    """A one-token reply, with the 20 most likely tokens."""
    replies = ["Yes", "No"] if text.endswith("Yes or No only.") else ["A", "B", "C", "D"]
    chosen = draw % len(replies)
    sure = 0.6 if (draw >> 8) % 100 < 100 * UNSURE else 0.92
    fillers = [f"t{number}" for number in range(20 - len(replies))]
    remainder = math.log((1 - sure) / 19)
    reply = replies.pop(chosen)
    top = [(reply, math.log(sure)), *((word, remainder) for word in (*replies, *fillers))]
    entries = [{"token": word, "logprob": value} for word, value in top]
    return _completion(reply, [{**entries[0], "top_logprobs": entries}], "length")


def written(text: str, draw: int) -> dict[str, Any]:
    """A program where one is asked for, else a few words."""
    if "<code>" in text or "execute_command" in text:
        reply = _PLANNING.format(code=PROGRAMS[draw % len(PROGRAMS)])
    else:
        reply = "A person walks past a table and picks something up."
    count = round(len(reply) / TOKEN)
    return _completion(reply, [{"token": "word", "logprob": -0.1}] * count, "stop")


def _completion(reply: str, tokens: list[dict[str, Any]], finish: str) -> dict[str, Any]:
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": MODEL,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": reply},
                "logprobs": {"content": tokens},
                "finish_reason": finish,
            }
        ],
        "usage": {"prompt_tokens": 0, "completion_tokens": len(tokens), "total_tokens": len(tokens)},
    }
