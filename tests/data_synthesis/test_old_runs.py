"""Syntheses of the version before the packages were laid out anew: their records give the same datasets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.old_folders import unpack_synthesis
from tests.support.synthesis_runs import datasets, rows
from videopro.data_synthesis.run import main


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return unpack_synthesis(tmp_path)


def command(output: Path, limit: int, *more: str) -> list[str]:
    words = ["--source", "pocket", "--teacher", "pocket-teacher", "--model", "pocket", "--max-parallel", "3"]
    return [*words, "--limit", str(limit), "--output", str(output), *more]


def of_this_version(row: dict[str, Any]) -> dict[str, Any]:
    """A row of that version's grpo.jsonl with the columns that ms-swift reads, which it did not have."""
    chat = [{"role": "user", "content": f"<video>{row['prompt']}"}]
    return {**row, "messages": chat, "videos": [row["video"]], "solution": row["answer"]}


def test_the_records_of_a_finished_one_give_the_same_datasets(old: Path) -> None:
    folder = old / "6"
    (sft, _), records = datasets(folder), (folder / "records.jsonl").read_bytes()
    grpo = [of_this_version(row) for row in rows(folder, "grpo.jsonl")]
    for name in ("sft.jsonl", "grpo.jsonl"):
        (folder / name).unlink()
    assert main(command(folder, 6, "--assemble-only")) == 0
    assert datasets(folder)[0] == sft
    assert rows(folder, "grpo.jsonl") == grpo
    assert (folder / "records.jsonl").read_bytes() == records
    assert json.loads((folder / "card.json").read_text())["plan"] is None, "none was made before it"


def test_another_setting_is_refused(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = (old / "4" / "records.jsonl").read_bytes()
    assert main(command(old / "4", 6, "--tau", "0.9")) == 2
    assert "synthesis.tau: the run has 0.75, this command 0.9" in capsys.readouterr().err
    assert (old / "4" / "records.jsonl").read_bytes() == records
    assert json.loads((old / "4" / "card.json").read_text())["questions"]["recorded"] == 4
