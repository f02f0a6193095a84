"""The command `videopro mcp` as a process, with the SDK's own client over both transports: questions wait in
line, in turn with those of other clients, and each call is told its place. Libraries that print disturb
nothing. And the client that docs/tools.md shows."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from tests.support import ROOT
from tests.support.colours import make_video
from videopro.backbones import find_video

SCRIPT = '''
import os, sys, time
from pathlib import Path
from tests.support.colours import ColourBackbone
from videopro.commands.mcp import main
from videopro.errors import check_cancelled
from videopro.serve.store import VideoFolders

def held(requests):
    """Note what is asked, and wait until it may be answered."""
    print("a library prints", flush=True)
    os.system("echo a child prints")
    os.write(1, b"a C library prints")
    with open("asked", "a") as file:
        print(requests[0].question.text, file=file)
    while not Path("may_answer").exists():
        check_cancelled()
        time.sleep(0.01)

backbone = ColourBackbone("held", is_concurrent=True, before=held)
raise SystemExit(main(sys.argv[1:], load=lambda *_, **__: backbone))
'''
LAST = "last"
PARTS = ("encoder=none", "text_encoder=none", "ocr=none", "detector=none")
COMMAND = ("videos", "--model", "held", "--in-flight", "1", "--modules", *PARTS)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Where the command is started: its script, and a folder of videos."""
    (tmp_path / "videos").mkdir()
    make_video(tmp_path / "videos" / "talk.mp4", "green")
    (tmp_path / "held.py").write_text(SCRIPT)
    return tmp_path


@asynccontextmanager
async def over_stdio(home: Path, addresses: Sequence[str]) -> AsyncIterator[list[Client]]:
    """One client: who starts the command is the only one."""
    command = [str(home / "held.py"), *COMMAND]
    server = StdioServerParameters(
        command=sys.executable, args=command, env={"PYTHONPATH": str(ROOT)}, cwd=str(home)
    )
    async with Client(server) as client:
        yield [client] * len(addresses)


@asynccontextmanager
async def over_http(home: Path, addresses: Sequence[str]) -> AsyncIterator[list[Client]]:
    """A client from each address, all of one server."""
    command = [sys.executable, str(home / "held.py"), *COMMAND, "--transport", "http", "--port", "0"]
    process = subprocess.Popen(
        command,
        cwd=home,
        env={"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = await anyio.to_thread.run_sync(process.stdout.readline)
        url = line.removeprefix("serving videos at ").strip()
        async with AsyncExitStack() as stack:
            clients = {}
            for address in dict.fromkeys(addresses):
                sender = httpx2.AsyncHTTPTransport(local_address=address)
                http = await stack.enter_async_context(httpx2.AsyncClient(transport=sender, timeout=60))
                server = streamable_http_client(url, http_client=http)
                clients[address] = await stack.enter_async_context(Client(server))
            yield [clients[address] for address in addresses]
            (home / "may_answer").unlink()
            # Of a call that is at work when the server ends, its client is told, and stderr no stack.
            arguments = {"video": "talk.mp4", "question": LAST, "choices": ["red", "green"]}
            last = asyncio.create_task(clients[addresses[0]].call_tool("ask", arguments))
            await until(lambda: LAST in (home / "asked").read_text())
            process.terminate()
            reply = await last
            assert reply.is_error
            assert reply.content[0].text == "Error executing tool ask: stopped"
        assert process.stderr is not None
        assert (await anyio.to_thread.run_sync(process.stderr.read)).split() == ["stopped"]
        # As a command that a signal ends.
        assert await anyio.to_thread.run_sync(process.wait) == 143
    finally:
        process.kill()
        process.wait()


class Calls:
    """The calls of ask, and what each was told."""

    def __init__(self, home: Path) -> None:
        self.told: dict[str, list[str]] = {}
        self.answers: dict[str, str] = {}
        self.scopes: dict[str, anyio.CancelScope] = {}
        self.has_left = False
        self._asked = home / "asked"

    async def ask(self, client: Client, name: str) -> None:
        told = self.told[name] = []

        async def note(done: float, total: float | None, message: str | None) -> None:
            told.append(str(message))

        arguments: dict[str, Any] = {"video": "talk.mp4", "question": name, "choices": ["red", "green"]}
        with anyio.CancelScope() as scope:
            self.scopes[name] = scope
            reply = await client.call_tool("ask", arguments, progress_callback=note)
            assert not reply.is_error, reply.content
            self.answers[name] = reply.structured_content["answer"]
        self.has_left |= scope.cancelled_caught

    def asked(self) -> list[str]:
        return self._asked.read_text().split() if self._asked.exists() else []

    def places(self, name: str) -> list[int]:
        return [int(message.split()[2]) for message in self.told.get(name, []) if "place" in message]


async def until(is_so: Any) -> None:
    while not is_so():
        await anyio.sleep(0.01)


# By hand: m1 is answered at once, and then it is the turn of one client after another.
HTTP = (
    over_http,
    ["m1", "m2", "o1", "t1", "m3"],
    {"m1": [], "m2": [1], "m3": [2, 3, 4, 5, 4, 3, 2, 1], "o1": [2, 1], "t1": [3, 2, 1], "gone": [4]},
)
STDIO = (
    over_stdio,
    ["m1", "m2", "m3", "o1", "t1"],
    {"m1": [], "m2": [1], "m3": [2, 1], "o1": [3, 2, 1], "t1": [4, 3, 2, 1], "gone": [5]},
)


@pytest.mark.parametrize(
    ("connected", "order", "places"),
    [pytest.param(*HTTP, id="http", marks=pytest.mark.long), pytest.param(*STDIO, id="stdio")],
)
def test_each_call_knows_its_place_and_nobody_starves(
    connected: Any, order: list[str], places: dict[str, list[int]], home: Path
) -> None:
    names = ("m1", "m2", "m3", "o1", "t1", "gone")
    addresses = ("127.0.0.2", "127.0.0.2", "127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5")
    calls = Calls(home)

    async def dialogue() -> None:
        with anyio.fail_after(100):
            async with connected(home, addresses) as clients, anyio.create_task_group() as group:
                for client, name in zip(clients, names, strict=True):
                    group.start_soon(calls.ask, client, name)
                    # One after another, so that the order is known.
                    await until(lambda name=name: name in calls.asked() or calls.places(name))
                calls.scopes["gone"].cancel()
                await until(lambda: calls.has_left)
                assert (await clients[0].call_tool("open", {})).structured_content["videos"]
                # Who waits keeps no other call waiting; over stdio this one comes behind the cancelled one.
                looked = await clients[0].call_tool("look", {"video": "talk.mp4", "times": [0]})
                assert not looked.is_error
                await until(lambda: max(calls.places(name)[-1] for name in order[1:]) == 4)
                (home / "may_answer").touch()

    asyncio.run(dialogue())
    assert [name for name in calls.asked() if name != LAST] == order
    assert calls.answers == dict.fromkeys(order, "green")
    assert {name: calls.places(name) for name in names} == places


def block(title: str, language: str) -> str:
    page = (ROOT / "docs" / "tools.md").read_text(encoding="utf-8")
    found = re.search(rf"<!-- {title}: client -->\n```{language}\n(.*?)```", page, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.long
def test_the_client_of_the_page_prints_what_stands_there(tmp_path: Path) -> None:
    video = find_video(Path("pocket:test/long_013"))
    (tmp_path / "client.py").write_text(block("snippet", "python"))
    done = subprocess.run(
        [sys.executable, str(tmp_path / "client.py"), str(video.parent)],
        env={
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            # Its index is built anew.
            "VIDEOPRO_CACHE": str(tmp_path / "cache"),
        },
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == block("printed", "text")
