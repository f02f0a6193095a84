"""A tool, made of a function: its annotations and its docstring are the schema. And a call of one, which
knows what was looked at and found."""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from videopro.modules import ArgumentError, ModuleLibrary, VideoContext
from videopro.modules.calls import MODULES, OPEN_MODULES, CallContext, ClipHandle, FrameHandle, VideoHandle
from videopro.modules.errors import ModuleError, NotFoundError
from videopro.modules.tools.results import Evidence
from videopro.storage import first_mistake, parse_json
from videopro.traces import stretches

LONGEST_NAME = 100
_ARGUMENT_CHARS = 100_000
_DIGITS = 4


class Tell(Protocol):
    """Reports what is being done."""

    def __call__(self, doing: str, done: float | None = None, total: float | None = None) -> None:
        """`done` of `total`; None: how much there is to do is not known."""


@dataclass
class ToolCall:
    """One call: the video's modules for it, its images, and its evidence."""

    name: str
    context: VideoContext
    use_frames: Callable[[int], None]
    """As that of `ModuleLibrary`."""
    tell: Tell
    number: int
    images: list[dict[str, Any]] = field(default_factory=list)
    evidence: list[Evidence] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.library = ModuleLibrary(self.context, use_frames=self.use_frames)
        self.looking = CallContext(self.context, self.use_frames)
        """For frames that no module looks at."""

    @property
    def frames(self) -> list[dict[str, Any]]:
        """The frames that were looked at: times in seconds, boxes of crops as shares of the frame."""
        refs = [*self.looking.frame_refs, *(ref for made in self.library.calls for ref in made.frames)]
        return [
            {"time": ref[0], "box": [round(side, _DIGITS) for side in ref[3:7]] if len(ref) >= 7 else None}
            for ref in refs
        ]

    def module(self, name: str, *, is_open: bool = False, **arguments: Any) -> Any:
        """The result of a module; None if it finds nothing. Raises ModuleError in this tool's name: agents do
        not know the module."""
        modules = OPEN_MODULES if is_open else MODULES
        try:
            return self.library.function(modules[name])(**arguments)
        except NotFoundError:
            return None
        except ModuleError as error:
            raise type(error)(str(error).replace(f"{name}()", f"{self.name}()")) from error

    def found(self, kind: str, start: float, end: float, **details: Any) -> None:
        """Note a piece of evidence."""
        piece = {"kind": kind, "start": round(start, 3), "end": round(end, 3), **details}
        self.evidence.append(Evidence(**piece, source=f"call {self.number} {self.name}"))

    def looked(self, box: Sequence[float] | None = None) -> None:
        """Note the frames that were looked at as evidence."""
        for times in stretches(frame["time"] for frame in self.frames):
            time = times[0] if len(times) == 1 else None
            self.found("frames", times[0], times[-1], time=time, box=box)

    def frame(self, time: float, box: Sequence[float] | None = None) -> FrameHandle:
        """The frame at a time, or the part of it in a box of shares. Raises ArgumentError."""
        if not 0 <= time <= (end := self.context.handle.end):
            raise ArgumentError(f"{self.name}(): {time:g} s is outside the video (0 to {end:g} s)")
        whole = self.context.frame(time)
        if box is None:
            return whole
        x0, y0, x1, y1 = box
        if not (x0 < x1 and y0 < y1):
            raise ArgumentError(f"{self.name}(): box {list(box)} is empty; give x0 < x1 and y0 < y1")
        return whole.part(x0 * whole.width, y0 * whole.height, x1 * whole.width, y1 * whole.height)

    def part(self, start: float | None, end: float | None) -> VideoHandle | ClipHandle:
        """The video from `start` to `end`, cut to the video: models round its length up. Raises
        ArgumentError."""
        if start is None and end is None:
            return self.context.handle
        last = self.context.handle.end
        first, stop = start or 0.0, last if end is None else min(end, last)
        if not first < stop:
            raise ArgumentError(
                f"{self.name}(): {first:g} to {stop:g} s is empty; give start before end, within the video "
                f"(0 to {last:g} s)"
            )
        return self.context.clip(first, stop)


@dataclass(frozen=True)
class Tool:
    """A tool that agents may call."""

    name: str
    description: str
    arguments: type[BaseModel]
    run: Callable[..., Any]
    """Gets the call, and the checked arguments by name; gives plain JSON or a model."""
    need: str = ""
    """What it cannot work without: a part of a video's context, or "model"."""
    result: type[BaseModel] = BaseModel

    @property
    def parameters(self) -> dict[str, Any]:
        """The JSON Schema of the arguments."""
        schema = self.arguments.model_json_schema(schema_generator=_PlainSchema)
        # As OpenAI's form has it, there too where nothing is required.
        return {"type": "object", "properties": {}, "required": [], **schema}

    @property
    def schema(self) -> dict[str, Any]:
        """The tool in the form of OpenAI's `tools`."""
        described = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": described}

    def checked(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments converted, with defaults. Raises ArgumentError, in one line for a model to read."""
        known = self.arguments.model_fields
        if unknown := [repr(name[:LONGEST_NAME]) for name in given if name not in known]:
            takes = ", ".join(known) or "no arguments"
            raise ArgumentError(f"{self.name}() takes no {', '.join(unknown[:5])}; it takes {takes}")
        try:
            # Models write null for what they leave out.
            values = self.arguments(**{name: value for name, value in given.items() if value is not None})
        except ValidationError as error:
            raise ArgumentError(f"{self.name}(): {first_mistake(error)}") from None
        return {name: getattr(values, name) for name in known}


def tool_of(function: Callable[..., Any], need: str = "", **first: Any) -> Tool:
    """The tool of a function, whose first parameter is the call. `first`: further arguments before its own,
    as `create_model` takes them."""
    name, hints = function.__name__, typing.get_type_hints(function, include_extras=True)
    _, *parameters = inspect.signature(function).parameters.values()
    own = {
        each.name: (hints[each.name], ... if each.default is each.empty else each.default)
        for each in parameters
    }
    model: Any = create_model(name, __config__=ConfigDict(extra="forbid"), **{**first, **own})
    description = " ".join((function.__doc__ or "").split())
    return Tool(name, description, model, function, need, hints["return"])


class _PlainSchema(GenerateJsonSchema):
    """Without what costs tokens and says nothing: titles, and that what may be left out may be null."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def nullable_schema(self, schema: Any) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: Any) -> JsonSchemaValue:
        inner = super().default_schema(schema)
        return {name: value for name, value in inner.items() if name != "default" or value not in (None, ())}

    def model_schema(self, schema: Any) -> JsonSchemaValue:
        inner = super().model_schema(schema)
        return {name: value for name, value in inner.items() if name not in ("title", "description")}


def as_function(tool: Tool, call: Callable[..., Any], returns: Any) -> Callable[..., Any]:
    """The tool as a Python function for libraries that read signatures, annotations or docstrings. `call`
    gets the arguments that were passed; `returns` is the annotation of what it returns."""
    signature = inspect.signature(tool.arguments).replace(return_annotation=returns)

    def function(**arguments: Any) -> Any:
        return call(**arguments)

    function.__name__ = function.__qualname__ = tool.name
    properties = tool.parameters["properties"].items()
    lines = [f"    {name}: {part.get('description', name)}" for name, part in properties]
    function.__doc__ = "\n".join([tool.description, "", "Args:", *lines])
    function.__signature__ = signature  # type: ignore[attr-defined]
    function.__annotations__ = {name: each.annotation for name, each in signature.parameters.items()}
    function.__annotations__["return"] = returns
    return function


def read_arguments(arguments: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """The arguments of a call as JSON; or none, and why they are too many, too long, or none that JSON can
    hold."""
    try:
        text = json.dumps(arguments, ensure_ascii=False)
        if len(text) <= _ARGUMENT_CHARS:
            return parse_json(text), ""
        return {}, f"the arguments have {len(text):,} characters; give at most {_ARGUMENT_CHARS:,}"
    except (TypeError, ValueError, RecursionError) as error:
        return {}, f"the arguments hold what JSON cannot ({error}); give texts, finite numbers and lists"
