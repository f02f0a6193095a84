"""Counts loose modules, import cycles and lines, for this checkout or others (older ones too).

    python perf/structure.py [CHECKOUT ...] [--output FILE]
    python perf/structure.py OLDER . --output perf/structure.json      # docs/architecture.md

Loose modules lie directly in a top-level folder. Cycles are counted among files, and among the folders of a
package (a file directly in it counts as a folder of its own), over all imports, including lazy ones and those
for types. A package's `__main__` is a command and counts as a folder of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from perf import ROOT
from perf.recording import write_record
from videopro.cli import exit_status
from videopro.command_line import CommandLine
from videopro.settings import setting

FOLDERS = ("videopro", "modules", "train", "data_synthesis")

_GRAPH = """
import json, sys
sys.path.insert(0, sys.argv[1])
import grimp
graph = grimp.build_graph(*sys.argv[2:], cache_dir=None)
names = sorted(graph.modules)
print(json.dumps({name: sorted(graph.find_modules_directly_imported_by(name)) for name in names}))
"""


@dataclass(frozen=True)
class StructureSettings:
    """Which checkouts, and where the figures go."""

    checkouts: tuple[Path, ...] = field(
        default=(), metadata=setting("roots of checkouts; none: this one", positional=True)
    )
    output: Path | None = field(
        default=None, metadata=setting("JSON file for the figures; unset: print them")
    )


COMMAND = CommandLine(
    "perf.structure", StructureSettings, summary="Count loose modules, import cycles and lines."
)


def imports(root: Path) -> dict[str, list[str]]:
    """The modules that each module of a checkout imports, by dotted names."""
    # If the folders are linked into videopro, it contains them all.
    linked = (root / "videopro" / "modules").exists()
    packages = FOLDERS[:1] if linked else FOLDERS
    command = [sys.executable, "-c", _GRAPH, str(root), *packages]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root)
    graph: dict[str, list[str]] = json.loads(done.stdout)
    return graph


def cycles(edges: Iterable[tuple[str, str]]) -> list[list[str]]:
    """The groups of nodes that reach each other (strongly connected components)."""
    import networkx

    graph = networkx.DiGraph([edge for edge in edges if edge[0] != edge[1]])
    return sorted(sorted(group) for group in networkx.strongly_connected_components(graph) if len(group) > 1)


def folder_cycles(graph: dict[str, list[str]]) -> list[list[str]]:
    """Cycles among the direct members of one package: its modules, and its subpackages as wholes."""
    found = []
    parents = {name.rpartition(".")[0] for name in graph} - {""}
    for parent in ["", *sorted(parents)]:
        depth = parent.count(".") + 1 if parent else 0

        def child(name: str, parent: str = parent, depth: int = depth) -> str | None:
            inside = not parent or name.startswith(parent + ".")
            if inside and name.endswith(".__main__"):
                return name
            return ".".join(name.split(".")[: depth + 1]) if inside else None

        pairs = [(child(name), child(other)) for name, others in graph.items() for other in others]
        found += cycles([(name, other) for name, other in pairs if name and other])
    return found


def commit(root: Path) -> str | None:
    """The commit that is checked out there; None outside of git."""
    command = ["git", "-C", str(root), "rev-parse", "--short=8", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def measured(root: Path) -> dict[str, object]:
    """The figures of one checkout."""
    graph = imports(root)
    loose = {name: len([*(root / name).glob("*.py")]) for name in FOLDERS}
    edges = [(module, imported) for module, found in graph.items() for imported in found]
    lines = {
        name: sum(len(path.read_text(encoding="utf-8").splitlines()) for path in (root / name).rglob("*.py"))
        for name in (*FOLDERS, "tests", "perf")
        if not (root / name).is_symlink()
    }
    return {
        "commit": commit(root),
        "modules": len(graph),
        "loose": loose,
        "file_cycles": cycles(edges),
        "folder_cycles": folder_cycles(graph),
        "lines": lines,
    }


def count(given: StructureSettings) -> None:
    """Print the figures of each checkout as JSON, or write them."""
    found = [measured(root.resolve()) for root in given.checkouts or (ROOT,)]
    if given.output is not None:
        write_record(given.output, found)
    else:
        for figures in found:
            print(json.dumps(figures, indent=1))


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status."""
    with exit_status("stopped") as status:
        count(COMMAND.parse(argv))
    return status.code


if __name__ == "__main__":
    sys.exit(main())
