"""Videos over the Model Context Protocol, with the SDK's own client. The command: test_mcp_process.py."""

from __future__ import annotations

import asyncio
import base64
import io
import re
import shutil
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import httpx2
import numpy as np
import pytest
from mcp import Client
from mcp.server.mcpserver.exceptions import ToolError
from PIL import Image
from starlette.requests import Request

from tests.support.fake_backbone import FakeBackbone
from tests.support.making_videos import read_number
from tests.support.number_encoder import NumberEncoder
from tests.support.numbered import LINES, ReadingBackbone, video
from tests.support.served import listening
from videopro.errors import BackboneError, Cancellation, check_cancelled
from videopro.methods import last_event
from videopro.modules import loading
from videopro.modules.tools import ToolModels, VideoTools, open_video
from videopro.question import Answer, Question
from videopro.serve import Answerer, ServeLimits
from videopro.serve.guards import HANG_UP
from videopro.serve.line import FairLine
from videopro.serve.mcp import OfferedVideos, create_mcp, mcp_app
from videopro.serve.mcp.results import answered
from videopro.serve.mcp.work import Calls, Turn, work_for
from videopro.traces import AGENT, Result, Round

PARTS = {"encoder": "clip:numbers", "text_encoder": "none", "ocr": "none", "detector": "none"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with talk.mp4, one minute of numbered pictures, its subtitles, and links out of it."""
    made = tmp_path / "videos"
    made.mkdir()
    shutil.copy(video().path, made / "talk.mp4")
    (made / "talk.srt").write_text(
        "\n".join(
            f"{number}\n00:00:{line.start:02.0f},000 --> 00:00:{line.end:02.0f},000\n{line.text}\n"
            for number, line in enumerate(LINES, start=1)
        )
    )
    shutil.copy(video().path, tmp_path / "secret.mp4")
    (made / "link.mp4").symlink_to(tmp_path / "secret.mp4")
    return made


class HeldEncoder(NumberEncoder):
    """Never done, but where its call is cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.ended = threading.Event(), threading.Event()

    def encode_clips(self, clips: Any) -> np.ndarray:
        self.begun.set()
        try:
            while True:
                check_cancelled()
                time.sleep(0.01)
        finally:
            self.ended.set()


@contextmanager
def served(
    folder: Path, backbone: FakeBackbone | None = None, limits: ServeLimits | None = None
) -> Iterator[str]:
    """The address of a server over HTTP in this process."""
    answerer = None if backbone is None else Answerer("fake", load=lambda *_, **__: backbone)
    videos = OfferedVideos([folder], answerer, PARTS)
    limits = limits or ServeLimits()
    with closing(videos), listening(mcp_app(create_mcp(videos, limits), limits)) as address:
        yield f"{address}/mcp"


def talk(server: Any, dialogue: Callable[[Client], Awaitable[Any]], mode: str = "auto") -> Any:
    """What a dialogue with a server returns. `mode` "legacy": as clients of 2025 speak."""

    async def run() -> Any:
        with anyio.fail_after(120):
            async with Client(server, mode=mode) as client:
                return await dialogue(client)

    return asyncio.run(run())


async def structured(client: Client, name: str, **arguments: Any) -> dict[str, Any]:
    reply = await client.call_tool(name, arguments)
    assert not reply.is_error, reply.content
    assert isinstance(reply.structured_content, dict)
    return reply.structured_content


async def refused(client: Client, name: str, **arguments: Any) -> str:
    reply = await client.call_tool(name, arguments)
    assert reply.is_error
    (text,) = reply.content
    assert text.type == "text"
    return text.text


@pytest.fixture
def numbers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[NumberEncoder], None]:
    """Lets servers use an encoder that needs no weights, with an empty cache."""
    monkeypatch.setenv("VIDEOPRO_CACHE", str(tmp_path / "cache"))

    def use(encoder: NumberEncoder) -> None:
        monkeypatch.setattr(loading, "load_encoder", lambda *_, **__: encoder)

    return use


def tools_of(folder: Path) -> VideoTools:
    """The tools in Python of the same video with the same models."""
    models = ToolModels("fake", load=lambda *_, **__: ReadingBackbone(), **PARTS)
    return open_video(folder / "talk.mp4", models=models)


def test_every_tool_gives_structured_results_with_evidence(
    folder: Path, numbers: Callable[[NumberEncoder], None]
) -> None:
    numbers(NumberEncoder())
    progress: list[tuple[float, float | None, str | None]] = []

    async def note(done: float, total: float | None, message: str | None) -> None:
        progress.append((done, total, message))

    async def dialogue(client: Client) -> None:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(listed) == {"open", "search", "look", "subtitles", "transcript", "ask"}
        for tool in listed.values():
            assert tool.output_schema
            assert tool.input_schema["additionalProperties"] is False
            assert "\n" not in tool.description
        methods = listed["ask"].input_schema["properties"]["method"]["enum"]
        assert {"native", "videopro"} <= set(methods)
        opened = await structured(client, "open")
        assert [each["path"] for each in opened["videos"]] == ["talk.mp4"]
        about = (await structured(client, "open", path="talk.mp4"))["video"]
        assert (about["duration"], about["has_subtitles"], about["name"]) == (60.0, True, "talk.mp4")
        video = about["id"]

        # Picture 100 is shown from 25 s: in the third clip, whose middle picture is 100.
        found = await client.call_tool(
            "search", {"video": video, "query": "100", "top_k": 1}, progress_callback=note
        )
        assert (progress[0][2], progress[-1]) == ("loading the model", (6, 6, "indexing"))
        assert [(clip["start"], clip["end"]) for clip in found.structured_content["clips"]] == [(20.0, 30.0)]

        # The clips are indexed: these are the same models.
        in_python = {each["function"]["name"]: each["function"] for each in tools_of(folder).schemas()}
        for name, function in in_python.items():
            properties = dict(listed[name].input_schema["properties"])
            assert properties.pop("video")["description"] == "the id of an open video, or its path"
            for own in ("method", "calls", "seconds"):
                properties.pop(own, None)
            assert properties == function["parameters"]["properties"]
            assert listed[name].description == function["description"]

        looked = await client.call_tool("look", {"video": video, "times": [2.5], "format": "png"})
        text, image = looked.content
        assert (text.type, image.type, image.mime_type) == ("text", "image", "image/png")
        picture = np.asarray(Image.open(io.BytesIO(base64.b64decode(image.data))))
        assert read_number(picture) == 10
        assert looked.structured_content["frames"] == [
            {"time": 2.5, "width": 128, "height": 64, "subtitles": LINES[0].text}
        ]
        part = await structured(client, "look", video=video, times=[2.5], box=[0.5, 0, 1, 1])
        assert part["frames"][0]["width"] == 64
        spread = await structured(client, "look", video=video, start=10, end=20, count=2)
        assert [frame["time"] for frame in spread["frames"]] == [12.5, 17.5]

        lines = await structured(client, "subtitles", video=video, query="storm")
        assert lines["lines"] == [{"start": 30.0, "end": 33.0, "text": LINES[2].text}]
        some = await structured(client, "transcript", video="talk.mp4", end=20, limit=1)
        assert (some["lines"][0]["text"], some["left_out"]) == (LINES[0].text, 1)

        answer = await structured(
            client, "ask", video=video, question="Which?", choices=["red", "green", "blue"], method="native"
        )
        # Eight frames, the middles of eight parts: the first is at 3.75 s, picture 15, and 15 modulo 3 is 0.
        assert (answer["letter"], answer["answer"], answer["confidence"]) == ("A", "red", 0.8)
        assert answer["evidence"][0]["kind"] == "frames"
        assert answer["cost"]["frames"] == 8

        for name, arguments, says in (
            ("look", {"times": []}, "look(): times: List should have at least 1 item"),
            ("look", {"times": [61]}, "look(): 61 s is outside the video (0 to 60 s)"),
            ("look", {"time": [10]}, "look() takes no 'time'; it takes video, times, start, end, count"),
            (
                "ask",
                {"question": "?", "options": ["a"]},
                "ask() takes no 'options'; it takes video, method",
            ),
            ("open", {"file": "talk.mp4"}, "open() takes no 'video', 'file'; it takes path, subtitles"),
            ("ask", {"question": "Why?", "calls": 0}, "calls is 0; it must be at least 1"),
            ("ask", {"question": "Why?", "method": "guess"}, "ask(): method: Input should be '"),
            ("ask", {"question": "x" * 20_001}, "at most 16000 characters"),
        ):
            message = await refused(client, name, video=video, **arguments)
            assert says in message
            assert "\n" not in message
        assert await refused(client, "search", query="a cup") == "search(): video: Field required"

    with served(folder, ReadingBackbone()) as address:
        talk(address, dialogue)


def test_an_answer_that_no_call_gave_a_confidence_is_an_answer() -> None:
    """As that of an agent whose reply names the option."""
    answer = Answer("B", raw="B")
    by_agent = Result((Round(AGENT, "B"),), answer, answer, selected=0)
    told = answered([last_event(by_agent, Question("Which?", ("red", "green")))])
    assert (told.letter, told.answer, told.confidence) == ("B", "green", None)


def test_no_file_outside_of_the_folders_is_opened(folder: Path) -> None:
    paths = (
        "../secret.mp4",
        "link.mp4",
        "/etc/passwd",
        "videos/../../secret.mp4",
        "no.mp4",
        "talk.mp4\0",
        ".",
    )

    async def dialogue(client: Client) -> None:
        full = await structured(client, "open", path=str(folder / "talk.mp4"))
        assert full["video"]["name"] == "talk.mp4"
        for path in paths:
            for opened in ({"path": path}, {"path": "talk.mp4", "subtitles": path}):
                assert "the server's folders" in await refused(client, "open", **opened)

    with closing(OfferedVideos([folder], None, {})) as videos:
        talk(create_mcp(videos), dialogue)


def test_subtitles_are_those_of_the_client_that_gave_them(folder: Path) -> None:
    lines = "1\n00:00:01,000 --> 00:00:03,000\n{}\n"
    for name in ("french.srt", "german.srt", "broken.srt"):
        (folder / name).write_text("none" if name == "broken.srt" else lines.format(name))

    async def dialogue(client: Client, given: str) -> tuple[str, str]:
        about = (await structured(client, "open", path="talk.mp4", subtitles=given))["video"]
        assert about["has_subtitles"]
        return about["id"], about["name"]

    async def said(client: Client, video: str) -> str:
        read = await structured(client, "transcript", video=video, limit=1)
        asked = await structured(client, "look", video=video, times=[2.5])
        assert asked["frames"][0]["subtitles"] == read["lines"][0]["text"]
        return str(read["lines"][0]["text"])

    with served(folder) as address:
        french, name = talk(address, lambda client: dialogue(client, "french.srt"))
        german, _ = talk(address, lambda client: dialogue(client, "german.srt"))
        own, _ = talk(address, lambda client: dialogue(client, ""))
        assert name == "talk.mp4"
        assert talk(address, lambda client: said(client, french)) == "french.srt"
        assert talk(address, lambda client: said(client, german)) == "german.srt"
        for video in (own, "talk.mp4"):
            assert talk(address, lambda client, video=video: said(client, video)) == LINES[0].text
        # Given again, to the id of another choice, they are the same video; and no id is made up.
        again = talk(address, lambda c: structured(c, "open", path=german, subtitles="french.srt"))
        assert again["video"]["id"] == french
        wrong = talk(address, lambda client: refused(client, "look", video=f"{own}+0123", times=[1]))
        assert "there is no video" in wrong
        broken = talk(address, lambda c: refused(c, "open", path="talk.mp4", subtitles="broken.srt"))
        assert broken.startswith("broken.srt is not a")


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_call_that_is_cancelled_stops_its_work_and_others_go_on(
    folder: Path, numbers: Callable[[NumberEncoder], None], mode: str
) -> None:
    encoder = HeldEncoder()
    numbers(encoder)

    async def dialogue(client: Client) -> float:
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "search", {"video": "talk.mp4", "query": "1"})
            while not encoder.begun.is_set():
                await anyio.sleep(0.01)
            # The work of one call holds up no other.
            await structured(client, "look", video="talk.mp4", times=[1])
            assert not encoder.ended.is_set()
            group.cancel_scope.cancel()
        cancelled = time.monotonic()
        while not encoder.ended.is_set():
            await anyio.sleep(0.01)
        await structured(client, "look", video="talk.mp4", times=[2])
        return time.monotonic() - cancelled

    with served(folder) as address:
        assert talk(address, dialogue, mode) < 60


def test_a_client_of_2025_that_goes_without_a_word_stops_its_call(
    folder: Path, numbers: Callable[[NumberEncoder], None]
) -> None:
    """As one that is killed: its protocol says nothing then, and no cancellation comes."""
    encoder = HeldEncoder()
    numbers(encoder)
    version = "2025-06-18"
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": version}

    def message(method: str, params: dict[str, Any], id: int | None) -> dict[str, Any]:
        number = {} if id is None else {"id": id}
        return {"jsonrpc": "2.0", "method": method, "params": params, **number}

    about = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
    call = {"name": "search", "arguments": {"video": "talk.mp4", "query": "1"}}
    with served(folder) as address, httpx2.Client(trust_env=False, headers=headers, timeout=20) as http:
        begun = http.post(address, json=message("initialize", about, 1))
        http.headers["Mcp-Session-Id"] = begun.headers["mcp-session-id"]
        http.post(address, json=message("notifications/initialized", {}, None))
        with http.stream("POST", address, json=message("tools/call", call, 2)):
            assert encoder.begun.wait(20)
        assert encoder.ended.wait(20)


def test_a_call_whose_client_has_gone_before_it_begins_is_not_worked_on() -> None:
    """As the search itself, where the client goes while it is looked up whether the video is indexed."""
    gone, ran = Cancellation(), list[bool]()
    request = Request({"type": "http", HANG_UP: gone})
    context: Any = SimpleNamespace(request_context=SimpleNamespace(request=request))
    gone.cancel()
    with pytest.raises(ToolError, match="stopped"):
        anyio.run(work_for, context, Calls(), Turn(FairLine(1, 1)), lambda tell: ran.append(True))
    assert not ran


def test_over_http_the_doors_are_those_of_the_endpoint(folder: Path) -> None:
    with served(folder, limits=ServeLimits(keys=("secret",))) as address:
        for headers, status in (({}, 401), ({"Origin": "https://elsewhere.example"}, 403)):
            assert httpx2.post(address, json={}, headers=headers).status_code == status
    with served(folder, limits=ServeLimits(json_bytes=1000, hosts=("videos.example",))) as address:
        sent = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        large = httpx2.post(address, content=iter([b" " * 600] * 10), headers=sent, timeout=60)
        assert (large.status_code, large.json()["error"]["code"]) == (413, "too_large")
        for host, status in (("videos.example", 400), ("rebound.example", 403)):
            reply = httpx2.post(address, content=b"{", headers={**sent, "Host": host}, timeout=60)
            assert reply.status_code == status, host
            assert reply.headers["cross-origin-resource-policy"] == "same-origin"


def test_what_only_the_operator_can_use_goes_to_users_of_the_same_machine(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hint = "/srv/weights: cannot be read; start the server with --backbone frames=8"

    def load(*_: Any, **__: Any) -> Any:
        raise BackboneError(hint)

    async def dialogue(client: Client) -> str:
        return await refused(client, "ask", video="talk.mp4", question="Which?")

    with closing(OfferedVideos([folder], Answerer("fake", load=load), PARTS)) as videos:
        assert talk(create_mcp(videos), dialogue) == hint
        assert hint not in caplog.text
        with listening(mcp_app(create_mcp(videos), ServeLimits())) as address:
            assert talk(f"{address}/mcp", dialogue) == "this server is not set up for this; ask the operator"
        assert f"ask: {hint}" in caplog.text


def test_a_server_offers_what_its_models_can_do_and_names_nothing_else(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(folder / "talk.mp4", folder / "silent.mp4")

    async def dialogue(client: Client) -> None:
        listed = (await client.list_tools()).tools
        assert [tool.name for tool in listed] == ["open", "look", "subtitles", "transcript"]
        told = " ".join([client.instructions or "", *(tool.description or "" for tool in listed)])
        assert not re.search(r"\b(search|read_text|locate|ask)\b", told)
        for tool, arguments, says in (
            ("open", {"path": "talk.mp4", "subtitles": "talk.mp4"}, "talk.mp4: is no subtitle file"),
            ("look", {"video": "file-1", "times": [1]}, "there is no video"),
            ("transcript", {"video": "silent.mp4"}, "transcript() cannot be used: this video has no subtitl"),
        ):
            assert says in await refused(client, tool, **arguments)
        about = await structured(client, "open", path="talk.mp4", subtitles="talk.srt")
        assert about["video"]["has_subtitles"]

    with closing(OfferedVideos([folder], None, {"ocr": "none"})) as videos:
        talk(create_mcp(videos), dialogue)
        monkeypatch.setattr("videopro.serve.mcp.server._MOST_VIDEOS", 1)
        listed = talk(create_mcp(videos), lambda client: structured(client, "open"))
        assert (len(listed["videos"]), listed["left_out"]) == (1, 1)
    parts = {"detector": "grounding-dino:NAME", "encoder": "clip:numbers"}
    with closing(OfferedVideos([folder], None, parts)) as videos:
        assert videos.lacking == {"model"}
