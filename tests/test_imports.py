"""What import contracts cannot say: that breaking one is detected, that a bare install imports, that every
module has one name, which mypy knows too."""

import ast
import functools
import json
import multiprocessing
import re
import runpy
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.support import ROOT

FOLDERS = ("modules", "train", "data_synthesis")
# What no install without an extra brings (pyproject.toml).
EXTRAS = (
    *("trl", "datasets", "deepspeed", "bitsandbytes", "matplotlib", "jinja2", "tensorboard"),
    *("sentence_transformers", "timm", "easyocr", "wandb", "ray"),
    *("fastapi", "uvicorn", "starlette", "python_multipart", "prometheus_client", "mcp"),
)


@functools.cache
def sources() -> Mapping[str, str]:
    """Every module of the package with its text."""
    found = {}
    for path in sorted((ROOT / "videopro").rglob("*.py")) + [
        path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))
    ]:
        parts = path.relative_to(ROOT).with_suffix("").parts
        parts = parts if parts[0] == "videopro" else ("videopro", *parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text(encoding="utf-8")
    return found


def imported_at_once(tree: ast.Module) -> set[str]:
    """The top-level packages that importing a module imports, not in functions and not for types alone."""
    names: set[str] = set()
    waiting: list[ast.stmt] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.partition(".")[0])
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            waiting += node.orelse
        elif not isinstance(node, ast.FunctionDef):
            waiting += [inner for inner in ast.iter_child_nodes(node) if isinstance(inner, ast.stmt)]
    return names


def test_a_bare_install_imports() -> None:
    """All but trainers, report and the server can be imported without an extra of pyproject.toml."""
    texts = {
        name: text
        for name, text in sources().items()
        if not name.startswith(("videopro.train", "videopro.report", "videopro.serve"))
    }
    needed = {name: imported_at_once(ast.parse(text)) & {*EXTRAS} for name, text in texts.items()}
    assert {name: extras for name, extras in needed.items() if extras} == {}


def test_a_module_has_one_name() -> None:
    modules = [(name, min(path.stem for path in (ROOT / name).glob("[a-z]*.py"))) for name in FOLDERS]
    names = [wanted for folder, name in modules for wanted in (folder, f"{folder}.{name}")]
    code = f"""
from importlib import import_module
for name in {names}:
    try:
        import_module(name)
    except ImportError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    told = [line.partition("'")[2].partition("'")[0] for line in done.stdout.splitlines()]
    assert told == [folder for folder in FOLDERS for _ in range(2)]


def test_no_command_waits_for_openais_client() -> None:
    """It takes a second, and only a run that uses a server needs it."""
    commands = "videopro.commands.infer, videopro.commands.ask, videopro.methods, videopro.runs"
    check = (
        f"import sys, {commands}; print('videopro.backbones.server' in sys.modules, 'openai' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", check], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "True False\n", done.stderr


def help_of_training_scripts(output: Path) -> None:
    """Writes which scripts printed their --help and ended, and every module that was then loaded from the
    folder of training."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "videopro"]:
        del sys.modules[name]
    sys.path.insert(0, str(ROOT / "train"))
    helped = []
    for script in ("sft", "grpo"):
        sys.argv = [str(ROOT / "train" / f"{script}.py"), "--help"]
        try:
            runpy.run_path(sys.argv[0], run_name="__main__")
        except SystemExit:
            helped.append(script)
    files = [(name, getattr(module, "__file__", None) or "") for name, module in [*sys.modules.items()]]
    folders = (str(ROOT / "train"), str(ROOT / "videopro" / "train"))
    loaded = [name for name, file in files if file.startswith(folders)]
    output.write_text(json.dumps([helped, sorted(set(loaded) - {"__main__", "__mp_main__"})]))


def test_a_training_script_loads_no_module_twice(tmp_path: Path) -> None:
    """`accelerate launch train/sft.py` puts train/ on the path, where its modules could have second names.

    In a process that has imported what others wrote, and imports ours anew."""
    output = tmp_path / "loaded.json"
    process = multiprocessing.get_context("spawn").Process(target=help_of_training_scripts, args=(output,))
    process.start()
    process.join()
    assert process.exitcode == 0
    helped, loaded = json.loads(output.read_text())
    assert helped == ["sft", "grpo"]
    assert len(loaded) >= 10
    assert [name for name in loaded if not name.startswith("videopro.train")] == []


@functools.cache
def nodes(text: str) -> list[ast.AST]:
    """Every node of a module's syntax that may name another module."""
    kinds = (ast.Import, ast.ImportFrom, ast.Constant)
    return [node for node in ast.walk(ast.parse(text)) if isinstance(node, kinds)]


def imported_names(node: ast.AST) -> set[str]:
    """The modules that a statement may import: what it names, and its parts."""
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    if isinstance(node, ast.ImportFrom) and node.module:
        return {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return set()


def forbidden_imports(texts: Mapping[str, str]) -> list[str]:
    """Imports of the pocket world from outside, lazy ones and those by name too: its plug-in objects are
    asked."""
    insides = {name for name in texts if name.startswith("videopro.pocket")}
    found = []
    for module, text in texts.items():
        # The world of simlib is the script.
        if module.startswith(("videopro.pocket", "videopro.train.pocket", "videopro.simlib")):
            continue
        for node in nodes(text):
            names = imported_names(node)
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                names = {node.value}
            found += [f"{module} -> {name}" for name in names & insides]
    return found


def test_only_the_generator_reads_the_pocket_worlds_script() -> None:
    assert forbidden_imports(sources()) == []
    allowed = {"videopro.pocket": "", "videopro.pocket.script": ""} | dict.fromkeys(
        ("videopro.pocket.world", "videopro.train.pocket.tasks"), "from videopro.pocket import script"
    )
    for text in (
        "from videopro.pocket import script",
        "from videopro.pocket.script import Script",
        "def f():\n    import videopro.pocket.script",
        "import_module('videopro.pocket.script')",
    ):
        found = forbidden_imports({**allowed, "videopro.modules.models.ocr": text})
        assert "videopro.modules.models.ocr -> videopro.pocket.script" in found


def offered_names(node: ast.stmt) -> list[str]:
    """What a statement of a face offers: an `__all__`, or imports of the form `name as name`."""
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
        return [name.value for name in ast.walk(node.value) if isinstance(name, ast.Constant)]
    return [each.name for each in getattr(node, "names", ()) if each.asname == each.name]


def past_faces(texts: Mapping[str, str]) -> list[str]:
    """Imports of a file inside a package by another part of `videopro` or of its training: what others use of
    a package, its `__init__` offers."""

    def part(name: str) -> list[str]:
        return name.split(".")[: 3 if name.startswith("videopro.train.") else 2]

    packages = {name.rpartition(".")[0] for name in texts}
    # What a face lists, a module of its own too.
    offered = {
        f"{package}.{name}"
        for package in packages & {*texts}
        for node in ast.parse(texts[package]).body
        for name in offered_names(node)
    }
    files = {*texts} - packages - offered
    found = []
    for module, text in texts.items():
        for node in nodes(text):
            for name in sorted(imported_names(node) & files):
                is_door = module.count(".") == 1 and name.startswith("videopro.commands.")
                if len(name.split(".")) > len(part(name)) and part(name) != part(module) and not is_door:
                    found.append(f"{module} -> {name}")
    return found


def test_other_packages_import_only_what_a_package_offers() -> None:
    # Training makes the pocket world's model and the retrievers, and knows their insides.
    trained = ("videopro.pocket.", "videopro.modules.models.encoders.", "videopro.train.retrieval.")
    found = [
        past
        for past in past_faces(sources())
        if not (past.startswith("videopro.train.") and past.partition(" -> ")[2].startswith(trained))
        # Nobody else may read the script, so pocket's face does not offer it.
        and not (past.startswith("videopro.simlib.") and past.partition(" -> ")[2].startswith(trained[0]))
    ]
    assert found == []
    texts = {
        "videopro.errors": "",
        "videopro.video": "from videopro.video.frames import Frame",
        "videopro.video.frames": "from videopro.errors import VideoError",
        "videopro.video.decoding": "",
        "videopro.video.decoding.exact": "from videopro.video.frames import Frame",
        "videopro.methods": "from videopro.video import Frame\nfrom videopro.video.decoding import exact",
        "videopro.methods.native": "def f():\n    import videopro.video.frames",
    }
    assert past_faces(texts) == [
        "videopro.methods -> videopro.video.decoding.exact",
        "videopro.methods.native -> videopro.video.frames",
    ]


def test_every_module_opens_with_a_docstring() -> None:
    silent = [
        name for name, text in sources().items() if text.strip() and not ast.get_docstring(ast.parse(text))
    ]
    assert silent == []


def test_no_test_file_imports_another() -> None:
    """What tests share lies in tests/support; the official scorers and the kill tests are commands too."""
    shared = ("tests.support", "tests.golden", "tests.benchmarks.official_scor", "tests.stress")
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for name in re.findall(r"(?:from|import) (tests(?:\.\w+)*)", path.read_text(encoding="utf-8"))
        if name != "tests" and not name.startswith(shared)
    ]
    assert found == []


def test_every_setting_is_read_in_the_one_way() -> None:
    """`argparse` is left to TRL's settings, whose parser it is."""
    files = [path for name in ("videopro", *FOLDERS, "perf") for path in (ROOT / name).rglob("*.py")]
    found = {str(path.relative_to(ROOT)) for path in files if "argparse" in path.read_text(encoding="utf-8")}
    assert {name.removeprefix("videopro/") for name in found} == {"train/settings/help.py"}
