"""Accuracy against cost, from hand-made runs at several budgets."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.agent_runs import INDEX, agent_run, agent_trace, unparsed
from tests.support.report_world import answers, planned_run, write_run
from videopro.report.reading import read_runs
from videopro.report.runs import natives_for
from videopro.report.sections import build
from videopro.report.table import MissingRuns, Section, cell_text
from videopro.traces import Cost, Preparation


def costs(*folders: Path) -> Section:
    made, _ = build(read_runs(list(map(str, folders))), ("costs",))
    return made[0]


def test_one_row_a_run_with_its_settings_and_budget(tmp_path: Path) -> None:
    """An index of 8 s shared by four questions: 2 s more each amortised, 8 s more raw."""
    paths = [
        write_run(tmp_path / "8" / "native", answers("AABB"), frames=8),
        write_run(tmp_path / "16" / "native", answers("AAAB"), frames=16),
        write_run(
            tmp_path / "16" / "vca", agent_run("AAAA", prepared=(INDEX,)), method="vca", preset="equal"
        ),
    ]
    table, every, _ = costs(*paths).tables
    rows = {str(row[1]): dict(zip(table.heads, map(cell_text, row), strict=True)) for row in table.rows}
    assert list(rows) == ["Native VideoLLM, 8 frames", "Native VideoLLM, 16 frames", "VCA"]
    vca = rows["VCA"]
    assert (vca["settings"], vca["frames a call"], vca["frames seen"]) == ("equal", "16", "4.0")
    assert (vca["questions"], vca["videos"], vca["tokens in"], vca["tokens out"]) == ("4", "2", "10", "2")
    assert (vca["seconds"], vca["seconds, amortised"], vca["seconds, raw"]) == ("0.75", "2.75", "8.75")
    assert rows["Native VideoLLM, 8 frames"]["settings"] == ""
    kinds = [(str(row[1]), str(row[2])) for row in every.rows]
    assert kinds[-3:] == [("VCA", "own"), ("VCA", "amortised"), ("VCA", "raw")]
    assert kinds[:2] == [(name, "own") for name in list(rows)[:2]]


def test_an_unknown_cost_is_a_lower_bound(tmp_path: Path) -> None:
    unknown = Preparation("index", "v0/old", is_known=False)
    table, *_ = costs(write_run(tmp_path / "v", agent_run("AB", prepared=(unknown,)), method="vca")).tables
    row = dict(zip(table.heads, map(cell_text, table.rows[0]), strict=True))
    assert row["seconds, raw"] == "at least 0.75"
    assert any(note.startswith("At least") for note in table.notes)


def test_what_was_prepared_stands_beside_what_questions_cost(tmp_path: Path) -> None:
    """A transcript of 90 s of sound took 6 s, whichever run made it: 3 s more for each of two questions."""
    heard = Preparation("transcript", "v0", Cost(seconds=6.0), audio_seconds=90.0)
    run = write_run(tmp_path / "v", agent_run("AB", prepared=(heard, INDEX)), method="vca")
    table, _, prepared = costs(run).tables
    row = dict(zip(table.heads, map(cell_text, table.rows[0]), strict=True))
    assert (row["seconds"], row["seconds, amortised"], row["seconds, raw"]) == ("0.75", "7.75", "14.75")
    rows = {
        str(each[2]): dict(zip(prepared.heads, map(cell_text, each), strict=True)) for each in prepared.rows
    }
    assert (rows["transcript"]["how many"], rows["transcript"]["questions that use one"]) == ("1", "2")
    assert (rows["transcript"]["seconds"], rows["transcript"]["minutes of sound"]) == ("6.0", "1.5")
    assert (rows["index"]["seconds"], rows["index"]["minutes of sound"]) == ("8.0", "")
    # A run without any preparation has no such table.
    assert len(costs(write_run(tmp_path / "n", answers("AB"))).tables) == 2


def test_the_planners_own_look_counts_as_frames_shown(tmp_path: Path) -> None:
    section = costs(planned_run(tmp_path / "v"))
    row = dict(zip(section.tables[0].heads, map(cell_text, section.tables[0].rows[0]), strict=True))
    assert row["planner frames"] == "16"


def test_a_fallback_is_taken_from_the_same_budget(tmp_path: Path) -> None:
    """Answers of another number of frames are not what this model would have said."""
    planned = planned_run(tmp_path / "v")
    fitting, other = (
        write_run(tmp_path / name, answers("AAAA"), frames=frames) for name, frames in (("n", 16), ("m", 8))
    )
    for native, expected in ((fitting, True), (other, False)):
        run, direct = read_runs([str(planned), str(native)])
        assert bool(natives_for(run, [run, direct])) is expected


def test_the_picture(tmp_path: Path) -> None:
    """Frames and tokens for each benchmark; a method without an accuracy is not drawn."""
    paths = [
        *(write_run(tmp_path / f"n{n}", answers("AABB"), frames=n) for n in (4, 8, 16)),
        *(
            write_run(tmp_path / f"v{n}", agent_run("AAAB"), method="vca", preset="equal", frames=n)
            for n in (4, 8)
        ),
        write_run(tmp_path / "d", [agent_trace(0, "A", [unparsed()])], method="dvd"),
    ]
    section = costs(*paths)
    assert section.figure is not None
    figure = section.figure.draw()
    labels = [axes.get_xlabel() for axes in figure.axes]
    assert labels == ["frames shown to a model", "tokens in and out, amortised"]
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["VCA (equal)"], "direct answers of these traces list no frames and no tokens"
    said = [cell_text(row[4]) for row in section.tables[0].rows if row[1] == "Deep Video Discovery"]
    assert said == ["needs a language model: 1 of 1 replies could not be parsed"]


def test_an_accuracy_that_says_nothing_is_in_no_other_table(tmp_path: Path) -> None:
    """A letter of an agent whose every reply was unreadable is no gain, pair or bar; "runs" says why."""
    native = write_run(tmp_path / "n", answers("AABB"))
    lost = write_run(
        tmp_path / "d", [agent_trace(number, "A", [unparsed()]) for number in range(4)], method="dvd"
    )
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
