"""What `python -m perf.mutants` changes, and which tests it then runs."""

import ast
from pathlib import Path

import pytest
import yaml

from perf.mutants import PAST, mutated, related_tests
from tests.support import ROOT

LINES = "a = 1\nb = a < 2\na = 1\n"


@pytest.mark.parametrize(
    ("nth", "changed"), [(0, "a = 2\nb = a < 2\na = 1\n"), (1, "a = 1\nb = a < 2\na = 2\n"), (2, None)]
)
def test_a_mutant_changes_its_line_alone(nth: int, changed: str | None) -> None:
    assert mutated(LINES, {"before": "a = 1", "nth": nth, "after": "a = 2"}) == changed


@pytest.mark.parametrize("fault", yaml.safe_load(PAST.read_text()), ids=lambda fault: fault["name"])
def test_a_past_fault_can_be_put_into_the_code_of_today(fault: dict[str, str]) -> None:
    text = (ROOT / fault["file"]).read_text(encoding="utf-8")
    faulty = mutated(text, fault)
    assert faulty is not None
    assert ast.dump(ast.parse(faulty)) != ast.dump(ast.parse(text))


def test_the_tests_of_a_file_are_those_that_import_it_and_then_its_rooms(tmp_path: Path) -> None:
    files = {
        "videopro/video/__init__.py": "from videopro.video.shapes import fit as fit\n",
        "videopro/video/shapes.py": "def fit(): ...\n",
        "tests/video/test_a.py": "",
        "tests/video/test_shapes.py": "from videopro.video.shapes import fit\n",
        "tests/video/deep/test_b.py": "",
        "tests/report/test_c.py": "from videopro.video import fit\n",
        "tests/report/test_d.py": "from videopro.video import other\n",
        "tests/test_top.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert related_tests(tmp_path, "videopro/video/shapes.py") == [
        f"tests/{name}.py"
        for name in ("video/test_shapes", "report/test_c", "video/deep/test_b", "video/test_a")
    ]
