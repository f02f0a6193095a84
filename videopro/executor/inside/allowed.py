"""What a program may use: modules of pure computation, loaded before its process is confined; and the names
that both sides of the sandbox know.

This list gives clear errors to the model that writes programs; it is not the security boundary. Whatever a
program reaches through these modules is stopped by the kernel (`confinement`).
"""

ENTRY = "execute_command"
"""The function of a program to call."""
FILE = "<program>"
"""The file name in a program's tracebacks."""
GRACE = 0.3
"""Seconds of processor time between the exception for the time limit and the end of the process."""

IMPORTABLE_MODULES = (
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

# Why a module that programs ask for is missing. numpy would add 25 MB of native code to each fork and to what
# runs inside the sandbox; programs hold handles and a few numbers, never pixels.
ABSENT = {"numpy": ": lists, math and statistics do what programs need"}

# Imported late, while a program runs, by the allowed datetime and time.
LATE = ("_strptime",)

# Builtins that reach outside a program or around its checks.
FORBIDDEN_BUILTINS = ("breakpoint", "compile", "eval", "exec", "exit", "help", "input", "open", "quit")
