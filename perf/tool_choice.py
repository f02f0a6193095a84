"""Scores how well a model picks the tools of a video and their arguments, on perf/tool_requests.yaml.

    python -m perf.tool_choice --url http://localhost:8000/v1 --model MODEL

The model gets each request with all tools, and its first call counts. The tool is right if one of the calls
of the request is of that tool. The arguments are right if, besides, the tool accepts them, each one of the
call is there (texts with its words, times to a second, shares to 0.05), and none is there that the request
does not ask for, but for those that change only how much comes back (`top_k`, `side`, ...) or nothing at all.
The key of the server is taken from OPENAI_API_KEY.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import openai
import yaml

from perf import ROOT
from perf.command import run_command
from perf.recorded import table
from perf.recording import write_record
from videopro.cli import setting
from videopro.errors import ConfigError
from videopro.modules import ArgumentError
from videopro.modules.tools import TOOLS
from videopro.storage import InvalidJson, parse_json

REQUESTS = ROOT / "perf" / "tool_requests.yaml"
_INSTRUCTIONS = (
    "Answer requests about this video: {video}. Times are in seconds. Call the tool that serves the request."
)
_KINDS = ("right_tool", "right_arguments")
_AMOUNTS = ("top_k", "count", "side", "format", "threshold", "limit")
_SECONDS, _SHARE = 1.0, 0.05
"""How far a number may be off: a time, and the side of a box or a threshold."""


@dataclass(frozen=True)
class ToolChoiceSettings:
    """Score how well a model of an OpenAI-compatible server picks tools and arguments."""

    url: str = field(metadata=setting("address of the server, such as http://localhost:8000/v1"))
    model: str = field(metadata=setting("the model's name there"))
    requests: Path = field(default=REQUESTS, metadata=setting("file of requests"))
    output: Path = field(default=ROOT / "perf" / "tool_choice.json", metadata=setting("file for the results"))


Call = tuple[str, dict[str, Any]]


def read_requests(path: Path) -> tuple[dict[str, Any], dict[str, list[Call]]]:
    """The video, and the right calls of each request. Raises ConfigError."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        calls = {
            each["request"]: [call for one in each["calls"] for call in one.items()]
            for each in content["requests"]
        }
        return content["video"], calls
    except (OSError, yaml.YAMLError, LookupError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path}: is no file of requests ({error!r}); give one like {REQUESTS}") from error


def is_right(tool: str, given: Mapping[str, Any], wanted: Mapping[str, Any], duration: float) -> bool:
    """Whether the arguments of a call do what a request asks for."""
    try:
        checked = TOOLS[tool].checked(given)
    except ArgumentError:
        return False
    defaults = TOOLS[tool].arguments.model_fields
    whole: dict[str, Any] = {"start": 0, "end": duration, "box": [0, 0, 1, 1], "choices": []}
    for name, value in checked.items():
        if name in wanted:
            if not _is_close(value, wanted[name], _SECONDS if name in ("start", "end", "times") else _SHARE):
                return False
        # What says the same as leaving it out.
        elif name not in _AMOUNTS and value not in (defaults[name].default, whole.get(name)):
            return False
    return True


def _is_close(value: Any, wanted: Any, most: float) -> bool:
    if isinstance(wanted, str):
        return isinstance(value, str) and all(word in value.casefold() for word in wanted.casefold().split())
    if isinstance(wanted, list):
        return (
            isinstance(value, list)
            and len(value) == len(wanted)
            and all(_is_close(one, other, most) for one, other in zip(value, wanted, strict=True))
        )
    return isinstance(value, int | float) and abs(value - wanted) <= most


def first_call(client: openai.OpenAI, model: str, video: Mapping[str, Any], request: str) -> Call | None:
    """The first call that a model makes for a request; None if it makes none that can be read."""
    messages: Any = [
        {"role": "system", "content": _INSTRUCTIONS.format(video=dict(video))},
        {"role": "user", "content": request},
    ]
    tools: Any = [tool.schema for tool in TOOLS.values()]
    reply = client.chat.completions.create(model=model, messages=messages, tools=tools, temperature=0)
    calls: Any = reply.choices[0].message.tool_calls
    if not calls:
        return None
    try:
        arguments = parse_json(calls[0].function.arguments or "{}")
    except InvalidJson:
        arguments = None
    return calls[0].function.name, arguments if isinstance(arguments, dict) else {"": arguments}


def scored(request: str, right: Sequence[Call], given: Call | None, duration: float) -> dict[str, Any]:
    """What is recorded of a request."""
    tool, arguments = given or ("", {})
    same = [wanted for name, wanted in right if name == tool]
    return {
        "request": request,
        "wanted": right[0][0],
        "given": None if given is None else {tool: arguments},
        "right_tool": bool(same),
        "right_arguments": any(is_right(tool, arguments, each, duration) for each in same),
    }


def work(settings: ToolChoiceSettings) -> None:
    """Ask, score, print and record. Raises ConfigError."""
    video, requests = read_requests(settings.requests)
    client = openai.OpenAI(base_url=settings.url, api_key=os.environ.get("OPENAI_API_KEY", "none"))
    rows = []
    for request, right in requests.items():
        try:
            given = first_call(client, settings.model, video, request)
        except openai.OpenAIError as error:
            raise ConfigError(f"{settings.url}: {settings.model} gave no reply: {error}") from error
        rows.append(scored(request, right, given, video["duration"]))
    counts = {kind: sum(row[kind] for row in rows) for kind in _KINDS}
    print(table(("tool", "requests", "right tool", "right arguments"), [*_by_tool(rows)]))
    write_record(settings.output, {"model": settings.model, "requests": len(rows), **counts, "rows": rows})


def _by_tool(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    of_tool = {name: [row for row in rows if row["wanted"] == name] for name in TOOLS}
    of_tool["all"] = list(rows)
    return [
        [name, str(len(part)), *(str(sum(row[kind] for row in part)) for kind in _KINDS)]
        for name, part in of_tool.items()
    ]


if __name__ == "__main__":
    run_command(ToolChoiceSettings, work)
