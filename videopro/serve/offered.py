"""What a client may set of a question: its method, and the options that their settings offer to clients
(`setting(..., client=...)`), none of them beyond what the operator has."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from typing import Any

from videopro.cli import did_you_mean, plain_type
from videopro.methods import METHODS, Method
from videopro.serve.problems import Problem

_NUMBERS: Mapping[Any, str] = {int: "integer", float: "number"}
_LARGEST = 1e9
"""Where the operator has no limit."""


class Offered:
    """The methods that a client may name, and the values of their options."""

    def __init__(self, own: Method, methods: Sequence[str], frames: Callable[[], int]) -> None:
        """`own`: the server's method with the operator's options. `methods`: those that a client may name
        besides; none: all. `frames`: the model's budget."""
        self._own = own
        named = [name for name in METHODS.ours() if not methods or name in methods] + list(methods)
        self._kinds: dict[str, type[Method]] = {name: METHODS[name] for name in named} | {own.name: type(own)}
        self._methods = list(self._kinds)
        self._frames = frames

    def described(self) -> list[dict[str, Any]]:
        """The methods with their options, each as JSON Schema."""
        return [
            {
                "id": name,
                "open_questions": kind.answers_open_questions,
                "options": [self._described(name, option) for option in _settable(kind)],
            }
            for name, kind in self._kinds.items()
        ]

    def checked(self, method: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options that are set. Raises Problem for a method or an option that a client may not name, and
        for a value above the operator's."""
        if method not in self._methods:
            message = f"unknown method {method[:60]!r}; {did_you_mean(method, self._methods)}"
            if method in METHODS.ours():
                message = f"method {method!r} is not offered here; these are: {', '.join(self._methods)}"
            raise Problem(400, message, code="unknown_method", param="videopro.method")
        settable = {option.name: option for option in _settable(self._kinds[method])}
        for name, value in options.items():
            param = f"videopro.options.{name}"
            if name not in settable:
                if name in {option.name for option in fields(self._kinds[method].Settings)}:
                    message = f"option {name!r} of method {method!r} is the operator's to set: leave it out"
                    raise Problem(403, message, code="operators_option", param=param)
                known = did_you_mean(name, sorted(settable))
                message = f"method {method!r} has no option {name[:60]!r}; {known}"
                raise Problem(400, message, code="unknown_option", param=param)
            kind = self._described(method, settable[name])
            most = min(kind.get("maximum", _LARGEST), _LARGEST)
            # A text that is a number would be read as one.
            if isinstance(value, str) and "enum" not in kind:
                raise Problem(400, f"option {name!r} is a text; it must be a number", param=param)
            if isinstance(value, int | float) and not -_LARGEST <= value <= most:
                message = f"option {name!r} is {str(value)[:20]}; at most {most:g} is offered here"
                raise Problem(400, message, code="above_limit", param=param)
        return {name: value for name, value in options.items() if value is not None}

    def _described(self, method: str, option: Field[Any]) -> dict[str, Any]:
        value = None if option.default is MISSING else option.default
        if method == self._own.name:
            value = getattr(self._own.settings, option.name)
        most = None if option.metadata["client"] == "any" else value
        if option.metadata["client"] == "frames" and value is None:
            most = self._frames()
        kind = _kind(typing.get_type_hints(self._kinds[method].Settings)[option.name])
        described = {"name": option.name, "description": option.metadata["help"], "default": value, **kind}
        return described if most is None else {**described, "maximum": most}


def _settable(method: type[Method]) -> Iterator[Field[Any]]:
    settings: Any = method.Settings
    return (option for option in fields(settings) if option.metadata.get("client"))


def _kind(hint: Any) -> dict[str, Any]:
    """The JSON Schema of a number or a choice."""
    plain = plain_type(hint)
    return {"type": _NUMBERS[plain]} if plain in _NUMBERS else {"enum": list(typing.get_args(plain))}
