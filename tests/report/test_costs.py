"""Accuracy against cost, from hand-made runs at several budgets."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.agent_runs import INDEX, agent_run, agent_trace, unparsed
from tests.support.report_world import answers, planned_run, write_run
from videopro.report.reading import read_runs
from videopro.report.runs import natives_for
from videopro.report.sections import build
from videopro.report.table import MissingRuns, Section, Table, cell_text
from videopro.traces import Cost, Preparation


def costs(*folders: Path) -> Section:
    made, _ = build(read_runs(list(map(str, folders))), ("costs",))
    return made[0]


def rows_of(table: Table, place: int) -> dict[str, dict[str, str]]:
    """The cells of each row by heading, by what stands in one place."""
    found = {}
    for row in table.rows:
        found[str(row[place])] = dict(zip(table.heads, map(cell_text, row), strict=True))
    return found


def only_row(section: Section) -> dict[str, str]:
    (row,) = rows_of(section.tables[0], 1).values()
    return row


def test_what_was_prepared_stands_beside_what_questions_cost(tmp_path: Path) -> None:
    """A transcript of 90 s of sound took 6 s, whichever run made it: 3 s more for each of two questions."""
    heard = Preparation("transcript", "v0", Cost(seconds=6.0), audio_seconds=90.0)
    run = write_run(tmp_path / "v", agent_run("AB", prepared=(heard, INDEX)), method="vca")
    section = costs(run)
    row, rows = only_row(section), rows_of(section.tables[2], 2)
    assert (row["seconds"], row["seconds, amortised"], row["seconds, raw"]) == ("0.75", "7.75", "14.75")
    assert (row["frames seen"], row["videos"], row["tokens in"], row["tokens out"]) == ("4.0", "1", "10", "2")
    transcript = rows["transcript"]
    assert (transcript["how many"], transcript["questions that use one"]) == ("1", "2")
    assert (transcript["seconds"], transcript["minutes of sound"]) == ("6.0", "1.5")
    assert (rows["index"]["seconds"], rows["index"]["minutes of sound"]) == ("8.0", "")
    # A run without any preparation has no such table.
    assert len(costs(write_run(tmp_path / "n", answers("AB"))).tables) == 2


def test_a_fallback_is_taken_from_the_same_budget(tmp_path: Path) -> None:
    """Answers of another number of frames are not what this model would have said."""
    planned = planned_run(tmp_path / "v")
    assert only_row(costs(planned))["planner frames"] == "16", "its own look counts as frames shown"
    for frames, is_taken in ((16, True), (8, False)):
        native = write_run(tmp_path / str(frames), answers("AAAA"), frames=frames)
        run, direct = read_runs([str(planned), str(native)])
        assert bool(natives_for(run, [run, direct])) is is_taken


def test_an_accuracy_that_says_nothing_is_in_no_other_table(tmp_path: Path) -> None:
    """A letter of an agent whose every reply was unreadable is no gain, pair or bar; "runs" says why."""
    native = write_run(tmp_path / "n", answers("AABB"))
    forced = [agent_trace(number, "A", [unparsed()]) for number in range(4)]
    lost = write_run(tmp_path / "d", forced, method="dvd")
    said = "needs a language model: 4 of 4 replies could not be parsed"
    made, _ = build(read_runs([str(native), str(lost)]), ("main", "durations", "runs"))
    named = {section.name: [str(row[0]) for row in section.tables[0].rows] for section in made}
    assert "Deep Video Discovery" not in named["main"]
    assert f"Left out: Deep Video Discovery, which {said}." in made[0].notes
    (row,) = [row for row in made[-1].tables[0].rows if row[0] == "Deep Video Discovery"]
    own = dict(zip(made[-1].tables[0].heads, row, strict=True))
    assert (own["accuracy, %"], own["official, %"]) == (said, None)
    with pytest.raises(MissingRuns, match="pairs: no two runs"):
        build(read_runs([str(native), str(lost)]), ("pairs",))
