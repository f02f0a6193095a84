"""A tool as a Python function, for libraries that read names, annotations and docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

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

    function.__name__ = function.__qualname__ = described["name"]
    lines = [f"    {name}: {_parameter_doc(part)}" for name, part in parameters.items()]
    function.__doc__ = "\n".join([described["description"], "", "Args:", *lines])
    function.__signature__ = inspect.Signature(signature, return_annotation=returns)  # type: ignore[attr-defined]
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in signature}
    function.__annotations__["return"] = returns
    return function


def _annotation(part: Mapping[str, Any]) -> Any:
    kinds = [_type(option) for option in part.get("anyOf", (part,))]
    united = kinds[0]
    for kind in kinds[1:]:
        united = united | kind
    return united


def _type(part: Mapping[str, Any]) -> Any:
    if part.get("type") == "array":
        return list[_annotation(part.get("items", {}))]  # type: ignore[misc]
    return _TYPES.get(part.get("type", ""), Any)


def _parameter_doc(part: Mapping[str, Any]) -> str:
    text = part.get("description", {"string": "a text"}.get(part.get("type", ""), "a number"))
    return f"{text} (default: {part['default']})" if part.get("default", "") != "" else str(text)
