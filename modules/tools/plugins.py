"""Modules of plug-ins as tools: a frame is a time, a clip [start, end], and a result plain JSON."""

from __future__ import annotations

import math
import operator
import typing
from collections.abc import Mapping
from functools import partial, reduce
from typing import Annotated, Any

from pydantic import ConfigDict, Field, PydanticUserError, TypeAdapter, WithJsonSchema, create_model

from videopro.modules.calls import ClipHandle, FrameHandle, HostHandle, Module, VideoHandle, show
from videopro.modules.calls.arguments import MAX_FRAMES_PER_CALL
from videopro.modules.tools.calling import Tool, ToolCall
from videopro.storage import encodable

# In a program they are there for habit's sake; in JSON they cost an agent's tokens.
_SECOND_NAMES = ("timestamp", "size")
_DIGITS = 4


def _numbers(least: int, most: int, description: str) -> Any:
    return Annotated[list[float], Field(min_length=least, max_length=most, description=description)]


_FRAME, _FRAMES, _SEGMENT = FrameHandle, tuple[FrameHandle, ...], VideoHandle | ClipHandle
_IN_JSON: Mapping[Any, Any] = {
    _FRAME: Annotated[float, Field(description="time of the frame in seconds")],
    _FRAMES: _numbers(1, MAX_FRAMES_PER_CALL, "times of the frames in seconds"),
    _SEGMENT: _numbers(2, 2, "[start, end] in seconds; default: the whole video"),
    tuple[float, float, float, float]: _numbers(4, 4, "[x0, y0, x1, y1] in pixels, or as shares, 0 to 1"),
}


def plugin_tool(module: Module) -> Tool:
    """The tool of a plug-in's module."""
    hints = {name: _present(hint) for name, hint in typing.get_type_hints(module.function).items()}
    fields: dict[str, Any] = {}
    for each in module.parameters:
        if each.kind.is_documented and not each.is_var_keyword:
            default = None if hints[each.name] == _SEGMENT else ...
            fields[each.name] = (
                _IN_JSON.get(hints[each.name]) or _checked_by_module(hints[each.name], each.kind.accepts),
                default if each.is_required else each.default,
            )
    model = create_model(module.name, __config__=ConfigDict(extra="forbid"), **fields)
    description = f"{module.doc} {module.returns and f'Returns {module.returns}'}"
    return Tool(module.name, " ".join(description.split()), model, partial(_run, module, hints))


def _present(hint: Any) -> Any:
    """A type without None, which JSON leaves out."""
    parts = [part for part in typing.get_args(hint) if part is not type(None)]
    return reduce(operator.or_, parts) if type(None) in typing.get_args(hint) else hint


def _checked_by_module(hint: Any, accepts: str) -> Any:
    try:
        schema = TypeAdapter(hint).json_schema()
    except PydanticUserError:
        schema = {"description": accepts}
    return Annotated[Any, WithJsonSchema(schema)]


def _run(module: Module, hints: Mapping[str, Any], call: ToolCall, /, **values: Any) -> Any:
    for name, value in values.items():
        hint = hints.get(name)
        if hint == _SEGMENT:
            values[name] = call.part(*(value or (None, None)))
        elif hint in (_FRAME, _FRAMES) and value is not None:
            values[name] = call.frame(value) if hint == _FRAME else [call.frame(time) for time in value]
    result = call.library.function(module)(**values)
    call.looked()
    return as_json(result)


def as_json(value: Any) -> Any:
    """A result as JSON: objects of the video as their fields."""
    if isinstance(value, HostHandle):
        value = {name: getattr(value, name) for name in value.__program_fields__ if name not in _SECOND_NAMES}
    match value:
        case Mapping():
            return {str(name): as_json(part) for name, part in value.items()}
        case list() | tuple():
            return [as_json(part) for part in value]
        case float():
            # JSON has no NaN and no infinity.
            return round(value, _DIGITS) if math.isfinite(value) else None
        case str():
            return encodable(value)
        case None | bool() | int():
            return value
    return show(value)
