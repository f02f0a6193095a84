"""Runs of the version before the packages were reorganized: they report, compare and show.

tests/support/old_runs holds two of 22 pocket questions, as that version left them (paths shortened, traces
packed):

    python -m videopro.infer --benchmark pocket --split test --model pocket --limit 22 --method native ...
    python -m videopro.infer --benchmark pocket --split test --model pocket --limit 22 --method videopro
        --backbone adapter=pocket-sft batch_size=12 --options together=12 temperature=0 ...
"""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support import ROOT
from videopro.commands import compare, infer
from videopro.commands.report import main as report
from videopro.commands.view import main as view
from videopro.errors import RunError
from videopro.methods.program import REASONED
from videopro.runs import RunFolder

OLD = ROOT / "tests" / "support" / "old_runs"
NAMES = ("native", "videopro")


@pytest.fixture
def runs(tmp_path: Path) -> dict[str, Path]:
    for name in NAMES:
        shutil.copytree(OLD / name, tmp_path / name)
        packed = tmp_path / name / "traces.jsonl.gz"
        traces = [json.loads(line) for line in gzip.decompress(packed.read_bytes()).splitlines()]
        for trace in traces:
            trace["video"]["id"] = ""  # Pocket's films were other bytes then, as often as they were made.
        packed.with_suffix("").write_text("".join(json.dumps(trace) + "\n" for trace in traces))
        packed.unlink()
    return {name: tmp_path / name for name in NAMES}


def summary(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "summary.json").read_text())


def percent(share: float) -> str:
    return f"{100 * share:.1f}"


def command(name: str, folder: Path, **changes: str) -> list[str]:
    settings = {"--method": name, "--split": "test", "--limit": "22", "--output": str(folder), **changes}
    words = ["--benchmark", "pocket", "--model", "pocket"]
    words += [word for pair in settings.items() for word in pair]
    if name == "videopro":
        words += ["--backbone", "adapter=pocket-sft", "batch_size=12"]
        words += ["--options", "max_parallel=12", "temperature=0"]
    return words


def test_traces_are_read(runs: dict[str, Path]) -> None:
    for name, folder in runs.items():
        traces = RunFolder(folder).read()
        lines = (folder / "traces.jsonl").read_text().splitlines()
        assert len(traces) == len(lines) == 22
        for trace, line in zip(traces, map(json.loads, lines), strict=True):
            assert trace.question_id == line["question_id"]
            assert (trace.final is not None and trace.final.letter) == line["final"]["letter"]
            assert len(trace.rounds) == len(line["rounds"])
        if name == "videopro":
            assert sum(trace.refined > 0 for trace in traces) == 3


def test_they_report(runs: dict[str, Path], tmp_path: Path) -> None:
    assert report([*map(str, runs.values()), "--output", str(tmp_path / "report")]) == 0
    text = (tmp_path / "report" / "report.md").read_text()
    for folder in runs.values():
        assert percent(summary(folder)["accuracy"]) in text


def test_they_compare(runs: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert compare.main([*map(str, runs.values())]) == 0
    printed = capsys.readouterr().out
    for folder in runs.values():
        assert percent(summary(folder)["accuracy"]) in printed


def test_they_are_shown(runs: dict[str, Path], tmp_path: Path) -> None:
    assert view([str(runs["videopro"]), "--output", str(tmp_path / "pages")]) == 0
    assert (tmp_path / "pages" / "index.html").exists()
    ids = [json.loads(line)["question_id"] for line in (runs["videopro"] / "traces.jsonl").open()]
    pages = "".join(
        path.read_text() for path in (tmp_path / "pages").rglob("*") if path.suffix in (".js", ".html")
    )
    assert all(name in pages for name in ids)


def test_one_is_not_resumed_as_nobody_knows_what_a_video_was_to_its_model(
    runs: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """All else is the same, and its folder stays as it was."""
    folder = runs["native"]
    before = {path: path.read_bytes() for path in folder.iterdir()}
    assert infer.main(command("native", folder)) == 2
    differences = [line.split(":")[0].strip() for line in capsys.readouterr().err.splitlines()[1:]]
    assert differences == ["model.video_positions", "model.video_prompt"]
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_one_of_the_planner_shipped_before_differs_in_the_planner_only(
    runs: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Old names of settings (`together`) still work."""
    assert infer.main(command("videopro", runs["videopro"])) == 2
    error = capsys.readouterr().err
    differences = [line for line in error.splitlines() if "the run has" in line and "model.video" not in line]
    assert len(differences) == 1
    assert "model.adapter: the run has '87975b8d1f6507e2'" in differences[0]


def began_sampling(folder: Path, planner: str) -> None:
    """As a run recorded itself whose command named no temperature when the paper's was the default."""
    config = yaml.safe_load((folder / "config.yaml").read_text())
    config["identity"]["method"].update(temperature=0.7, planner=planner)
    if planner == "pocket-teacher":
        config["identity"]["method"]["teacher"] = {"planner": planner, "version": 4, "faults": 1.0}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))


def resuming(folder: Path) -> list[str]:
    """The run's command with more questions, without a temperature."""
    words = command("videopro", folder, **{"--limit": "33"})
    return [word for word in words if word != "temperature=0"]


@pytest.mark.parametrize(
    ("planner", "given", "told"),
    [
        ("self", ["reasoned_confidence=none"], ["temperature"]),
        ("self", ["reasoned_confidence=none", "temperature=0.7"], []),
        ("self", ["temperature=0.7"], ["reasoned_confidence"]),
        ("pocket-teacher", [], ["reasoned_confidence"]),
    ],
)
def test_one_that_began_with_the_papers_temperature_goes_on_with_it(
    runs: dict[str, Path], planner: str, given: list[str], told: list[str]
) -> None:
    """The user is told so in one line, unless the command named it or the planner does not sample."""
    began_sampling(runs["videopro"], planner)
    start = infer.check(infer.COMMAND.parse([*resuming(runs["videopro"]), f"planner={planner}", *given]))
    assert start.prepared.method.settings.sampling().temperature == 0.7
    assert [note.split(":")[0] for note in start.prepared.notes] == told


def test_one_whose_reasoned_letters_were_guesses_goes_on_so(runs: dict[str, Path]) -> None:
    """A run of a version that knew no other rule; a new one has another, which it records."""
    words = command("videopro", runs["videopro"], **{"--limit": "33"})
    start = infer.check(infer.COMMAND.parse(words))
    assert start.prepared.method.settings.reasoned_confidence == "none"
    assert "reasoned_confidence" not in start.prepared.method.identity()
    elsewhere = command("videopro", runs["videopro"].with_name("new"))
    new = infer.check(infer.COMMAND.parse(elsewhere)).prepared.method
    assert new.settings.reasoned_confidence == new.identity()["reasoned_confidence"] == REASONED


def test_one_whose_reasoned_letters_were_guesses_takes_no_other_rule(
    runs: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    words = command("videopro", runs["videopro"])
    assert infer.main([*words, "reasoned_confidence=least"]) == 2
    assert "method.reasoned_confidence: the run has nothing, this command 'least'" in capsys.readouterr().err


def test_one_that_began_with_the_papers_temperature_is_not_greedy(runs: dict[str, Path]) -> None:
    began_sampling(runs["videopro"], "self")
    with pytest.raises(RunError, match=r"method\.temperature: the run has 0\.7, this command 0\.0"):
        infer.check(infer.COMMAND.parse([*resuming(runs["videopro"]), "temperature=0"]))


def test_another_setting_is_refused(runs: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    words = command("videopro", runs["videopro"])
    assert infer.main([*words, "tau=0.9"]) == 2
    said = capsys.readouterr().err
    assert "method.tau: the run has 0.75, this command 0.9" in said
