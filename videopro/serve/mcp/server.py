"""The tools of the server. Their names, docstrings and annotations are what a client's model reads."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, Literal

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import CallToolResult, ImageContent, TextContent, ToolAnnotations
from pydantic import Field
from starlette.requests import Request
from starlette.types import ASGIApp

from videopro import __version__
from videopro.errors import ConfigError, VideoProError, current_cancellation
from videopro.methods import EventObserver
from videopro.modules import ModuleError
from videopro.modules.tools import VideoTools
from videopro.serve.app import StoppableServer, address_of
from videopro.serve.guards import Guard, ServeLimits
from videopro.serve.line import FairLine
from videopro.serve.mcp import results
from videopro.serve.mcp.films import OfferedFilms
from videopro.serve.mcp.results import answered, doing_of, structured, with_evidence
from videopro.serve.mcp.work import Calls, Tell, Turn, work_for
from videopro.serve.methods import LONGEST_TEXT, AskRequest
from videopro.serve.state import client_of

MOST_FRAMES = 32
_AT_ONCE = 16
"""Short calls that are served at a time."""
_INSTRUCTIONS = (
    "Tools about videos. Open a film first, then look, search and read in it; times are in seconds from its "
    "start, boxes are [x0, y0, x1, y1] in shares of the picture, 0 to 1."
)
_READS = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)

FilmId = Annotated[str, Field(description="the id of an open film, or its path")]
Times = Annotated[
    list[float],
    Field(default_factory=list, max_length=MOST_FRAMES, description="times of the frames in seconds"),
]
Box = Annotated[
    list[float] | None,
    Field(min_length=4, max_length=4, description="the part of the picture to cut out; unset: all of it"),
]
Start = Annotated[float | None, Field(ge=0, description="seconds; unset: the beginning")]
End = Annotated[float | None, Field(gt=0, description="seconds; unset: the end")]
Text = Annotated[str, Field(max_length=LONGEST_TEXT)]
Count = Annotated[int, Field(ge=1, le=MOST_FRAMES)]


def create_mcp(
    films: OfferedFilms, limits: ServeLimits | None = None, calls: Calls | None = None
) -> MCPServer[Any]:
    """The server. Without a model there is no `ask`. Of the limits, it takes those of the line; `calls` gets
    its open calls."""
    server: MCPServer[Any] = MCPServer(
        "videopro", version=__version__, instructions=_INSTRUCTIONS, log_level="WARNING"
    )
    tools = _Tools(films, limits or ServeLimits(), calls or Calls())
    offered: list[Callable[..., Any]] = [tools.open, tools.index, tools.search, tools.look, tools.read_text]
    offered += [tools.subtitles, tools.locate, *([tools.ask] if films.answerer is not None else [])]
    for tool in offered:
        server.add_tool(tool, annotations=_READS)
    return server


class _Tools:
    """Each public method is a tool."""

    def __init__(self, films: OfferedFilms, limits: ServeLimits, calls: Calls) -> None:
        self._films = films
        self._calls = calls
        self._at_once = FairLine(_AT_ONCE, limits.waiting)
        self._questions = FairLine(limits.at_once, limits.waiting)
        # One film is indexed at a time: each takes the whole decoder.
        self._indexing = FairLine(1, limits.waiting)
        self._seconds = limits.seconds

    async def open(
        self,
        context: Context[Any, Any],
        path: Annotated[str, Field(description="a path in the server's folders; unset: list them")] = "",
        subtitles: Annotated[
            str,
            Field(
                description="a subtitle file in the folders, for the id that is returned; unset: those in "
                "the film or beside it"
            ),
        ] = "",
    ) -> Annotated[CallToolResult, results.Opened]:
        """Open a film: its id for the other tools, its duration, and whether it has subtitles. Without a
        path, list the films that can be opened."""

        def work(tell: Tell) -> CallToolResult:
            if not path:
                files = [results.FilmFile(**each) for each in self._films.store.folders.films()]
                return structured(results.Opened(films=files))
            opened = self._films.film(path)
            if subtitles:
                opened = self._films.with_subtitles(opened, subtitles)
            film = results.FilmInfo(
                film=opened.id,
                name=opened.name,
                duration=opened.duration,
                width=opened.width,
                height=opened.height,
                has_subtitles=opened.subtitles is not None,
            )
            return structured(results.Opened(film=film))

        return await self._working(context, work)

    async def index(
        self, context: Context[Any, Any], film: FilmId
    ) -> Annotated[CallToolResult, results.Indexed]:
        """Index the clips of a film for `search`, which would do it otherwise. Takes long the first time;
        progress is told, and what was done is kept if the call is cancelled."""

        def work(tell: Tell) -> CallToolResult:
            started, opened, is_new = time.monotonic(), self._films.film(film), False

            def tell_indexing(doing: str, done: float | None = None, total: float | None = None) -> None:
                nonlocal is_new
                is_new |= doing == "indexing"
                tell(doing, done, total)

            clips = self._films.index(opened, tell_indexing)
            seconds = round(time.monotonic() - started, 2) if is_new else 0.0
            return structured(results.Indexed(film=opened.id, clips=clips, seconds=seconds))

        return await self._working(context, work, self._turn(context, self._indexing))

    async def search(
        self,
        context: Context[Any, Any],
        film: FilmId,
        query: Annotated[Text, Field(description="what is to be seen, in a few words")],
        top_k: Count = 3,
        start: Start = None,
        end: End = None,
    ) -> Annotated[CallToolResult, results.Clips]:
        """Find the clips (10 seconds each) that show what `query` describes. The film is indexed first, if it
        is not."""

        def work(tell: Tell) -> CallToolResult:
            tools = self._tools(film, tell, is_indexed=True)
            part = _part_of(tools, start, end)
            clips = _call(tools, "get_informative_clips", video=part, query=query, top_k=top_k)
            return with_evidence(results.Clips, tools, clips=clips)

        return await self._working(context, work, self._turn_to_search(context, film))

    async def look(
        self,
        context: Context[Any, Any],
        film: FilmId,
        times: Times,
        start: Start = None,
        end: End = None,
        count: Count = 8,
        box: Box = None,
        side: Annotated[int, Field(ge=16, le=4096, description="longer side in pixels, at most")] = 768,
        format: Literal["jpeg", "png"] = "jpeg",
    ) -> Annotated[CallToolResult, results.Frames]:
        """See frames of a film as images: at `times`, or `count` of them evenly spread from `start` to `end`.
        Give a `box` to see a part at the film's own resolution."""

        def work(tell: Tell) -> CallToolResult:
            tools = self._tools(film, tell)
            frames = _frames_of(tools, times, start, end, count, box)
            reply = _call_whole(tools, "look", frames=frames, side=side, format=format)
            images = [
                ImageContent(type="image", data=image["data"], mime_type=image["mime_type"])
                for image in reply["images"]
            ]
            return with_evidence(results.Frames, tools, images=images, frames=reply["result"])

        return await self._working(context, work)

    async def read_text(
        self, context: Context[Any, Any], film: FilmId, times: Times, box: Box = None
    ) -> Annotated[CallToolResult, results.Texts]:
        """Read the text that is written in frames, by OCR. Give a `box` to read small text."""

        def work(tell: Tell) -> CallToolResult:
            tools, texts = self._tools(film, tell), []
            for number, time_s in enumerate(_not_empty(times)):
                tell("reading", number, len(times))
                (frame,) = _frames_of(tools, [time_s], None, None, 1, box)
                texts.append({"time": time_s, "text": _call(tools, "run_ocr", frame=frame)})
            return with_evidence(results.Texts, tools, texts=texts)

        return await self._working(context, work)

    async def subtitles(
        self,
        context: Context[Any, Any],
        film: FilmId,
        query: Annotated[Text, Field(description="words that may be spoken; unset: all lines")] = "",
        start: Start = None,
        end: End = None,
        top_k: Annotated[int, Field(ge=1, le=1000, description="most lines")] = 20,
    ) -> Annotated[CallToolResult, results.Lines]:
        """Read or search what is said: the subtitle lines from `start` to `end`, or those of them that say
        what `query` is about."""

        def work(tell: Tell) -> CallToolResult:
            tools = self._tools(film, tell)
            if query:
                part = _part_of(tools, start, end)
                lines = _call(tools, "get_informative_subtitles", video=part, query=query, top_k=top_k)
                return with_evidence(results.Lines, tools, lines=lines)
            if tools.context.subtitles is None:
                raise ConfigError("this film has no subtitles; open it with a subtitle file, or look at it")
            duration = tools.context.video.duration
            lines = tools.context.subtitles.between(start or 0.0, duration if end is None else end)
            first_lines = [
                results.Line(start=each.start, end=each.end, text=each.text) for each in lines[:top_k]
            ]
            evidence = [
                results.Evidence(kind="subtitle", source="subtitles", **line.model_dump())
                for line in first_lines
            ]
            return structured(
                results.Lines(lines=first_lines, left_out=max(0, len(lines) - top_k), evidence=evidence)
            )

        return await self._working(context, work)

    async def locate(
        self,
        context: Context[Any, Any],
        film: FilmId,
        text: Annotated[Text, Field(description="what to find, such as: a red car")],
        times: Times,
        threshold: Annotated[float, Field(ge=0, le=1, description="lowest score of a box")] = 0.5,
    ) -> Annotated[CallToolResult, results.Boxes]:
        """Find where things are in frames: boxes with scores."""

        def work(tell: Tell) -> CallToolResult:
            tools, boxes = self._tools(film, tell), []
            video = tools.context.video
            for number, time_s in enumerate(_not_empty(times)):
                tell("looking", number, len(times))
                detections = _call(tools, "detect_object", frame=time_s, text=text, box_threshold=threshold)
                for each in detections:
                    x = [round(each[name] / video.width, 4) for name in ("x0", "x1")]
                    y = [round(each[name] / video.height, 4) for name in ("y0", "y1")]
                    box = [x[0], y[0], x[1], y[1]]
                    boxes.append({"time": time_s, "box": box, "label": each["label"], "score": each["score"]})
            return with_evidence(results.Boxes, tools, boxes=boxes)

        return await self._working(context, work)

    async def ask(
        self,
        context: Context[Any, Any],
        film: FilmId,
        question: Text,
        choices: Annotated[
            list[Text], Field(default_factory=list, max_length=26, description="options; none: in words")
        ],
        method: Annotated[str, Field(description="how it is answered; unset: the server's own way")] = "",
    ) -> Annotated[CallToolResult, results.Answered]:
        """Answer a question about a film with the server's own model, with evidence. Takes a while; each step
        is told as progress."""

        def work(tell: Tell) -> CallToolResult:
            opened, answerer = self._films.film(film), self._films.answerer
            cancellation = current_cancellation()
            assert answerer is not None
            assert cancellation is not None
            self._films.models(tell)
            events: list[dict[str, Any]] = []

            def emit(event: dict[str, Any]) -> None:
                events.append(event)
                if (doing := doing_of(event)) is not None:
                    tell(doing)

            request = AskRequest(opened, question, tuple(choices), method or None)
            answerer.ask(request, EventObserver(emit), cancellation)
            return answered(events)

        return await self._working(context, work, self._turn(context, self._questions, self._seconds))

    def _tools(self, film: str, tell: Tell, *, is_indexed: bool = False) -> VideoTools:
        return self._films.tools(self._films.film(film), tell, is_indexed=is_indexed)

    def _turn(self, context: Context[Any, Any], line: FairLine, seconds: float | None = None) -> Turn:
        """In a line, with other clients: over HTTP as with the endpoint, over stdio there is one."""
        request = context.request_context.request
        return Turn(line, client_of(request) if isinstance(request, Request) else "", seconds)

    async def _turn_to_search(self, context: Context[Any, Any], film: str) -> Turn:
        """When a film is searched: in the line of those that index, unless it is indexed."""

        def is_indexed(tell: Tell) -> bool:
            return self._films.is_indexed(self._films.film(film))

        short = self._turn(context, self._at_once)
        is_short = await work_for(context, self._calls, short, is_indexed)
        return short if is_short else self._turn(context, self._indexing)

    async def _working(
        self,
        context: Context[Any, Any],
        work: Callable[[Tell], CallToolResult],
        turn: Turn | Awaitable[Turn] | None = None,
    ) -> CallToolResult:
        """The result of `work`, or what was wrong; `turn` None: among the short calls."""
        try:
            chosen = await turn if isinstance(turn, Awaitable) else turn
            chosen = chosen or self._turn(context, self._at_once)
            return await work_for(context, self._calls, chosen, work)
        except VideoProError as error:
            # For the client's model to read, which can mend most of them.
            return CallToolResult(content=[TextContent(type="text", text=str(error))], is_error=True)


def _call_whole(tools: VideoTools, name: str, **arguments: Any) -> dict[str, Any]:
    """The reply of a tool. Raises ModuleError."""
    reply = tools.call(name, **arguments)
    if "error" in reply:
        raise ModuleError(reply["error"]["message"].removeprefix(f"{name}(): "))
    return reply


def _call(tools: VideoTools, name: str, **arguments: Any) -> Any:
    """The result of a tool. Raises ModuleError."""
    return _call_whole(tools, name, **arguments)["result"]


def _part_of(tools: VideoTools, start: float | None, end: float | None) -> Any:
    """A part of the film, as the tools take it."""
    if start is None and end is None:
        return "video"
    return [start or 0.0, tools.context.video.duration if end is None else end]


def _not_empty(times: Sequence[float]) -> Sequence[float]:
    """The times. Raises ConfigError if there are none."""
    if not times:
        raise ConfigError("give times in seconds, such as times=[12.5]")
    return times


def _frames_of(
    tools: VideoTools,
    times: Sequence[float],
    start: float | None,
    end: float | None,
    count: int,
    box: list[float] | None,
) -> list[Any]:
    """The frames that a call is about, by their times or ids."""
    frames: list[Any] = list(times)
    if not frames:
        last = tools.context.video.duration if end is None else end
        spread = _call(tools, "trim_frames", start=start or 0.0, end=last, num_frames=count)
        frames = [frame["id"] for frame in spread]
    if box is not None:
        frames = [_call(tools, "crop", frame=frame, box=box)["id"] for frame in frames]
    return frames


PATH = "/mcp"


def run_stdio(server: MCPServer[Any]) -> None:
    """Serve the process at the other end of stdin and stdout until it goes. Meanwhile the SDK leads stdout
    to stderr, so that what a library or a child prints is no message of the protocol."""
    _quiet()
    anyio.run(server.run_stdio_async)


def mcp_app(server: MCPServer[Any], limits: ServeLimits) -> ASGIApp:
    """The server as an application at `PATH`, behind the same guard as the endpoint: keys, hosts, sites."""
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        # The guard does it, with the operator's names, and limits bodies.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    return Guard(app, limits, lambda route, status: None)


def run_http(
    server: MCPServer[Any],
    limits: ServeLimits,
    calls: Calls,
    sock: socket.socket,
    say: Callable[[str], None],
) -> None:
    """Serve over streamable HTTP until a signal ends the process, which stops its open calls; `say` is told
    the address."""
    _quiet()
    StoppableServer(mcp_app(server, limits), lambda: say(address_of(sock) + PATH), calls.stop_all).run([sock])


def _quiet() -> None:
    """Keep what libraries log for their own developers from stderr: the SDK shows all that reaches the root
    logger, whatever level it has there."""
    for handler in logging.getLogger().handlers:
        handler.setLevel(logging.WARNING)
