"""Which part may know which: the layering of DESIGN.md, held against every import in the repository.

Static, so that a lazy import or one for types alone counts as well: what a module names, it knows. Knowing is
followed through other modules, since a part that is reached through a third one is known too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pytest

from tests.support import ROOT

PACKAGES = ("videopro", "modules", "data_synthesis", "train", "perf")

# Above everything that answers a question: planning, runs, what is made of them.
ABOVE = (
    "videopro.planners",
    "videopro.reasoning.reasoner",
    "videopro.methods",
    "videopro.benchmarks",
    "videopro.runner",
    "videopro.infer",
    "videopro.ask",
    "videopro.ask_console",
    "videopro.compare",
    "videopro.index",
    "videopro.report",
    "videopro.view",
)
TRAINING = ("data_synthesis", "train")
# What writes, runs and reads programs: modules are called by it and know nothing of it.
PROGRAMS = (
    "videopro.program.parsing",
    "videopro.program.names",
    "videopro.executor",
    "videopro.reasoning.execution",
    "videopro.traces.selection",
    "videopro.reasoning.observer",
    "videopro.backbones.wrappers.metered",
    "videopro.modules.loading",
)


@dataclass(frozen=True)
class Rule:
    """`who` and everything inside must not know `what` nor anything inside, `but` excepted."""

    who: tuple[str, ...]
    what: tuple[str, ...]
    but: tuple[str, ...] = ()


GROUND = (
    "videopro.errors",
    "videopro.video.video",
    "videopro.video.frame_store",
    "videopro.video.decoding",
    "videopro.video.subtitles",
    "videopro.question.question",
    "videopro.question.answer_extraction",
    "videopro.question.official_extractors",
    "videopro.prompts",
    "videopro.scoring.metrics",
    "videopro.scoring.intervals",
)
RULES = {
    "the ground": Rule(
        GROUND,
        ("videopro.backbones", "videopro.executor", "videopro.pocket", "modules", *ABOVE, *TRAINING),
    ),
    "errors": Rule(("videopro.errors",), ("videopro",), but=("videopro.errors", "videopro")),
    "backbones": Rule(
        ("videopro.backbones",),
        ("videopro.executor", "videopro.pocket", "modules", *ABOVE, *TRAINING),
        # Where the shipped model lies.
        but=("videopro.pocket",),
    ),
    "modules": Rule(
        ("modules",),
        ("videopro.pocket", *PROGRAMS, *ABOVE, *TRAINING),
        # Where the shipped models lie.
        but=("videopro.pocket",),
    ),
    "nobody knows training": Rule(("videopro", "modules", "perf"), TRAINING),
    "training and synthesis": Rule(("data_synthesis",), ("train",)),
}

# Models, methods and modules see the pocket world's pixels and subtitles, never its script: others than the
# generator and the pocket model's training know the package and the function that makes a split's folder.
POCKET_OPEN = {"videopro.pocket", "videopro.pocket.world"}


def within(module: str, names: Iterable[str]) -> bool:
    """Whether a module is one of `names` or lies inside one."""
    return any(module == name or module.startswith(name + ".") for name in names)


def sources() -> dict[str, str]:
    """Every module of the repository with its text."""
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text(
                encoding="utf-8"
            )
    return found


def imports(module: str, text: str, is_package: bool) -> set[str]:
    """Every name that a module imports, as dotted paths: `from a import b` gives a and a.b."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                steps = node.level - 1 if is_package else node.level
                parts = module.split(".")[: len(module.split(".")) - steps]
                base = ".".join([*parts, *([node.module] if node.module else [])])
            names |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in ("import_module", "__import__") and isinstance(node.args[0].value, str):
                names.add(node.args[0].value)
    return names


def knowledge(texts: Mapping[str, str]) -> dict[str, set[str]]:
    """For each module the modules that it imports, the packages around them included."""
    packages = {name.rpartition(".")[0] for name in texts}
    edges = {}
    for module, text in texts.items():
        named = imports(module, text, module in packages or not text.strip())
        around = {".".join(name.split(".")[:i]) for name in named for i in range(1, name.count(".") + 2)}
        edges[module] = {name for name in around if name in texts} - {module}
    return edges


def offences(rule: Rule, edges: Mapping[str, set[str]]) -> list[str]:
    """The chains of imports by which a rule is broken, one for each module that breaks it."""
    broken = []
    for start in sorted(module for module in edges if within(module, rule.who)):
        trail = {start: (start,)}
        queue = [start]
        while queue:
            module = queue.pop(0)
            bad = within(module, rule.what) and module not in rule.but and not within(module, (start,))
            if bad:
                broken.append(" -> ".join(trail[module]))
                break
            for following in sorted(edges[module]):
                if following not in trail:
                    trail[following] = (*trail[module], following)
                    queue.append(following)
    return broken


def pocket_offences(edges: Mapping[str, set[str]]) -> list[str]:
    """Imports of the pocket world's insides from outside."""
    return [
        f"{module} -> {name}"
        for module, names in sorted(edges.items())
        if not within(module, ("videopro.pocket",))
        and not module.startswith("videopro.train.pocket.language")
        for name in sorted(names)
        if within(name, ("videopro.pocket",)) and name not in POCKET_OPEN
    ]


@pytest.mark.parametrize("name", RULES)
def test_the_layers_hold(name: str) -> None:
    assert offences(RULES[name], knowledge(sources())) == []


def test_nobody_outside_reads_the_pocket_worlds_script() -> None:
    assert pocket_offences(knowledge(sources())) == []


def test_the_check_sees_the_repository() -> None:
    edges = knowledge(sources())
    for module in (
        "videopro.video.video",
        "videopro.backbones.server.backbone",
        "videopro.infer",
        "videopro.train.pocket.language",
    ):
        assert module in edges
    assert "videopro.errors" in edges["videopro.video.video"]
    # Imported inside a function, and for types alone.
    assert "videopro.backbones.server.backbone" in edges["videopro.backbones"]
    assert "videopro.video.video" in edges["videopro.backbones.base"]


def test_every_module_opens_with_what_it_is_for() -> None:
    silent = [
        module
        for module, text in sources().items()
        if text.strip() and not ast.get_docstring(ast.parse(text))
    ]
    assert silent == []


@pytest.mark.parametrize(
    "text",
    [
        "import videopro.infer",
        "from videopro import infer",
        "from videopro.infer import main",
        "def f():\n    from videopro.infer import main",
        "if TYPE_CHECKING:\n    from videopro.infer import main",
        "from . import infer",
        "from .infer import main",
        "import importlib\nimportlib.import_module('videopro.infer')",
        "from videopro.helper import x",
    ],
)
def test_every_way_to_import_is_seen(text: str) -> None:
    texts = {
        "videopro": '"""Package."""',
        "videopro.infer": "",
        "videopro.helper": "import videopro.infer",
        "videopro.video.video": text,
    }
    (chain,) = offences(RULES["the ground"], knowledge(texts))
    assert chain.startswith("videopro.video.video -> ")
    assert chain.endswith("videopro.infer")


@pytest.mark.parametrize(
    "text",
    ["from videopro.executor import use_frames", "from videopro import reason", "import videopro.train.sft"],
)
def test_a_module_that_knows_its_callers_is_seen(text: str) -> None:
    texts = dict.fromkeys(
        (
            "videopro",
            "videopro.executor",
            "videopro.reasoning.reasoner",
            "train",
            "videopro.train.sft",
            "modules",
        ),
        "",
    )
    (chain,) = offences(RULES["modules"], knowledge({**texts, "videopro.modules.answering": text}))
    assert chain.startswith("videopro.modules.answering -> ")


def test_a_package_reaches_its_own_modules_through_dots() -> None:
    texts = {
        "videopro": "",
        "videopro.a": "from .b import x\nfrom ..video import y",
        "videopro.a.b": "",
        "videopro.video.video": "",
    }
    assert {"videopro.a.b", "videopro.video.video"} <= knowledge(texts)["videopro.a"]


def test_a_peek_at_the_worlds_script_is_seen() -> None:
    texts = {
        "videopro": "",
        "videopro.pocket": "",
        "videopro.pocket.script": "",
        "videopro.pocket.world": "from videopro.pocket import script",
        "videopro.benchmarks.pocket": "from videopro.pocket import world",
        "videopro.train.pocket.tasks": "from videopro.pocket.script import Script",
        "videopro.modules.models.ocr": "from videopro.pocket import script",
    }
    assert pocket_offences(knowledge(texts)) == ["videopro.modules.models.ocr -> videopro.pocket.script"]
