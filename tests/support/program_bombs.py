"""Programs whose parsing would take all memory or time."""

from __future__ import annotations

from videopro.executor import MAX_CHARS

BOMBS = {
    "brackets": "x = " + "(" * 30_000,
    "minus": "x = " + "-" * 60_000 + "1",
    "sum": "x = " + "+".join("a" * 30_000),
    "calls": "x = a" + "()" * 30_000,
    "attributes": "x = a" + ".b" * 30_000,
    "indents": "\n".join(" " * n + "if 1:" for n in range(99)) + "\n" + " " * 99 + "x = 1",
    "lambdas": "x = " + "lambda: " * 8_000 + "1",
    "digits": "x = " + "9" * 60_000,
    "nots": "x = " + "not " * 15_000 + "1",
    "nul": "x = '\x00'",
    "surrogate": "x = '\ud800'",
    "elifs": "if a: pass\n" + "elif b: pass\n" * 5_000,
    "formats": "x = f'" + '{f"{' * 5_000,
    "too long": "x = 1\n" * (MAX_CHARS // 5),
}
