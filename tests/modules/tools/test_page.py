"""The snippets of docs/tools.md, run as they stand there against a local server of OpenAI's protocol. Those
of other libraries need `bash launch/agents.sh`, whose environment has the libraries."""

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT
from tests.support.numbered import LINES, video
from tests.support.stub_server import StubFault, StubServer, completion

PAGE = (ROOT / "docs" / "tools.md").read_text(encoding="utf-8")
SNIPPETS = dict(re.findall(r"<!-- snippet: (\w+) -->\n```python\n(.*?)```", PAGE, re.DOTALL))
(VF_EVAL,) = re.findall(r"<!-- command: verifiers -->\n```bash\n(.*?)```", PAGE, re.DOTALL)
ANSWER = "At 30 s; a bridge."
SEARCH = ("subtitles", {"query": "storm bridge"})
LOOK = ("look", {"start": 30, "end": 33, "count": 3, "side": 64})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with video.mp4, one minute of numbered pictures, and its subtitles."""
    shutil.copy(video().path, tmp_path / "video.mp4")
    lines = [f"00:00:{line.start:06.3f} --> 00:00:{line.end:06.3f}\n{line.text}\n" for line in LINES]
    (tmp_path / "video.srt").write_text("\n".join(lines))
    return tmp_path


@pytest.fixture
def printed_by(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[str, StubServer], str]:
    """What a snippet prints as a program that asks the server."""

    def run(snippet: str, server: StubServer) -> str:
        (folder / "snippet.py").write_text(SNIPPETS[snippet])
        monkeypatch.chdir(folder)
        for name, value in surroundings(server).items():
            monkeypatch.setenv(name, value)
        runpy.run_path("snippet.py", run_name="__main__")
        return capsys.readouterr().out

    return run


def surroundings(server: StubServer) -> dict[str, str]:
    return {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "none", "NO_PROXY": "127.0.0.1"}


def calling(turns: Sequence[str | Sequence[tuple[str, dict[str, Any]]]]) -> StubServer:
    """A server whose model says each turn, or makes its calls: names and arguments."""
    left = list(turns)

    def reply(body: dict[str, Any]) -> Any:
        turn = left.pop(0)
        if isinstance(turn, str):
            made = completion(turn, None)
        else:
            functions = [{"name": name, "arguments": json.dumps(arguments)} for name, arguments in turn]
            calls = [
                {
                    "index": number,
                    "id": f"call_{len(left)}_{number}",
                    "type": "function",
                    "function": function,
                }
                for number, function in enumerate(functions)
            ]
            made = completion(None, None, finish="tool_calls", message={"tool_calls": calls})
        return streamed(made) if body.get("stream") else made

    return StubServer(reply, models=None)


def streamed(reply: dict[str, Any]) -> StubFault:
    """The reply as events: all of the message, its end, and its usage."""
    (choice,) = reply["choices"]
    head = {**reply, "object": "chat.completion.chunk", "choices": [], "usage": None}
    said = {"index": 0, "delta": choice["message"], "finish_reason": None}
    ended = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
    chunks = [{**head, "choices": [said]}, {**head, "choices": [ended]}, {**head, "usage": reply["usage"]}]
    events = [f"data: {each}\n\n" for each in (*map(json.dumps, chunks), "[DONE]")]
    return StubFault(body="".join(events).encode(), headers={"Content-Type": "text/event-stream"})


def results(request: dict[str, Any]) -> list[dict[str, Any]]:
    """The results of tools in a request."""
    return [json.loads(_text(each["content"])) for each in request["messages"] if each["role"] == "tool"]


def _text(content: Any) -> str:
    return content if isinstance(content, str) else content[0]["text"]


def needs(*packages: str) -> pytest.MarkDecorator:
    missing = [package for package in packages if find_spec(package) is None]
    reason = f"needs {', '.join(missing)}: bash launch/agents.sh"
    return pytest.mark.skipif(bool(missing), reason=reason)


def test_the_agent_of_the_page_works(printed_by: Callable[[str, StubServer], str]) -> None:
    with calling([[SEARCH], [LOOK, ("read_text", {"times": [99]})], ANSWER]) as server:
        printed = printed_by("openai", server)
    first, second, third = server.chats
    assert [each["function"]["name"] for each in first["tools"]] == [
        *("look", "read_text", "subtitles", "transcript")
    ]
    # The third line of the subtitles is on from 30 to 33 s.
    (found,) = results(second)
    assert found["result"]["lines"] == [{"start": 30.0, "end": 33.0, "text": LINES[2].text}]
    _, looked, refused = results(third)
    assert [frame["time"] for frame in looked["result"]["frames"]] == [30.5, 31.5, 32.5]
    assert "99 s is outside the video" in refused["error"]["message"]
    pictures = [part for part in third["messages"][-1]["content"] if part["type"] == "image_url"]
    assert len(pictures) == 3
    assert printed.splitlines()[0] == ANSWER
    assert f"call 1 subtitles subtitle 30.0 33.0 {LINES[2].text}" in printed
    assert "'calls': 3, 'frames': 3" in printed


@pytest.mark.long
@needs("smolagents")
def test_the_same_tools_in_smolagents(printed_by: Callable[[str, StubServer], str]) -> None:
    turns = [[SEARCH], [LOOK], [("final_answer", {"answer": ANSWER})]]
    with calling(turns) as server:
        printed = printed_by("smolagents", server)
    assert printed.splitlines()[-1] == ANSWER
    assert LINES[2].text in json.dumps(server.chats[1]["messages"])
    assert "30.5" in json.dumps(server.chats[2]["messages"])


@needs("langchain", "langchain_openai")
def test_the_same_tools_in_langgraph(printed_by: Callable[[str, StubServer], str]) -> None:
    with calling([[SEARCH], [LOOK, ("look", {"time": [30]})], ANSWER]) as server:
        printed = printed_by("langgraph", server)
    assert printed.splitlines()[-1] == ANSWER
    offered = {each["function"]["name"]: each["function"] for each in server.chats[0]["tools"]}
    times = offered["look"]["parameters"]["properties"]["times"]
    assert "times of frames in seconds" in json.dumps(times)
    found, frames, _ = results(server.chats[2])
    assert found["result"]["lines"][0]["text"] == LINES[2].text
    assert [frame["time"] for frame in frames["result"]["frames"]] == [30.5, 31.5, 32.5]


@needs("verifiers", "uv")
def test_a_rollout_in_verifiers(folder: Path) -> None:
    """The page's environment, by the page's command: the library starts the tools and its harness, whose
    model calls them, and scores the reply."""
    program = SNIPPETS["verifiers"].replace("/videos/video.mp4", str(folder / "video.mp4"))
    (folder / "videos.py").write_text(program)
    called = [("video_toolset_subtitles", SEARCH[1])]
    programs = Path(sys.executable).parent
    with calling([called, ANSWER]) as server:
        command = VF_EVAL.replace("MODEL", "scripted", 1).replace("URL", server.url, 1)
        command = command.replace("PYTHONPATH=$PWD", f"PYTHONPATH=$PWD:{ROOT}", 1)
        paths = {"PATH": f"{programs}:{os.environ['PATH']}"}
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            env={**os.environ, **surroundings(server), **paths},
            capture_output=True,
            text=True,
            timeout=300,
        )
    assert done.returncode == 0, done.stderr
    first, second = server.chats
    names = {each["function"]["name"].removeprefix("video_toolset_") for each in first["tools"]}
    assert {"look", "read_text", "subtitles", "transcript"} == names
    (found,) = results(second)
    assert found["result"]["lines"][0]["text"] == LINES[2].text
    assert found["left"] == {"calls": 19}
    (file,) = folder.glob("rollouts/*/traces.jsonl")
    (trace,) = json.loads(file.read_text())["traces"]
    assert trace["errors"] == []
    assert trace["rewards"]["is_right"]["score"] == 1.0
