"""An engine of known speed: what vLLM does with requests, and how long an 8B takes for it on one H100.

**Batching**, as vLLM's scheduler with chunked prefill (vLLM's documentation, "Optimization and Tuning"): in
every step each request that is being answered gets one token, and what is left of the step's tokens goes to
the prompts that wait, first come, first served. Pictures that were shown before cost nothing again (its
prefix cache), until newer ones take their place.

**Time of a step**: the larger of reading and computing (a roofline), and a constant of the host.

- Reading: the weights once, and the keys and values of every request that gets a token.
- Computing: two operations a parameter and token; for a token of a picture, also those of its four patches
  in the vision tower.

Sizes are Qwen3-VL-8B's (config.json on the hub): 36 layers, 8 heads of keys and values of 128, 8.2 billion
parameters that a token passes, 0.58 billion in the tower, one token for 32 x 32 pixels of two frames. An H100
SXM does 989 dense TFLOPS in bf16 and reads 3.35 TB/s (NVIDIA's datasheet); it is assumed to reach 0.5 of the
one and 0.75 of the other, and the host to take 1 ms a step. So it takes 8 ms a token alone, and 0.08 s for a
question about 64 frames of 50,176 pixels. The kernels of transformers and torch on an H100 reach 0.49 of the
bandwidth for a token (9.2 ms), 0.43 of the FLOPS for a prompt and 0.23 in the vision tower (part j of
perf/gpu.json); an engine's own are faster, but none was measured. A faster engine is harder to keep busy.
What the API server in front of a real engine takes for reading JSON and pictures is left out.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

PARAMETERS, VISION_PARAMETERS = 8.2e9, 0.58e9
PATCHES_A_TOKEN = 4
KEY_VALUE_BYTES = 36 * 2 * 8 * 128 * 2
FLOPS, BYTES_A_SECOND = 0.5 * 989e12, 0.75 * 3.35e12
HOST_SECONDS = 0.001
# vLLM's defaults for an API server on an H100: tokens of a step, and requests that are answered at a time.
STEP_TOKENS, MOST_REQUESTS = 8192, 1024
# Tokens of keys and values beside the weights in 0.9 of 80 GB.
CACHE_TOKENS = 370_000


def step_seconds(decoding: int, context: int, text: int, visual: int) -> float:
    """The time of a step that gives one token each to `decoding` requests of `context` tokens in all, and
    reads `text` and `visual` tokens of prompts."""
    reading = (2 * PARAMETERS + KEY_VALUE_BYTES * context) / BYTES_A_SECOND
    language = 2 * PARAMETERS * (decoding + text + visual)
    vision = 2 * VISION_PARAMETERS * PATCHES_A_TOKEN * visual
    return max(reading, (language + vision) / FLOPS) + HOST_SECONDS


@dataclass
class EngineRequest:
    """One request in the engine."""

    text: int
    """Prompt tokens that are not of pictures."""
    visual: int
    """Prompt tokens of pictures."""
    pictures: int
    """A hash of the pictures."""
    reply: int
    """Tokens of the reply, at least 1."""
    done: asyncio.Future[None]
    visual_left: int = 0
    text_left: int = 0
    written: int = 0


@dataclass
class EngineStats:
    """What an engine has done since `began`."""

    began: float
    busy_s: float = 0.0
    """Time with a request in the engine."""
    request_s: float = 0.0
    """Sum of the times of all requests in the engine."""
    requests: int = 0
    steps: int = 0
    prompt_tokens: int = 0
    """Without those of pictures that it had seen."""
    reply_tokens: int = 0
    first: float | None = None
    last: float = 0.0
    """When the first request came, and when the last reply was done."""


@dataclass
class Engine:
    """Runs in an event loop; `speed` 0 answers at once."""

    speed: float = 1.0
    clock: Callable[[], float] = time.perf_counter
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    waiting: deque[EngineRequest] = field(default_factory=deque)
    decoding: list[EngineRequest] = field(default_factory=list)
    seen: OrderedDict[int, int] = field(default_factory=OrderedDict)
    """Pictures in the cache, with their tokens; the latest last."""

    def __post_init__(self) -> None:
        self.reset()
        self._arrival = asyncio.Event()
        self._changed_at = self.clock()

    def reset(self) -> None:
        """Forget the pictures and the figures."""
        self.seen.clear()
        self.stats = EngineStats(self.clock())
        self._changed_at = self.stats.began

    async def serve(self, text: int, visual: int, pictures: int, reply: int) -> None:
        """Return when the reply to a prompt is written."""
        request = EngineRequest(text, visual, pictures, reply, asyncio.get_running_loop().create_future())
        self._count()
        request.text_left = text
        request.visual_left = 0 if pictures in self.seen else visual
        self.waiting.append(request)
        self.stats.requests += 1
        self.stats.first = self.stats.first or self.clock()
        self._arrival.set()
        await request.done

    async def run(self) -> None:
        """Take steps for ever."""
        free_at = self.clock()
        while True:
            if not self.waiting and not self.decoding:
                self._arrival.clear()
                await self._arrival.wait()
                free_at = self.clock()
            seconds, finished = self._step()
            # On time even if this process was late: the engine would not have waited for it.
            free_at += seconds * self.speed
            await self.sleep(max(0.0, free_at - self.clock()))
            self._count()
            for request in finished:
                self.decoding.remove(request)
                request.done.set_result(None)
            self.stats.last = self.clock()

    def _step(self) -> tuple[float, list[EngineRequest]]:
        """Take one step; returns its time, and the requests whose replies it completes."""
        now = list(self.decoding)
        context = sum(each.text + each.visual + each.written for each in now)
        room, text, visual = STEP_TOKENS - len(now), 0, 0
        while self.waiting and room > 0 and len(self.decoding) < MOST_REQUESTS:
            first = self.waiting[0]
            if first.pictures in self.seen:
                # Those of an earlier request that came while this one waited.
                first.visual_left = 0
            seen = min(room, first.visual_left)
            read = min(room - seen, first.text_left)
            first.visual_left, first.text_left = first.visual_left - seen, first.text_left - read
            room, visual, text = room - seen - read, visual + seen, text + read
            if first.visual_left == 0 and first.pictures:
                self._remember(first)
            if first.visual_left or first.text_left:
                break
            # The step that reads the last token of a prompt writes the first one of the reply.
            self.decoding.append(self.waiting.popleft())
        for each in self.decoding:
            each.written += 1
        self.stats.steps += 1
        self.stats.prompt_tokens += text + visual
        self.stats.reply_tokens += len(self.decoding)
        finished = [each for each in self.decoding if each.written >= each.reply]
        return step_seconds(len(now), context, text, visual), finished

    def _remember(self, request: EngineRequest) -> None:
        self.seen[request.pictures] = request.visual
        self.seen.move_to_end(request.pictures)
        while sum(self.seen.values()) > CACHE_TOKENS:
            self.seen.popitem(last=False)

    def _count(self) -> None:
        """Add the time since the last change to the figures."""
        now = self.clock()
        inside = len(self.waiting) + len(self.decoding)
        passed, self._changed_at = now - self._changed_at, now
        self.stats.request_s += inside * passed
        self.stats.busy_s += passed if inside else 0.0
