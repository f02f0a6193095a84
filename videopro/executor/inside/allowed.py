"""The modules that a program may import: pure computation, loaded before the walls go up.

A kindness to the model that writes programs, not the boundary: what a program reaches through them is stopped
by the kernel (`lock`). Knows nothing of anything.
"""

MODULES = (
    "__future__",
    "abc",
    "ast",
    "base64",
    "bisect",
    "calendar",
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
    "hashlib",
    "heapq",
    "io",
    "itertools",
    "json",
    "logging",
    "math",
    "numbers",
    "operator",
    "pprint",
    "random",
    "re",
    "statistics",
    "string",
    "textwrap",
    "time",
    "traceback",
    "types",
    "typing",
    "unicodedata",
    "warnings",
)

# Why a module that programs ask for is not there. A numpy in every process would be 25 MB of native code to
# copy at each fork and behind the walls; what programs hold are handles and a few numbers, never pixels.
ABSENT = {"numpy": ": lists, math and statistics do what programs need"}

# Imported late, in a program's name, by what it may use: by datetime and time.
LATE = ("_strptime",)

# Builtins that reach out of a program, or around the checks of it.
FORBIDDEN_BUILTINS = ("breakpoint", "compile", "eval", "exec", "exit", "help", "input", "open", "quit")
