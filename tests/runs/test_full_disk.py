"""A run folder on a full disk: the file is named, nothing is left half-written, and the run resumes."""

from functools import partial
from pathlib import Path

import pytest

from tests.support.colours import check_complete, flags, load_fake
from tests.support.colours import root as root
from videopro.commands.infer import main

FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="no /dev/full")


@needs_full
@pytest.mark.parametrize(
    "file", ["config.yaml", "work/asked.json", "work/logs/rank0-worker0.log", "summary.json"]
)
def test_a_run_on_a_full_disk_names_the_file_and_resumes(
    root: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], file: str
) -> None:
    path = tmp_path / "run" / file
    infer = partial(main, flags(root, tmp_path / "run", "--limit", "1"), load=load_fake)
    # A summary is there from an earlier command, and stays.
    assert file != "summary.json" or infer() == 0
    before = path.read_bytes() if path.exists() else None
    place = path if path.suffix == ".log" else path.with_name(f".{path.name}.new")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(FULL)
    assert infer() == 2
    error = capfd.readouterr().err
    assert f"error: {path}: cannot be written (No space left on device); free some space" in error
    assert "Traceback" not in error
    assert before is None or path.read_bytes() == before
    place.unlink(missing_ok=True)
    assert not list((tmp_path / "run").rglob(".*")), "nothing half-written is left"
    assert infer() == 0
    check_complete(tmp_path / "run", 1)
