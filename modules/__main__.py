"""Prints the API reference of every module, and the tables of types.

python -m videopro.modules > docs/modules.md
"""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from videopro.modules import api_reference
from videopro.modules.calls import (
    FAMILIES,
    HANDLES,
    MODULES,
    OPEN_MODULES,
    PRELUDE,
    HostHandle,
    VideoHandle,
    arguments,
)
from videopro.modules.reference import module_entries

_HANDLES = """## Handles

What a handle is, and its fields, stands under "What a program holds". Here is the type of each field, what a
program may do with it besides, and the modules that give it.

"""
_ARGUMENTS = """## Argument types

For those who write a module: each parameter after the context is annotated with one of these types of
`videopro.modules.calls`. A call is checked, and its arguments converted, before the module runs; the program
is told what is wrong, and how to mend it.

"""


def handle_table() -> str:
    """The handles that programs hold: the types of their fields, their operations, and what gives them."""
    in_program: dict[str, Any] = {"Handle": type("Handle", (), {})}
    # As the sandbox does: what a handle can do in a program is defined there.
    exec(compile(PRELUDE, "<prelude>", "exec"), in_program)
    families = list(FAMILIES)
    modules = sorted(
        (module for module in MODULES.values() if module.is_documented),
        key=lambda module: families.index(module.family),
    )
    rows = []
    for handle in HANDLES:
        kind = handle.__program_kind__
        fields = [f"{name}: {_type_name(_field_type(handle, name))}" for name in handle.__program_fields__]
        sources = _code(
            module.name
            for module in modules
            if handle in _parts(typing.get_type_hints(module.function)["return"])
        )
        if handle is VideoHandle:
            sources = "the program's `video`"
        rows.append((kind, _code(fields), _operations(in_program.get(kind)), sources))
    return _HANDLES + _table(("handle", "fields", "in a program", "given by"), rows)


def argument_table() -> str:
    """The argument types of modules: what a program may pass, and what the module gets."""
    used: dict[arguments.ArgumentType, list[str]] = {}
    for module in (*MODULES.values(), *OPEN_MODULES.values()):
        for parameter in module.parameters:
            names = used.setdefault(parameter.kind, [])
            if parameter.name not in names:
                names.append(parameter.name)
    rows = []
    for name, hint in vars(arguments).items():
        kind = next(iter(getattr(hint, "__metadata__", ())), None)
        if isinstance(kind, arguments.ArgumentType):
            received = f"`{_type_name(hint.__origin__)}`"
            rows.append((f"`{name}`", kind.accepts, received, _code(used.get(kind, ()))))
    head = ("annotation", "a program may pass", "the module gets", "parameters")
    return _ARGUMENTS + _table(head, rows)


def _parts(hint: Any) -> Iterator[Any]:
    """A type and the types in it."""
    yield hint
    for part in typing.get_args(hint):
        yield from _parts(part)


def _field_type(handle: type[HostHandle], name: str) -> Any:
    """The type of a field: an attribute that a property computes, or one that is stored."""
    field = inspect.getattr_static(handle, name, None)
    if isinstance(field, property):
        return typing.get_type_hints(field.fget)["return"]
    hint = typing.get_type_hints(handle)[name]
    return typing.get_args(hint)[0] if typing.get_origin(hint) is typing.ClassVar else hint


def _type_name(hint: Any) -> str:
    return re.sub(r"\b(?:\w+\.)+", "", inspect.formatannotation(hint))


def _operations(kind: type | None) -> str:
    """What the class of a handle in a program says of itself, and its methods."""
    if kind is None:
        return ""
    methods = [
        f"{name}({', '.join(map(str, list(inspect.signature(value).parameters.values())[1:]))})"
        for name, value in vars(kind).items()
        if isinstance(value, types.FunctionType) and not name.startswith("_")
    ]
    return f"{' '.join((kind.__doc__ or '').split())} {_code(methods)}".strip()


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    # A bar would end the cell, in backticks too.
    lines = [" | ".join(cell.replace("|", r"\|") for cell in row) for row in (head, *rows)]
    lines.insert(1, " | ".join("---" for _ in head))
    return "".join(f"| {line} |\n" for line in lines)


_OPENING = """# Modules

The video functions that a program may call (modules in the paper, and in the code), and the handles that it
gets, as planners read of them; below are the [forms for open questions](#forms-for-open-questions), the types
of [handles](#handles) and those of [arguments](#argument-types). Generated by `python -m videopro.modules`:
edit the modules, not this file.

The families are in the order in which most programs need them, that of the paper's section 3.2: find, take
frames, look closely, read the whole, answer. In a family, the modules of one file are in the order of that
file of `modules/`, and the files in the order of their names.
"""
_OPEN = """## Forms for open questions

An open question has no options. These take the place of the modules of the same name above.
"""


def main() -> None:
    """Print the reference of every module, and the tables of types."""
    print(f"{_OPENING}\n{api_reference(list(MODULES.values()))}", end="")
    entries = module_entries(list(OPEN_MODULES.values()))
    print(f"\n{_OPEN}\n{entries.replace('## ', '### ')}", end="")
    print(f"\n{handle_table()}\n{argument_table()}", end="")


if __name__ == "__main__":
    main()
