"""The JSON Schema of each argument type of the modules."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import Any, Literal

from videopro.modules import calls
from videopro.modules.calls import ArgumentType, Parameter

ObjectKind = Literal["segment", "frame", "frames", "box"]
"""The kinds of arguments that name objects of the video."""


def _argument_type(hint: Any) -> ArgumentType:
    kind: ArgumentType = typing.get_args(hint)[1]
    return kind


_NUMBERS = {"type": "array", "items": {"type": "number"}}
_INTERVAL = {**_NUMBERS, "minItems": 2, "maxItems": 2}
_ONE_FRAME = [{"type": "string"}, {"type": "number"}]
_TEXTS = {"type": "array", "items": {"type": "string"}}

_SCHEMAS: Mapping[ArgumentType, Mapping[str, Any]] = {
    _argument_type(calls.Segment): {
        "anyOf": [{"type": "string"}, _INTERVAL],
        "description": 'the id of a clip or line, [start, end] in seconds, or "video" for all of it',
        "default": "video",
    },
    _argument_type(calls.SingleFrame): {
        "anyOf": _ONE_FRAME,
        "description": "the id of a frame, or a time in seconds",
    },
    _argument_type(calls.Frames): {
        "anyOf": [*_ONE_FRAME, {"type": "array", "items": {"anyOf": _ONE_FRAME}, "minItems": 1}],
        "description": "ids of frames, or times in seconds; of a clip or line, it means one frame a second",
    },
    _argument_type(calls.Text): {"type": "string", "minLength": 1},
    _argument_type(calls.OptionalText): {"type": "string"},
    _argument_type(calls.Count): {"type": "integer", "minimum": 1},
    _argument_type(calls.WordCount): {"type": "integer", "minimum": 1, "maximum": 3000},
    _argument_type(calls.FrameCount): {"type": "integer", "minimum": 1, "maximum": 1024},
    _argument_type(calls.Seconds): {"type": "number", "description": "seconds"},
    _argument_type(calls.PositiveSeconds): {
        "type": "number",
        "exclusiveMinimum": 0,
        "description": "seconds",
    },
    _argument_type(calls.UnitInterval): {"type": "number", "minimum": 0, "maximum": 1},
    _argument_type(calls.Choices): {**_TEXTS, "minItems": 2, "description": "the options, without letters"},
    _argument_type(calls.OptionalChoices): {**_TEXTS, "description": "the options, without letters"},
    _argument_type(calls.Box): {
        "anyOf": [{"type": "string"}, {**_NUMBERS, "minItems": 4, "maxItems": 4}],
        "description": "the id of a box, or [x0, y0, x1, y1] in pixels of the frame or all from 0 to 1",
    },
}
_OBJECT_KINDS: Mapping[ArgumentType, ObjectKind] = {
    _argument_type(calls.Segment): "segment",
    _argument_type(calls.SingleFrame): "frame",
    _argument_type(calls.Frames): "frames",
    _argument_type(calls.Box): "box",
}


def object_kind(parameter: Parameter) -> ObjectKind | None:
    """The kind of objects that an argument names, if it names any."""
    return _OBJECT_KINDS.get(parameter.kind)


def is_required(parameter: Parameter) -> bool:
    """Whether a tool call must pass it: what is to be searched is the whole video unless it says so."""
    return parameter.is_required and object_kind(parameter) != "segment"


def parameter_schema(parameter: Parameter) -> dict[str, Any]:
    """The JSON Schema of one parameter, with its default."""
    # Of a type that a module of the user's own brings, only what it says of itself is known.
    schema = dict(_SCHEMAS.get(parameter.kind, {"description": parameter.kind.accepts}))
    if not parameter.is_required and parameter.default not in (None, ()):
        schema["default"] = parameter.default
    return schema
