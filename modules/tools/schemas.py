"""What a language model is told of the tools, from the modules' annotations and docstrings: JSON Schema, or
Python functions for libraries that read names, annotations and docstrings.
"""

from __future__ import annotations

import functools
import inspect
import operator
import typing
from collections.abc import Callable, Mapping
from typing import Any

from videopro.modules.calls import (
    AnswerHandle,
    BoxHandle,
    ClipHandle,
    FrameHandle,
    HostHandle,
    LineHandle,
    Module,
    Parameter,
    TrackHandle,
    VideoHandle,
)
from videopro.modules.tools.objects import json_fields

_NOUNS: Mapping[type[HostHandle], tuple[str, str]] = {
    VideoHandle: ("a video", "videos"),
    ClipHandle: ("a clip", "clips"),
    LineHandle: ("a subtitle line", "subtitle lines"),
    FrameHandle: ("a frame", "frames"),
    BoxHandle: ("a box", "boxes"),
    TrackHandle: ("a track", "tracks"),
    AnswerHandle: ("an answer", "answers"),
}


def module_schema(module: Module) -> dict[str, Any]:
    """The tool of a module in the form of OpenAI's `tools`."""
    described = {"name": module.name, "description": module_description(module)}
    return {"type": "function", "function": {**described, "parameters": module_parameters(module)}}


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
        # What is to be searched is the whole video unless a call says so.
        "required": [each.name for each in parameters if each.is_required and each.kind.objects != "segment"],
        "additionalProperties": False,
    }


def parameter_schema(parameter: Parameter) -> dict[str, Any]:
    """The JSON Schema of one parameter, with its default."""
    schema = dict(parameter.kind.schema or {"description": parameter.kind.accepts})
    if not parameter.is_required and parameter.default not in (None, ()):
        schema["default"] = parameter.default
    return schema


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


_TYPES: Mapping[str, Any] = {"string": str, "number": float, "integer": int, "boolean": bool, "array": list}


def as_function(schema: Mapping[str, Any], call: Callable[..., Any], returns: Any) -> Callable[..., Any]:
    """The function of a tool's schema, with its signature and a docstring in Google's style. `call` gets the
    arguments that were passed; `returns` is what it returns."""
    described = schema["function"]
    parameters, required = described["parameters"]["properties"], described["parameters"]["required"]
    signature = [
        inspect.Parameter(
            name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=inspect.Parameter.empty if name in required else part.get("default"),
            annotation=_annotation(part),
        )
        for name, part in parameters.items()
    ]
    # Python wants the required ones first.
    signature.sort(key=lambda parameter: parameter.default is not inspect.Parameter.empty)

    def function(*args: Any, **keywords: Any) -> Any:
        bound = function.__signature__.bind(*args, **keywords)  # type: ignore[attr-defined]
        return call(**bound.arguments)

    # Some libraries read the signature, others the annotations, and some the docstring.
    function.__name__ = function.__qualname__ = described["name"]
    lines = [f"    {name}: {_parameter_doc(part)}" for name, part in parameters.items()]
    function.__doc__ = "\n".join([described["description"], "", "Args:", *lines])
    function.__signature__ = inspect.Signature(signature, return_annotation=returns)  # type: ignore[attr-defined]
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in signature}
    function.__annotations__["return"] = returns
    return function


def _annotation(part: Mapping[str, Any]) -> Any:
    return functools.reduce(operator.or_, map(_type, part.get("anyOf", (part,))))


def _type(part: Mapping[str, Any]) -> Any:
    if part.get("type") == "array":
        return list[_annotation(part.get("items", {}))]  # type: ignore[misc]
    return _TYPES.get(part.get("type", ""), Any)


def _parameter_doc(part: Mapping[str, Any]) -> str:
    text = part.get("description", {"string": "a text"}.get(part.get("type", ""), "a number"))
    return f"{text} (default: {part['default']})" if part.get("default", "") != "" else str(text)
