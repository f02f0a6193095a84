"""Methods by name or file: `create("native", {"frames": 16})`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, get_args, get_type_hints

from videopro.cli import OptionFlags, plain_type
from videopro.methods.base import Method
from videopro.methods.dvd import DvdMethod
from videopro.methods.lvagent import LvAgentMethod
from videopro.methods.native import NativeMethod
from videopro.methods.program.method import AdaptiveMethod, ProgramMethod, VideoProMethod
from videopro.methods.vca import VcaMethod
from videopro.methods.videoagent import VideoAgentMethod
from videopro.plugins import Registry

_OURS: Mapping[str, type[Method]] = {
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
METHODS: Registry[type[Method]] = Registry(
    "method",
    lambda value: isinstance(value, type) and issubclass(value, Method) and hasattr(value, "name"),
    _OURS,
    what="a subclass of Method (videopro.methods) with a name",
)


def create(name: str, options: Mapping[str, Any]) -> Method:
    """The method `name` with its options. Raises ConfigError for an unknown method or option."""
    return METHODS[name].with_options(options)


def takes(name: str, key: str, value: Any) -> bool:
    """Whether a method has a setting and, for a preset, this value: agents have other presets than methods of
    programs."""
    method = METHODS[name]
    if key not in {option.name for option in fields(method.Settings)}:
        return False
    return key != "preset" or value in get_args(plain_type(get_type_hints(method.Settings)[key]))


METHOD_OPTIONS = OptionFlags(
    {name: method.Settings for name, method in _OURS.items()},
    "method",
    default_choices=("native", "videopro"),
    find=lambda name: METHODS[name].Settings if name in METHODS else None,
)
"""The options of `--method`, as flags of a command."""
