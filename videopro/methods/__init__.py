"""The ways to answer: methods by name, how a run of one is prepared, and their flags."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from videopro.cli import setting
from videopro.errors import ConfigError
from videopro.methods.agents import PRESET_HELP
from videopro.methods.base import Method, MethodContext, answer_each
from videopro.methods.preparing import PreparedRun, prepare
from videopro.methods.program.method import AdaptiveMethod
from videopro.methods.program.settings import (
    ANSWERER_HELP,
    FALLBACK_HELP,
    FINAL_HELP,
    PLANNER_FRAMES_HELP,
    PLANNER_HELP,
    PROMPTS_HELP,
)
from videopro.methods.registry import METHODS, create, method_class, setting_names, takes
from videopro.methods.requests import Adaptation, Questions, RunRequest
from videopro.methods.tracing import make_trace, versions, video_ref
from videopro.modules import PAPER_HELP
from videopro.modules.calls import REMOVABLE

__all__ = [
    "ANSWERER_HELP",
    "AdaptiveMethod",
    "Adaptation",
    "FALLBACK_HELP",
    "FINAL_HELP",
    "METHODS",
    "Method",
    "MethodContext",
    "MethodFlags",
    "PreparedRun",
    "Questions",
    "RunRequest",
    "answer_each",
    "create",
    "make_trace",
    "prepare",
    "takes",
    "versions",
    "video_ref",
]

FLAGS_GROUP = "Programs and agents"
"""The heading of these flags in --help."""


@dataclass(frozen=True, kw_only=True)
class MethodFlags:
    """Common settings of methods, as flags: `--tau 0.8` is the same as `--options tau=0.8`. None: not set."""

    planner: str | None = field(
        default=None,
        metadata=setting(PLANNER_HELP, group=FLAGS_GROUP),
    )
    answerer: str | None = field(default=None, metadata=setting(ANSWERER_HELP, group=FLAGS_GROUP))
    prompts: str | None = field(default=None, metadata=setting(PROMPTS_HELP, group=FLAGS_GROUP))
    planner_frames: int | None = field(default=None, metadata=setting(PLANNER_FRAMES_HELP, group=FLAGS_GROUP))
    tau: float | None = field(
        default=None, metadata=setting("refine answers with a confidence below this", group=FLAGS_GROUP)
    )
    max_rounds: int | None = field(
        default=None,
        metadata=setting(
            "at most this many refinements of a question; of an agent: rounds before it answers",
            group=FLAGS_GROUP,
        ),
    )
    refine_below: float | None = field(
        default=None,
        metadata=setting("store refinements up to this confidence, for other tau", group=FLAGS_GROUP),
    )
    final: str | None = field(default=None, metadata=setting(FINAL_HELP, group=FLAGS_GROUP))
    fallback: str | None = field(default=None, metadata=setting(FALLBACK_HELP, group=FLAGS_GROUP))
    preset: str | None = field(
        default=None,
        metadata=setting(
            f"settings of an agent; {PRESET_HELP}. Methods of programs: {PAPER_HELP}", group=FLAGS_GROUP
        ),
    )
    without: tuple[str, ...] | None = field(
        default=None,
        metadata=setting(
            f"groups of modules to leave out: {', '.join(REMOVABLE)} (Table 3)", group=FLAGS_GROUP
        ),
    )

    def options_with_flags(self, method: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options of a method with the given flags. Raises ConfigError for an unknown method, a flag that
        the method does not have, or a flag that contradicts an option."""
        known = setting_names(method_class(method))
        given = self.given_flags()
        for name, value in given.items():
            flag = f"--{name.replace('_', '-')}"
            if name not in known:
                having = [other.name for other in METHODS.values() if name in setting_names(other)]
                raise ConfigError(
                    f"{flag}: method {method!r} has no such setting; methods that have it: "
                    f"{', '.join(having)}"
                )
            if name in options and options[name] != value:
                raise ConfigError(f"{flag} is {value!r}, and --options says {name}={options[name]!r}")
        return {**options, **given}

    def given_flags(self) -> dict[str, Any]:
        """The flags that were given, by the name of the setting."""
        values = {flag.name: getattr(self, flag.name) for flag in fields(MethodFlags)}
        return {name: value for name, value in values.items() if value is not None}
