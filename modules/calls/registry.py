"""The registry of modules: decorate a function with `@module(...)` to add one.

    @module(family="extraction", needs=("ocr",))
    def read_signs(context: CallContext, frame: SingleFrame, language: Text = "en") -> str:
        \"\"\"What planners must know. It becomes the API reference.\"\"\"

The function's first parameter is the call's context; the others are annotated with types of
`videopro.modules.calls.arguments`. Planners read its name, signature and docstring.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from videopro.modules.calls.arguments import Parameter, parameters, signature_text

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
"""What a module may need from a video's context, and the reason to report if it is missing."""

ALIASES: Mapping[str, str] = {"video_path": "video", "k": "top_k", "frame_list": "frames"}
"""Other names of keywords that every module accepts: the paper's listing, figures and release differ in
them."""


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
    """Whether planners read of it; False for names that only programs of other releases use."""

    @property
    def signature(self) -> str:
        """The call's signature as in the API reference."""
        return signature_text(self.name, self.parameters)

    def run(self, context: Any, values: Mapping[str, Any]) -> Any:
        """Run the function with `values`: arguments by parameter name, already checked by
        `check_arguments`."""
        keywords = dict(values)
        for parameter in self.parameters:
            if parameter.is_var_keyword:
                keywords |= keywords.pop(parameter.name)
        return self.function(context, **keywords)


MODULES: dict[str, Module] = {}
"""Our modules by name; for an open question, those of OPEN_MODULES take the place of theirs."""
OPEN_MODULES: dict[str, Module] = {}
"""The forms that modules have for open questions, which have no options, by name."""
PLUGIN_MODULES: dict[str, Module] = {}
"""Those of plug-ins that this process has loaded: programs may call those that `extra_modules` names."""


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
