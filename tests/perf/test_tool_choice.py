"""The requests of perf.tool_choice are served by their calls, and right calls are told from wrong ones."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from perf.tool_choice import REQUESTS, ToolChoiceSettings, is_right, read_requests, work
from tests.support.stub_server import StubServer, completion
from videopro.modules.tools import TOOLS

VIDEO, CALLS = read_requests(REQUESTS)


def test_every_request_names_offered_tools_and_valid_arguments() -> None:
    assert len(CALLS) == 40
    assert {tool for calls in CALLS.values() for tool, _ in calls} == set(TOOLS)
    for calls in CALLS.values():
        for tool, arguments in calls:
            jsonschema.validate(arguments, TOOLS[tool].parameters)
            assert is_right(tool, arguments, arguments, VIDEO["duration"])
            times = [*arguments.get("times", []), arguments.get("start", 0), arguments.get("end", 0)]
            assert all(0 <= time <= VIDEO["duration"] for time in times)


@pytest.mark.parametrize(
    ("given", "right"),
    [
        ({"query": "a Dog", "end": 120}, True),
        ({"query": "dog", "end": "120.5", "top_k": 9, "start": 0}, True),
        ({"query": "dog", "start": None, "end": 120}, True),
        ({"query": "dog"}, False),
        ({"query": "dog", "end": 125}, False),
        ({"query": "cat", "end": 120}, False),
        ({"query": "dog", "end": 120, "start": 60}, False),
        ({"query": "dog", "end": 120, "minute": 2}, False),
        ({"end": 120}, False),
    ],
)
def test_arguments_are_right_if_they_do_what_is_asked(given: dict[str, Any], right: bool) -> None:
    assert is_right("search", given, {"query": "dog", "end": 120}, 1200.0) is right


def test_lists_boxes_and_whole_videos_are_compared() -> None:
    look = {"times": [40], "box": [0, 0, 0.5, 1]}
    assert is_right("look", {"times": [40.2], "box": [0, 0.02, 0.5, 1]}, look, 1200.0)
    assert not is_right("look", {"times": [40, 41], "box": [0, 0, 0.5, 1]}, look, 1200.0)
    assert not is_right("look", {"times": [40], "box": [0, 0, 1, 1]}, look, 1200.0)
    assert is_right("look", {"times": [40], "box": [0, 0, 1, 1]}, {"times": [40]}, 1200.0)
    assert is_right("transcript", {"start": 0, "end": 1200}, {}, 1200.0)
    assert not is_right("transcript", {"end": 600}, {}, 1200.0)
    assert not is_right("look", {}, {"count": 16}, 1200.0)


def test_a_model_is_scored_by_its_first_calls(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It searches for a dog whatever is asked, but reads signs, and once answers in words."""

    def reply(body: dict[str, Any]) -> dict[str, Any]:
        request = body["messages"][-1]["content"]
        if "transcript" in request:
            return completion("It says nothing.", None)
        name, arguments = "search", '{"query": "dog", "end": 120}'
        if "sign" in request:
            name, arguments = "read_text", '{"times": [75'
        call = {"id": "1", "type": "function", "function": {"name": name, "arguments": arguments}}
        return completion(None, None, finish="tool_calls", message={"tool_calls": [call]})

    output = tmp_path / "scores.json"
    with StubServer(reply, models=None) as server:
        work(ToolChoiceSettings(url=server.url, model="stub", output=output))
        names = {each["function"]["name"] for each in server.chats[0]["tools"]}
    assert names == set(TOOLS)
    wanted = Counter(calls[0][0] for calls in CALLS.values())
    record = json.loads(output.read_text())
    # All searches and the sign have the right tool, and the dog alone the right arguments.
    scores = {name: record[name] for name in ("model", "requests", "right_tool", "right_arguments")}
    assert scores == {
        "model": "stub",
        "requests": 40,
        "right_tool": wanted["search"] + 1,
        "right_arguments": 1,
    }
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "| tool | requests | right tool | right arguments |"
    assert f"| search | {wanted['search']} | {wanted['search']} | 1 |" in lines
    assert lines[-1] == f"| all | 40 | {wanted['search'] + 1} | 1 |"
    by_request = {row["request"]: row["given"] for row in record["rows"]}
    assert by_request["Give me the full transcript."] is None
