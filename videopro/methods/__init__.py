"""Methods by name: `create("native", {"frames": 16})`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from videopro.config import build, near
from videopro.errors import ConfigError
from videopro.methods.base import Context, Method, Result
from videopro.methods.native import Native

__all__ = ["METHODS", "Context", "Method", "Result", "create"]

METHODS: Mapping[str, type[Method]] = {method.name: method for method in (Native,)}


def create(name: str, options: Mapping[str, Any]) -> Method:
    """The method `name` with its options. Raises ConfigError for an unknown method or option."""
    if name not in METHODS:
        raise ConfigError(f"unknown method {name!r}; {near(name, list(METHODS))}")
    method = METHODS[name]
    return method(build(method.Settings, options, f"method {name}"))
