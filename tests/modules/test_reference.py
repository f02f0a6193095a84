"""The API reference is made from the code, and docs/modules.md is what the code makes now."""

from __future__ import annotations

import subprocess
import sys

from tests.support import ROOT
from videopro.modules.calls import FAMILIES, HANDLES, MODULES
from videopro.modules.library import ModuleLibrary
from videopro.modules.reference import api_reference


def test_the_docs_are_current() -> None:
    made = subprocess.run(
        [sys.executable, "-m", "videopro.modules"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert (ROOT / "docs" / "modules.md").read_text() == made.stdout, (
        "run: python -m videopro.modules > docs/modules.md"
    )


def test_every_module_and_handle_is_listed_once_under_its_family() -> None:
    text = api_reference(list(MODULES.values()))
    parts = {part.partition("\n")[0]: part for part in text.split("## ")[1:]}
    assert list(parts) == [*FAMILIES.values(), "What a program holds", "What a program may import"]
    documented = [module for module in MODULES.values() if module.is_documented]
    assert len(documented) == len(MODULES) - 2
    for module in documented:
        own = [line for line in text.splitlines() if line.startswith(f"- `{module.name}(")]
        assert len(own) == 1
        assert own[0] in parts[FAMILIES[module.family]]
        assert own[0].startswith(f"- `{module.signature}`: ")
    for kind in HANDLES:
        assert f"- {kind.__program_kind__} ({', '.join(kind.__program_fields__)}): " in text


def test_the_prelude_is_python_that_gives_handles_their_behaviour() -> None:
    class Handle:
        pass

    names: dict[str, object] = {"Handle": Handle}
    exec(compile(ModuleLibrary.prelude, "<prelude>", "exec"), names)
    made = {name for name, value in names.items() if isinstance(value, type) and issubclass(value, Handle)}
    assert made - {"Handle"} <= {kind.__program_kind__ for kind in HANDLES}
