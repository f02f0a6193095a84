"""A run folder on a full disk: the file is named, nothing is left half-written, and the run resumes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.fakes import load_fake
from tests.support.infer_world import check_complete, flags
from tests.support.infer_world import root as root
from videopro.commands.infer import main
from videopro.engine import record_crash
from videopro.errors import RunError

FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="no /dev/full")


@needs_full
@pytest.mark.parametrize(
    ("written", "file"),
    [
        (".config.yaml.new", "config.yaml"),
        ("work/.asked.json.new", "work/asked.json"),
        ("work/logs/rank0-worker0.log", "work/logs/rank0-worker0.log"),
    ],
)
def test_a_run_on_a_full_disk_names_the_file_and_resumes(
    root: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], written: str, file: str
) -> None:
    output = tmp_path / "run"
    place = output / written
    place.parent.mkdir(parents=True)
    place.symlink_to(FULL)
    assert main(flags(root, output, "--limit", "1"), load=load_fake) == 2
    error = capfd.readouterr().err
    assert f"error: {output / file}: cannot be written (No space left on device); free some space" in error
    assert "Traceback" not in error
    place.unlink(missing_ok=True)
    assert not list(output.rglob(".*")), "nothing half-written is left"
    assert main(flags(root, output, "--limit", "1"), load=load_fake) == 0
    check_complete(output, 1)


@needs_full
def test_a_summary_and_a_crash_record_on_a_full_disk(
    root: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "run"
    assert main(flags(root, output, "--limit", "1"), load=load_fake) == 0
    before = (output / "summary.json").read_bytes()
    (output / ".summary.json.new").symlink_to(FULL)
    assert main(flags(root, output, "--limit", "1"), load=load_fake) == 2
    assert f"error: {output / 'summary.json'}: cannot be written (No space" in capfd.readouterr().err
    assert (output / "summary.json").read_bytes() == before
    deaths = tmp_path / "deaths.jsonl"
    deaths.symlink_to(FULL)
    with pytest.raises(RunError, match=r"deaths\.jsonl: cannot be written \(No space left on device\)"):
        record_crash(deaths, ["q"], "why")
