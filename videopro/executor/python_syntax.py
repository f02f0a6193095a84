"""Syntax trees of programs, made in threads."""

from __future__ import annotations

import ast
import re
import threading
import warnings

REPLY = "<reply>"
"""The file name of code that a model wrote. The parser warns of stray backslashes in it, which do not concern
the user, and are hidden by this name: a filter for the time of a parse would be one for all threads."""
warnings.filterwarnings("ignore", module=re.escape(REPLY))

_TRIES = 5
# Not a plain lock: the garbage collector can run Python code, and that a parse, in the thread that holds it.
_PARSING = threading.RLock()


def parse_python(code: str, file: str = "<unknown>") -> ast.Module:
    """`ast.parse`, for code that is parsed in several threads at once.

    CPython 3.11 and 3.12 count the depth of a tree in one place for all threads. If another thread gets the
    interpreter while a tree is made, sound code raises SystemError ("AST constructor recursion depth
    mismatch"; CPython issue 106905 has such reports). Here one thread parses at a time, and tries again when
    a parse outside this function came between. Raises what `ast.parse` raises, SystemError only if it stays.
    """
    for _ in range(_TRIES - 1):
        try:
            with _PARSING:
                return ast.parse(code, file)
        except SystemError:
            continue
    with _PARSING:
        return ast.parse(code, file)
