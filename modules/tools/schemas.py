"""What a language model is told of the tools: JSON Schema, from the modules' annotations and docstrings."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import Any

from videopro.modules.calls import (
    AnswerHandle,
    BoxHandle,
    ClipHandle,
    FrameHandle,
    HostHandle,
    LineHandle,
    Module,
    TrackHandle,
    VideoHandle,
)
from videopro.modules.tools.objects import json_fields
from videopro.modules.tools.parameters import is_required, parameter_schema

_NOUNS: Mapping[type[HostHandle], tuple[str, str]] = {
    VideoHandle: ("a video", "videos"),
    ClipHandle: ("a clip", "clips"),
    LineHandle: ("a subtitle line", "subtitle lines"),
    FrameHandle: ("a frame", "frames"),
    BoxHandle: ("a box", "boxes"),
    TrackHandle: ("a track", "tracks"),
    AnswerHandle: ("an answer", "answers"),
}


def tool_schema(name: str, description: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """A tool in the form of OpenAI's `tools`."""
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


def module_schema(module: Module) -> dict[str, Any]:
    """The tool of a module."""
    return tool_schema(module.name, module_description(module), module_parameters(module))


def module_parameters(module: Module) -> dict[str, Any]:
    """The JSON Schema of a module's parameters."""
    parameters = [
        parameter
        for parameter in module.parameters
        if parameter.kind.is_documented and not parameter.is_var_keyword
    ]
    return {
        "type": "object",
        "properties": {parameter.name: parameter_schema(parameter) for parameter in parameters},
        "required": [parameter.name for parameter in parameters if is_required(parameter)],
        "additionalProperties": False,
    }


def module_description(module: Module) -> str:
    """What a module does, as planners read it, and what its tool returns. The docstring's own words about
    that are of Python, unless the result is text or numbers."""
    returned = typing.get_type_hints(module.function).get("return")
    kind = _object_in(returned)
    if kind is None:
        text = " ".join(module.returns.split())
    else:
        several = typing.get_origin(returned) in (list, tuple)
        one, many = _NOUNS[kind]
        text = f"{f'a list of {many}, each' if several else one} as JSON: {', '.join(json_fields(kind))}."
    return " ".join(module.doc.split()) + (f" Returns {text}" if text else "")


def _object_in(hint: Any) -> type[HostHandle] | None:
    """The objects that a type consists of, if it has some."""
    if isinstance(hint, type) and issubclass(hint, HostHandle):
        return hint
    return next((kind for part in typing.get_args(hint) if (kind := _object_in(part))), None)
