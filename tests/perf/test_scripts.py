"""Every script of perf/ runs from a checkout without the tests, and says what its settings are."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.support import ROOT

# Runs each file as `python FILE --help` does, with its own folder first on the path and no other of the
# checkout, and imports those that are no command. One process for all: most of the time goes into importing
# torch.
RUN = """
import contextlib, importlib, importlib.abc, io, json, runpy, sys
from pathlib import Path

class NoTests(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "tests":
            raise ImportError("the tests are not needed to measure")
        return None

root, scripts = Path(sys.argv[1]), json.loads(sys.argv[2])
sys.meta_path.insert(0, NoTests())
installed = [path for path in sys.path if path and Path(path) != root]
helps = {}
for script in scripts:
    for name in [name for name in sys.modules if name.partition(".")[0] == "perf"]:
        del sys.modules[name]
    sys.path[:] = [str(Path(script).parent), *installed]
    sys.argv = [script, "--help"]
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            if scripts[script]:
                runpy.run_path(script, run_name="__main__")
            else:
                sys.path[0] = str(root)
                importlib.import_module(f"perf.{Path(script).stem}")
    except SystemExit as stopped:
        assert not stopped.code, (script, stopped.code)
    helps[script] = said.getvalue()
json.dump(helps, open("helps.json", "w"))
"""


def scripts() -> dict[str, bool]:
    """The files of perf/, and whether each has a command line of its own."""
    paths = [path for path in sorted((ROOT / "perf").glob("*.py")) if path.name != "__init__.py"]
    return {str(path): "COMMAND = CommandLine(" in path.read_text(encoding="utf-8") for path in paths}


def test_every_script_runs_without_the_tests_and_takes_output(tmp_path: Path) -> None:
    found = scripts()
    assert sum(found.values()) >= 14
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(ROOT), json.dumps(found)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    helps = json.loads((tmp_path / "helps.json").read_text())
    for script, has_settings in found.items():
        assert ("--output" in helps[script]) == has_settings, script
        assert ("Usage: python -m perf." in helps[script]) == has_settings, script


def test_every_setting_is_read_in_the_one_way() -> None:
    """`argparse` is left to TRL's settings, whose parser it is."""
    folders = [ROOT / name for name in ("videopro", "modules", "train", "data_synthesis", "perf")]
    files = [path for folder in folders for path in folder.rglob("*.py")]
    found = {str(path.relative_to(ROOT)) for path in files if "argparse" in path.read_text(encoding="utf-8")}
    assert {name.removeprefix("videopro/") for name in found} == {"train/settings/help.py"}
