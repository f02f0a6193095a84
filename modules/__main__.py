"""python -m videopro.modules: the API reference of every module, as docs/modules.md holds it.

python -m videopro.modules > docs/modules.md
"""

from __future__ import annotations

from videopro.modules import library  # noqa: F401  registers the modules
from videopro.modules.calls import MODULES
from videopro.modules.reference import api_reference

_OPENING = """# Modules

What a program may call, and what it then holds. Made by `python -m videopro.modules`; change the modules,
not this file.
"""


def main() -> None:
    """Print the reference of every module."""
    print(f"{_OPENING}\n{api_reference(list(MODULES.values()))}", end="")


if __name__ == "__main__":
    main()
