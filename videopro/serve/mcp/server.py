"""The tools of the server: those of `videopro.modules.tools`, each with the video that it is about, and
`open`."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools import Tool as ServedTool
from mcp.server.mcpserver.utilities.func_metadata import ArgModelBase, FuncMetadata
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import CallToolResult, ImageContent, TextContent, ToolAnnotations
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.types import ASGIApp

from videopro import __version__
from videopro.errors import VideoProError, current_cancellation
from videopro.methods import EventObserver
from videopro.modules import ModuleError
from videopro.modules.tools import TOOLS, Tell, Tool, tool_of
from videopro.serve.app import StoppableServer, address_of
from videopro.serve.guards import Guard, ServeLimits
from videopro.serve.line import FairLine
from videopro.serve.mcp import results
from videopro.serve.mcp.results import answered, doing_of, structured
from videopro.serve.mcp.videos import OfferedVideos
from videopro.serve.mcp.work import Calls, Turn, work_for
from videopro.serve.methods import AskRequest
from videopro.serve.problems import problem_of
from videopro.serve.state import client_of

_AT_ONCE = 16
"""Short calls that are served at a time."""
_MOST_VIDEOS = 1000
"""That are listed."""
_INSTRUCTIONS = (
    "Tools about the videos in this server's folders; `open` without a path lists them. Times are in seconds "
    "from a video's start. Boxes are [x0, y0, x1, y1] as shares of the frame, 0 to 1."
)
_READS = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
_Work = Callable[..., CallToolResult | BaseModel]
_Video = Annotated[str, Field(min_length=1, description="the id of an open video, or its path")]


def create_mcp(
    videos: OfferedVideos, limits: ServeLimits | None = None, calls: Calls | None = None
) -> MCPServer[Any]:
    """The server. It offers the tools that can work with its models. Of the limits, it takes those of the
    line; `calls` gets its open calls."""
    return MCPServer(
        "videopro",
        version=__version__,
        instructions=_INSTRUCTIONS,
        log_level="WARNING",
        tools=_Tools(videos, limits or ServeLimits(), calls or Calls()).served(),
    )


class _Arguments(ArgModelBase):
    """Whatever a client passes: the tools check it, and say in one line what is wrong."""

    model_config = ConfigDict(extra="allow")

    def model_dump_one_level(self) -> dict[str, Any]:
        return {"given": self.model_extra}


class _Tools:
    def __init__(self, videos: OfferedVideos, limits: ServeLimits, calls: Calls) -> None:
        self._videos = videos
        self._calls = calls
        self._at_once = FairLine(_AT_ONCE, limits.waiting)
        self._questions = FairLine(limits.at_once, limits.waiting)
        # One video is indexed at a time: each takes the whole decoder.
        self._indexing = FairLine(1, limits.waiting)
        self._seconds = limits.seconds

    def served(self) -> list[ServedTool]:
        """The tools as the SDK takes them."""
        served = [self._served(tool_of(self.open), self.open)]
        for name, tool in TOOLS.items():
            if tool.need in self._videos.lacking:
                continue
            about: dict[str, Any] = {"video": (_Video, ...)}
            work: _Work = partial(self._call, tool)
            result = tool.result
            if name == "ask" and (answerer := self._videos.answerer) is not None:
                methods: Any = Literal[tuple(answerer.method_names)]
                about["method"] = (Annotated[methods, Field(description="default: the server's own")], None)
                about["calls"] = (Annotated[int | None, Field(description="maximum model calls")], None)
                about["seconds"] = (Annotated[float | None, Field(description="maximum seconds")], None)
                work, result = self._ask, results.Answered
            served.append(self._served(replace(tool_of(tool.run, **about), result=result), work))
        return served

    def _served(self, tool: Tool, work: _Work) -> ServedTool:
        async def call(context: Context[Any, Any], given: dict[str, Any]) -> CallToolResult:
            try:
                checked = tool.checked(given)
                turn = await self._turn(context, tool.name, checked)
                made = await work_for(context, self._calls, turn, partial(work, **checked))
                return made if isinstance(made, CallToolResult) else structured(made)
            except VideoProError as error:
                # For the client's model to read, which can mend most of them. Over stdio, its user is the
                # operator.
                is_remote = isinstance(context.request_context.request, Request)
                told = str(problem_of(error, tool.name) if is_remote else error)
                return CallToolResult(content=[TextContent(type="text", text=told)], is_error=True)

        return ServedTool(
            fn=call,
            name=tool.name,
            title=None,
            description=tool.description,
            parameters=tool.parameters,
            fn_metadata=FuncMetadata(arg_model=_Arguments, output_model=tool.result),
            is_async=True,
            context_kwarg="context",
            annotations=_READS,
        )

    def open(
        self,
        tell: Tell,
        path: Annotated[str, Field(description="in the server's folders; default: list the videos")] = "",
        subtitles: Annotated[
            str,
            Field(description="a subtitle file in the folders; default: those in the video or next to it"),
        ] = "",
    ) -> results.Opened:
        """Open a video: its id, duration and size, and whether it has subtitles. Without a path, list the
        videos that can be opened."""
        if not path:
            files = self._videos.store.folders.videos()
            videos = [results.VideoFile(**each) for each in files[:_MOST_VIDEOS]]
            return results.Opened(videos=videos, left_out=len(files) - len(videos))
        opened = self._videos.video(path)
        if subtitles:
            opened = self._videos.with_subtitles(opened, subtitles)
        known = {name: getattr(opened, name) for name in ("id", "name", "duration", "width", "height")}
        return results.Opened(video=results.OpenedVideo(**known, has_subtitles=opened.subtitles is not None))

    def _call(self, tool: Tool, tell: Tell, video: str, **given: Any) -> CallToolResult:
        opened, is_indexed = self._videos.video(video), tool.need == "index"
        reply = self._videos.tools(opened, tell, is_indexed=is_indexed).call(tool.name, **given)
        if "error" in reply:
            raise ModuleError(reply["error"]["message"])
        images = [
            ImageContent(type="image", data=image["data"], mime_type=image["mime_type"])
            for image in reply.get("images", ())
        ]
        return structured(tool.result.model_validate(reply["result"]), images)

    def _ask(
        self,
        tell: Tell,
        video: str,
        question: str,
        choices: list[str] | None,
        method: str | None,
        **budget: float | None,
    ) -> results.Answered:
        opened, answerer = self._videos.video(video), self._videos.answerer
        cancellation = current_cancellation()
        assert answerer is not None
        assert cancellation is not None
        self._videos.models(tell)
        events: list[dict[str, Any]] = []

        def emit(event: dict[str, Any]) -> None:
            events.append(event)
            if (doing := doing_of(event)) is not None:
                tell(doing)

        options = {name: limit for name, limit in budget.items() if limit is not None}
        request = AskRequest(opened, question, tuple(choices or ()), method, options)
        answerer.ask(request, EventObserver(emit), cancellation)
        return answered(events)

    async def _turn(self, context: Context[Any, Any], name: str, given: dict[str, Any]) -> Turn:
        """In a line, with other clients: over HTTP as with the endpoint, over stdio there is one. A video is
        searched in the line of those that index, unless it is indexed."""
        request = context.request_context.request
        client = client_of(request) if isinstance(request, Request) else ""
        short = Turn(self._at_once, client)
        if name == "ask":
            return Turn(self._questions, client, self._seconds)
        if name == "search":
            # Finding the video of a path reads the file.
            is_indexed = partial(self._is_indexed, given["video"])
            if not await work_for(context, self._calls, short, is_indexed):
                return Turn(self._indexing, client)
        return short

    def _is_indexed(self, video: str, tell: Tell) -> bool:
        return self._videos.is_indexed(self._videos.video(video))


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
    server: MCPServer[Any], limits: ServeLimits, calls: Calls, sock: socket.socket, say: Callable[[str], None]
) -> None:
    """Serve over streamable HTTP until a signal ends the process, which stops its open calls; `say` receives
    the address."""
    _quiet()
    StoppableServer(mcp_app(server, limits), lambda: say(address_of(sock) + PATH), calls.stop_all).run([sock])


def _quiet() -> None:
    """Keep what libraries log for their own developers from stderr: the SDK shows all that reaches the root
    logger, whatever level it has there."""
    for handler in logging.getLogger().handlers:
        handler.setLevel(logging.WARNING)
