"""What families of hostile programs share: their list, and the ways to what they would harm."""

from __future__ import annotations

import random
import textwrap
from collections.abc import Callable

Family = Callable[[random.Random], str]
FAMILIES: dict[str, Family] = {}

# Ways from a program's names to the operating system's.
WAYS = (
    "import random\nos = random._os",
    "import enum\nos = enum.sys.modules['posix']",
    "import statistics\nos = statistics.sys.modules['os']",
    "os = [c for c in ().__class__.__base__.__subclasses__() if c.__name__ == '_wrap_close'][0]"
    ".__init__.__globals__",
    "import collections\nos = collections._sys.modules['os']",
    "try:\n    1 / 0\nexcept Exception as e:\n    f = e.__traceback__.tb_frame\n"
    "    while f.f_back: f = f.f_back\n    os = f.f_globals['sys'].modules['os']",
    "os = print.__self__.__import__('os')",
    "os = (lambda: 0).__globals__['__builtins__']['__import__'].__globals__['os']",
)


def family(name: str) -> Callable[[Family], Family]:
    """Name a family of programs."""

    def keep(make: Family) -> Family:
        FAMILIES[name] = make
        return make

    return keep


def program(*lines: str, head: str = "") -> str:
    """A program of these lines."""
    text = textwrap.indent("\n".join(lines), "    ")
    signature = "def execute_command(video, question, secret, port, pid, other):"
    return f"{head}\n{signature}\n{text}\n    return 'survived'\n"


def reaching(chance: random.Random, *lines: str) -> str:
    """A program with `os` in hand; it continues after whatever it catches, as a determined one does."""
    if chance.random() < 0.3:
        lines = ("try:", *("    " + line for line in lines), "except Exception as e: print(e)")
    # The walk over subclasses ends in a namespace, not a module.
    families = (
        "class _Os:\n    def __init__(self, of): self.of = of\n"
        "    def __getattr__(self, n):\n"
        "        return self.of[n] if isinstance(self.of, dict) else getattr(self.of, n)\n"
        "os = _Os(os)"
    )
    return program(*lines, head=f"{chance.choice(WAYS)}\n{families}")
