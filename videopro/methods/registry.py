"""Methods by name: `create("native", {"frames": 16})`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, get_args, get_type_hints

from videopro.cli import OptionFlags, did_you_mean, plain_type
from videopro.errors import ConfigError
from videopro.methods.base import Method
from videopro.methods.dvd import DvdMethod
from videopro.methods.lvagent import LvAgentMethod
from videopro.methods.native import NativeMethod
from videopro.methods.program.method import AdaptiveMethod, ProgramMethod, VideoProMethod
from videopro.methods.vca import VcaMethod
from videopro.methods.videoagent import VideoAgentMethod

METHODS: Mapping[str, type[Method]] = {
    method.name: method
    for method in (
        NativeMethod,
        ProgramMethod,
        AdaptiveMethod,
        VideoProMethod,
        VideoAgentMethod,
        DvdMethod,
        VcaMethod,
        LvAgentMethod,
    )
}


def create(name: str, options: Mapping[str, Any]) -> Method:
    """The method `name` with its options. Raises ConfigError for an unknown method or option."""
    return method_class(name).with_options(options)


def method_class(name: str) -> type[Method]:
    """The class of the method `name`. Raises ConfigError for an unknown one."""
    if name not in METHODS:
        raise ConfigError(f"unknown method {name!r}; {did_you_mean(name, list(METHODS))}")
    return METHODS[name]


def takes(name: str, key: str, value: Any) -> bool:
    """Whether a method has a setting and, for a preset, knows this one: agents have others than methods of
    programs."""
    method = method_class(name)
    if key not in {option.name for option in fields(method.Settings)}:
        return False
    return key != "preset" or value in get_args(plain_type(get_type_hints(method.Settings)[key]))


METHOD_OPTIONS = OptionFlags(
    {name: method.Settings for name, method in METHODS.items()},
    "method",
    default_choices=("native", "videopro"),
)
"""The options of `--method`, as flags of a command."""
