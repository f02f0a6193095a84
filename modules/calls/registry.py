"""The registry of modules: decorate a function with `@module(...)` to add one.

    @module(family="extraction", needs=("ocr",))
    def read_signs(context: CallContext, frame: SingleFrame, language: Text = "en") -> str:
        \"\"\"What planners must know. It becomes the API reference.\"\"\"

The function's first parameter is the call's context; the others are annotated with types of
`videopro.modules.calls.arguments`. Planners read its name, signature and docstring. A call's arguments are
bound to the parameters, and checked, before the function runs.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from videopro.modules.calls.arguments import ArgumentType, Scope
from videopro.modules.calls.handles import show
from videopro.modules.errors import ArgumentError

F = TypeVar("F", bound=Callable[..., Any])

FAMILIES: Mapping[str, str] = {
    "retrieval": "Multimodal retrieval",
    "localization": "Temporal localization",
    "extraction": "Fine-grained extraction",
    "context": "Global context",
    "answering": "Reasoning and answers",
}
"""The module families of section 3.2, in the order of the API reference."""

REMOVABLE = tuple(family for family in FAMILIES if family != "answering")
"""Families that a run can leave out (Table 3); without "answering" there would be no answer."""

NEEDS: Mapping[str, str] = {
    "index": "no clip index was made for this video",
    "subtitles": "this video has no subtitles",
    "ocr": "no OCR model is set up",
    "detector": "no object detector is set up",
    "tracker": "no object tracker is set up",
}
"""What a module may need from a video's context, and the message if it is missing."""

ALIASES: Mapping[str, str] = {"video_path": "video", "k": "top_k", "frame_list": "frames"}
"""Other names of keywords that every module accepts: the paper's listing, figures and release differ in
them."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of a module."""

    name: str
    kind: ArgumentType
    default: Any = inspect.Parameter.empty
    is_var_keyword: bool = False
    """Whether it collects all other keywords (`**name`)."""

    @property
    def is_required(self) -> bool:
        """Whether a call must pass it."""
        return self.default is inspect.Parameter.empty and not self.is_var_keyword


def parameters(function: Callable[..., Any]) -> tuple[Parameter, ...]:
    """The parameters of a module in order, without the first one (the call's context). Raises TypeError for a
    parameter that is not annotated with an argument type."""
    hints = typing.get_type_hints(function, include_extras=True)
    checked = []
    # The first is the context of the call, which no program passes.
    context, *remaining = inspect.signature(function).parameters.values()
    if _argument_type(hints.get(context.name)) is not None:
        raise TypeError(
            f"module {function.__name__}: its first parameter must be the call's context; put one before "
            f"{context.name!r}"
        )
    for parameter in remaining:
        kind = _argument_type(hints.get(parameter.name))
        if kind is None:
            raise TypeError(
                f"module {function.__name__}: parameter {parameter.name!r} must have an argument type"
            )
        is_var_keyword = parameter.kind is inspect.Parameter.VAR_KEYWORD
        checked.append(Parameter(parameter.name, kind, parameter.default, is_var_keyword))
    return tuple(checked)


def _argument_type(hint: Any) -> ArgumentType | None:
    # `Text | None`: the annotation is on a part.
    is_union = typing.get_origin(hint) in (types.UnionType, typing.Union)
    found = map(_argument_type, typing.get_args(hint)) if is_union else getattr(hint, "__metadata__", ())
    return next((kind for kind in found if isinstance(kind, ArgumentType)), None)


@dataclass(frozen=True)
class Module:
    """A function that programs may call."""

    name: str
    function: Callable[..., Any]
    family: str
    parameters: tuple[Parameter, ...]
    returns: str
    """The docstring's text after "Returns"."""
    needs: tuple[str, ...]
    is_cached: bool
    """Whether equal calls may reuse a result."""
    doc: str
    is_documented: bool = True
    """Whether the API reference has it; False for names that only programs of other releases use."""

    @property
    def signature(self) -> str:
        """The call's signature as in the API reference: "trim_frames(video, start, end, num_frames=64)"."""
        shown = []
        for parameter in self.parameters:
            if parameter.is_var_keyword:
                shown.append(f"**{parameter.name}")
            elif parameter.kind.is_documented:
                default = "" if parameter.is_required else f"={parameter.default!r}"
                shown.append(f"{parameter.name}{default}")
        return f"{self.name}({', '.join(shown)})"


MODULES: dict[str, Module] = {}
"""Our modules by name; for an open question, those of OPEN_MODULES take the place of theirs."""
OPEN_MODULES: dict[str, Module] = {}
"""The forms that modules have for open questions, which have no options, by name."""
PLUGIN_MODULES: dict[str, Module] = {}
"""Modules of plug-ins that this process has loaded: programs may call those in `extra_modules`."""


def modules_for(*, is_open: bool) -> Mapping[str, Module]:
    """The modules by name for questions with options, or for open ones."""
    return {**MODULES, **OPEN_MODULES} if is_open else MODULES


def module(
    *,
    family: str,
    needs: Sequence[str] = (),
    cache: bool = True,
    open_form_of: str = "",
    documented: bool = True,
) -> Callable[[F], F]:
    """Register a function as a module and return it unchanged.

    `family` is a key of FAMILIES; `needs` are keys of NEEDS. Set `cache` to False for a module that is
    cheaper to run than to look up, or whose result varies; `documented` to False for one that planners do not
    read of. `open_form_of` names the module that this function replaces if the question is open. Raises
    ValueError for a name that is taken, an unknown family or need, or a missing docstring; TypeError for a
    parameter without an argument type.
    """
    if family not in FAMILIES:
        raise ValueError(f"unknown family {family!r}; choose from {', '.join(FAMILIES)}")
    unknown = [need for need in needs if need not in NEEDS]
    if unknown:
        raise ValueError(f"unknown need {unknown[0]!r}; choose from {', '.join(NEEDS)}")

    def add(function: F) -> F:
        # The same name in a program, whatever the question: planners know one API.
        name = open_form_of or function.__name__
        # A plug-in's module is offered only where a run names it.
        is_ours = function.__module__.startswith(f"{__name__.partition('.calls.')[0]}.")
        register = PLUGIN_MODULES if not is_ours else OPEN_MODULES if open_form_of else MODULES
        # Of two plug-ins, the settings say which is meant; a file that was changed may be loaded again.
        taken = register if is_ours else MODULES
        if name in taken:
            raise ValueError(
                f"a module named {name!r} is already registered, by {taken[name].function.__module__}"
            )
        register[name] = module_of(
            function, family=family, needs=needs, cache=cache, name=name, documented=documented
        )
        return function

    return add


def module_of(
    function: Callable[..., Any],
    *,
    family: str,
    needs: Sequence[str] = (),
    cache: bool = True,
    name: str = "",
    documented: bool = True,
) -> Module:
    """The module of a function, which is not registered: programs do not see it. As `module`."""
    name = name or function.__name__
    doc = inspect.getdoc(function)
    if not doc:
        raise ValueError(f"module {name!r} needs a docstring: planners read it")
    # Separate, since the compact reference shows how each of the two begins.
    summary, _, returns = doc.partition("\nReturns ")
    return Module(
        name,
        function,
        family,
        parameters(function),
        returns.strip(),
        tuple(needs),
        cache,
        summary.strip(),
        documented,
    )


def bind_arguments(module: Module, args: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call by name, not yet checked, with defaults filled in. Raises ArgumentError for a
    call that does not fit the signature."""
    # Not `inspect.Signature.bind`: planners read the messages, which say how the call is written.
    name, usage = module.name, f"call {module.signature}"
    plain = {parameter.name: parameter for parameter in module.parameters if not parameter.is_var_keyword}
    takes_any = len(plain) < len(module.parameters)
    if len(args) > len(plain):
        raise ArgumentError(f"{name}() got {len(args)} arguments; {usage}")
    values = dict(zip(plain, args, strict=False))
    for keyword, value in keywords.items():
        real = ALIASES.get(keyword, keyword)
        real = real if real in plain else keyword
        if real in values:
            raise ArgumentError(f"{name}() got {real!r} twice; {usage}")
        if real not in plain and not takes_any:
            raise ArgumentError(f"{name}() got an unexpected keyword argument {show(keyword, 80)}; {usage}")
        values[real] = value
    missing = [each for each, parameter in plain.items() if parameter.is_required and each not in values]
    if missing:
        raise ArgumentError(f"{name}() is missing {', '.join(map(repr, missing))}; {usage}")
    return {each: parameter.default for each, parameter in plain.items()} | values


def check_arguments(module: Module, bound: Mapping[str, Any], scope: Scope) -> dict[str, Any]:
    """The arguments converted to the types of the parameters. Raises ArgumentError, which names the argument
    and what it must be."""
    values = dict(bound)
    size = 0
    for parameter in module.parameters:
        value = bound.get(parameter.name, parameter.default)
        # A default is not checked: it is ours, and may be what no program can pass.
        if value is not parameter.default:
            try:
                values[parameter.name] = value = parameter.kind.check(value, scope)
            except ValueError as error:
                raise ArgumentError(f"{module.name}(): {parameter.name} {error}") from None
        if parameter.kind.is_read and value is not None:
            size += len(value) if isinstance(value, str) else sum(map(len, value))
    if size > scope.characters:
        raise ArgumentError(
            f"{module.name}(): its texts have {size:,} characters together; give at most "
            f"{scope.characters:,}: keep what bears on the question"
        )
    return values
