"""The modules that a program may import: pure computation, loaded before the walls go up.

A kindness to the model that writes programs, not the boundary: what a program reaches through them is stopped
by the kernel (`lock`). Knows nothing of anything.
"""

MODULES = (
    "abc",
    "bisect",
    "cmath",
    "collections",
    "collections.abc",
    "contextlib",
    "copy",
    "dataclasses",
    "datetime",
    "decimal",
    "difflib",
    "enum",
    "fractions",
    "functools",
    "heapq",
    "itertools",
    "json",
    "math",
    "numbers",
    "operator",
    "random",
    "re",
    "statistics",
    "string",
    "textwrap",
    "time",
    "types",
    "typing",
    "unicodedata",
)

# Imported late, in a program's name, by what it may use: by datetime and time.
LATE = ("_strptime",)

# Builtins that reach out of a program, or around the checks of it.
FORBIDDEN_BUILTINS = ("breakpoint", "compile", "eval", "exec", "exit", "help", "input", "open", "quit")
