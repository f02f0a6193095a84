"""Methods by name: `create("native", {"frames": 16})`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from videopro.errors import ConfigError
from videopro.methods.base import Context, Method, Result
from videopro.methods.native import Native
from videopro.methods.program import FALLBACK_HELP, FINAL_HELP, Adaptive, Program, VideoPro
from videopro.modules.calls.registry import REMOVABLE
from videopro.settings import about, build, near

__all__ = ["METHODS", "Context", "Method", "Result", "ShortFlags", "create"]

METHODS: Mapping[str, type[Method]] = {
    method.name: method for method in (Native, Program, Adaptive, VideoPro)
}


def create(name: str, options: Mapping[str, Any]) -> Method:
    """The method `name` with its options. Raises ConfigError for an unknown method or option."""
    return _method(name)(build(_method(name).Settings, options, f"method {name}"))


def _method(name: str) -> type[Method]:
    if name not in METHODS:
        raise ConfigError(f"unknown method {name!r}; {near(name, list(METHODS))}")
    return METHODS[name]


@dataclass(frozen=True, kw_only=True)
class ShortFlags:
    """Settings of methods that are asked for often enough to have flags of their own: `--tau 0.8` says the
    same
    as `--options tau=0.8`. None: not given."""

    planner: str | None = field(
        default=None, metadata=about("who writes programs: self, pocket-teacher, api:MODEL or api:MODEL@URL")
    )
    planner_frames: int | None = field(
        default=None, metadata=about("frames in the planner's prompt; 0: none")
    )
    tau: float | None = field(default=None, metadata=about("a confidence below it asks for a refinement"))
    max_rounds: int | None = field(default=None, metadata=about("refinements of a question at most"))
    refine_below: float | None = field(
        default=None, metadata=about("store refinements up to this confidence, for other tau")
    )
    final: str | None = field(default=None, metadata=about(FINAL_HELP))
    fallback: str | None = field(default=None, metadata=about(FALLBACK_HELP))
    without: tuple[str, ...] | None = field(
        default=None,
        metadata=about(f"groups of modules that programs do without: {', '.join(REMOVABLE)} (Table 3)"),
    )

    def method_options(self, method: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options of a method with what the flags say. Raises ConfigError for an unknown method, a flag
        that
        the method does not have, or one that says something else than an option."""
        known = {one.name for one in fields(_method(method).Settings)}
        given = self.flags_given()
        for name, value in given.items():
            flag = f"--{name.replace('_', '-')}"
            if name not in known:
                having = [
                    m.name for m in METHODS.values() if name in {one.name for one in fields(m.Settings)}
                ]
                raise ConfigError(f"{flag}: method {method!r} has none; methods with it: {', '.join(having)}")
            if name in options and options[name] != value:
                raise ConfigError(f"{flag} is {value!r}, and --options says {name}={options[name]!r}")
        return {**options, **given}

    def flags_given(self) -> dict[str, Any]:
        """The flags that were given, by the name of the setting."""
        every = {one.name: getattr(self, one.name) for one in fields(ShortFlags)}
        return {name: value for name, value in every.items() if value is not None}
