"""The API reference that planners read, generated from the code of modules and handles."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from functools import lru_cache

from videopro.errors import ConfigError, RunError
from videopro.modules.calls import FAMILIES, HANDLES, MODULES, PLUGIN_MODULES, ClipTimes, Module
from videopro.traces import ReferenceForm

# What the sandbox allows; the tests compare it with the sandbox's own list.
_IMPORTS = """## What a program may import

Python's own modules for computing: `__future__`, `abc`, `ast`, `base64`, `bisect`, `calendar`, `cmath`,
`collections`, `contextlib`, `copy`, `dataclasses`, `datetime`, `decimal`, `difflib`, `enum`,
`fractions`, `functools`, `hashlib`, `heapq`, `io`, `itertools`, `json`, `logging`, `math`, `numbers`,
`operator`, `pprint`, `random`, `re`, `statistics`, `string`, `textwrap`, `time`, `traceback`, `types`,
`typing`, `unicodedata`, `warnings`. Nothing else: no `numpy` (use lists, math and statistics), no files,
no network. What it prints, logs and warns of is kept. What is passed to a module or returned crosses as
plain data: a dataclass as a dict, an enum as its value, a Decimal or Fraction as a float, a date or time
as ISO text, a timedelta in seconds, bytes as text, a range or deque as a list."""

_FROM_CLIP = "Times in the trims of a clip are seconds from the start of that clip.\n\n"


def api_reference(modules: Sequence[Module], clip_times: ClipTimes = "video") -> str:
    """The reference of these modules as Markdown, by family in the order of FAMILIES. `clip_times`: what the
    times in the trims of a clip count from."""
    return reference_text("full", modules, clip_times)


def full_reference() -> str:
    """The reference of all built-in modules; some may not apply to a given video."""
    return api_reference(list(MODULES.values()))


# Words that say nothing of what a module does.
_VERBS = """
grab seek poll scan fetch probe trace weigh ask sift pull mark hunt gauge parse reap draw spot glean mine
comb skim sort tap ping test track catch lift dig sense chart log rate hail note peek sweep cast plumb
""".split()  # noqa: SIM905
_NOUNS = """
moss tide reed flint cedar comet delta ember fjord grove heron indigo jasper kelp lotus maple nectar onyx
pearl quartz raven slate topaz umber violet willow xenon yarrow zephyr amber birch coral dune elm fern
garnet hazel iris jade larch
""".split()  # noqa: SIM905
DRAWN_NAMES = tuple(f"{verb}_{noun}" for verb in _VERBS for noun in _NOUNS)
"""1,600 names for modules, which say nothing of what one does."""


def reference_text(form: ReferenceForm, modules: Sequence[Module], clip_times: ClipTimes = "video") -> str:
    """What a prompt says of these modules in this form. The shorter forms name no handles and no imports,
    which a planner that was trained with them has learned."""
    return _text(form, tuple(modules), clip_times)


# Written once for all questions about videos that have the same modules.
@lru_cache(maxsize=256)
def _text(form: ReferenceForm, modules: tuple[Module, ...], clip_times: ClipTimes) -> str:
    if form == "none":
        return ""
    if form == "full":
        return "\n\n".join([*_families(modules, clip_times), _handles(), _paragraphs(_IMPORTS)]) + "\n"
    line = _signature_line if form == "signatures" else _compact_line
    listing = [
        module
        for family in FAMILIES
        for module in modules
        if module.family == family and module.is_documented
    ]
    lines = [line(module) for module in listing]
    if clip_times == "clip" and any(module.family == "localization" for module in listing):
        lines.append(_FROM_CLIP.strip())
    return "\n".join(lines) + "\n"


def _signature_line(module: Module) -> str:
    return f"- `{module.signature}`"


def _compact_line(module: Module) -> str:
    returns = _first_clause(module.returns)
    return f"{_signature_line(module)}: {_first_clause(module.doc)}" + (f" -> {returns}" if returns else "")


# What follows the first clause says more of the same thing.
_CLAUSE_END = re.compile(r"[.;:](?:\s|$)")


def _first_clause(text: str) -> str:
    return _CLAUSE_END.split(_one_line(text), maxsplit=1)[0]


def named_modules(names: Sequence[str]) -> list[Module]:
    """The modules with these names, in their forms for questions with options. Raises ConfigError for a name
    that no module has now."""
    registered = {**PLUGIN_MODULES, **MODULES}
    for name in names:
        if name not in registered:
            raise ConfigError(
                f"module {name!r}: it existed when the records were made, but does not now; add its plug-in "
                "with extra_modules, or make the records again"
            )
    return [registered[name] for name in names]


def modules_of_prompt(prompt: str, form: ReferenceForm, clip_times: ClipTimes = "video") -> list[str]:
    """The names of the modules that a prompt describes in this form. Raises RunError if that is not what the
    form says of them now."""
    lines = set(prompt.splitlines())
    listing = [
        module
        for module in (*MODULES.values(), *PLUGIN_MODULES.values())
        if module.is_documented and not lines.isdisjoint(_lines_of(module, form))
    ]
    if not listing or reference_text(form, listing, clip_times).strip() not in prompt:
        raise RunError(
            f"this version does not support prompts that show modules in the form {form!r}; make the run "
            "again"
        )
    return [module.name for module in listing]


def _lines_of(module: Module, form: ReferenceForm) -> list[str]:
    return [line for line in reference_text(form, [module]).splitlines() if line.startswith("- `")]


def module_entries(modules: Sequence[Module]) -> str:
    """The part of the reference that describes these modules."""
    return "\n\n".join(_families(modules)) + "\n"


def _families(modules: Sequence[Module], clip_times: ClipTimes = "video") -> list[str]:
    parts = []
    for family, title in FAMILIES.items():
        members = [module for module in modules if module.family == family and module.is_documented]
        if members:
            note = _FROM_CLIP if family == "localization" and clip_times == "clip" else ""
            parts.append(f"## {title}\n\n{note}" + "\n".join(map(_entry, members)))
    return parts


def _entry(module: Module) -> str:
    returns = f" Returns {_one_line(module.returns)}" if module.returns else ""
    return f"- `{module.signature}`: {_one_line(module.doc)}{returns}"


def _handles() -> str:
    lines = ["## What a program holds", ""]
    for handle in HANDLES:
        fields = ", ".join(handle.__program_fields__)
        lines.append(f"- {handle.__program_kind__} ({fields}): {_one_line(inspect.getdoc(handle) or '')}")
    return "\n".join(lines)


def _paragraphs(text: str) -> str:
    return "\n\n".join(map(_one_line, text.split("\n\n")))


def _one_line(text: str) -> str:
    return " ".join(text.split())
