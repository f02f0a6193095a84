"""Registering modules: `@module(...)` on a function is all that it takes to add one.

    @module(family="extraction", needs=("ocr",))
    def read_signs(context: Call, frame: OneFrame, language: Text = "en") -> str:
        \"\"\"Say what planners must know: it becomes the API reference.\"\"\"

The function's first parameter is the call's context, the others are kinds of
`videopro.modules.calls.arguments`; its name, signature and docstring are what planners read. Knows functions
and arguments; nothing of videos or models.
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
"""The families of section 3.2, in the order of the API reference."""

REMOVABLE = tuple(family for family in FAMILIES if family != "answering")
"""Families that a run can be made without (Table 3); nothing would answer without the last one."""

NEEDS: Mapping[str, str] = {
    "index": "no clip index was made for this video",
    "subtitles": "this video has no subtitles",
    "ocr": "no OCR model is set up",
    "detector": "no object detector is set up",
    "tracker": "no object tracker is set up",
}
"""What a module may need of a video's context, and what to say where it is missing."""

ALIASES: Mapping[str, str] = {"video_path": "video", "k": "top_k", "frame_list": "frames"}
"""Other names of keywords, taken everywhere: the paper's listing and its figures differ, and so does the
release."""


@dataclass(frozen=True)
class Module:
    """A function that programs may call."""

    name: str
    function: Callable[..., Any]
    family: str
    takes: tuple[Parameter, ...]
    gives: str
    """What comes back, in the words of the docstring's "Returns"."""
    needs: tuple[str, ...]
    is_cached: bool
    """Whether the result of a call stands for equal calls: one that rests on the arguments and models alone,
    and costs more than looking it up."""
    doc: str

    @property
    def signature(self) -> str:
        """The call as a program writes it."""
        return signature_text(self.name, self.takes)

    def run(self, context: Any, values: Mapping[str, Any]) -> Any:
        """Run the function with arguments by parameter, as `videopro.modules.calls.arguments` checked
        them."""
        keywords = dict(values)
        for one in self.takes:
            if one.is_var_keyword:
                keywords |= keywords.pop(one.name)
        return self.function(context, **keywords)


MODULES: dict[str, Module] = {}


def module(*, family: str, needs: Sequence[str] = (), remember: bool = True) -> Callable[[F], F]:
    """Register a function as a module and give it back unchanged.

    `family` is a key of FAMILIES; `needs` are keys of NEEDS; `remember` False: every call is run, since it
    is cheaper than remembering or not the same each time. ValueError for a name that is taken, an unknown
    family or need, or a missing docstring; TypeError for a parameter that is no kind of argument.
    """
    if family not in FAMILIES:
        raise ValueError(f"family {family!r} is none of {', '.join(FAMILIES)}")
    unknown = [need for need in needs if need not in NEEDS]
    if unknown:
        raise ValueError(f"need {unknown[0]!r} is none of {', '.join(NEEDS)}")

    def register(function: F) -> F:
        name = function.__name__
        if name in MODULES:
            raise ValueError(f"a module {name!r} is registered already")
        doc = inspect.getdoc(function)
        if not doc:
            raise ValueError(f"module {name!r} needs a docstring: it is what planners read")
        summary, _, gives = doc.partition("\nReturns ")
        MODULES[name] = Module(
            name,
            function,
            family,
            parameters(function),
            gives.strip(),
            tuple(needs),
            remember,
            summary.strip(),
        )
        return function

    return register
