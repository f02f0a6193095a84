"""Tables in a terminal: numbers are whole at 80 columns, names wrap, and few videos have no interval."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.support.report_world import answers, planned_run, write_run
from videopro.cli import TextTable
from videopro.commands import compare
from videopro.methods import create
from videopro.runs import RunFolder, recorded_protocol, summarize, summary_table
from videopro.traces import Trace

ABOUT = {"benchmark": "pocket", "split": "test", "model": "tiny", "method": "native", "subtitles": "none"}


def printed(table: object, width: int) -> list[str]:
    file = io.StringIO()
    Console(file=file, width=width).print(table)
    return [line.rstrip() for line in file.getvalue().splitlines()]


def summary_lines(folder: Path, traces: list[Trace], **about: Any) -> str:
    run = RunFolder(write_run(folder, traces))
    summary = summarize(run.read(), recorded_protocol(run), {**ABOUT, **about})
    return " ".join(" ".join(printed(summary_table(summary, (), folder), 80)).split())


def test_a_run_with_a_limit_in_seconds_is_marked(tmp_path: Path) -> None:
    for limits, is_marked in (({"seconds": 9}, True), ({"calls": 9}, False)):
        settings = create("native", limits).identity()
        shown = summary_lines(tmp_path / str(is_marked), answers("A"), settings=settings)
        assert ("not reproducible: --seconds" in shown) is is_marked


def test_names_wrap_beside_whole_numbers() -> None:
    table = TextTable(
        "a title",
        ("", "accuracy %", "95 % interval"),
        (("a-name of words", "12.5", "-12.5 to 100.0"),),
        ("one two three four five six seven eight",),
        frozenset(("95 % interval",)),
    )
    # The numbers take 8 + 14 and two gaps of 2, so 12 columns are left for the name.
    assert printed(table, 38) == [
        "a title",
        "           accuracy",
        "                  %  95 % interval",
        "─" * 35,
        "a-name of      12.5  -12.5 to 100.0",
        "words",
        "one two three four five six seven",
        "eight",
        "",
    ]
    assert "a-name of words      12.5  -12.5 to 100.0" in printed(table, 80)
    # Too narrow for the numbers: they wrap, but nothing is cut.
    narrow = printed(table, 24)
    assert max(map(len, narrow)) <= 24
    assert sorted("".join("".join(narrow[4:7]).split())) == sorted("a-nameofwords12.5-12.5to100.0")


def test_a_table_in_markdown() -> None:
    table = TextTable("A title", ("", "n", "of"), (("a | b", "1", "x"),), ("caption",), frozenset(("of",)))
    rows = ("|  | n | of |", "| --- | ---: | --- |", "| a \\| b | 1 | x |")
    assert table.markdown == "\n".join(("**A title**", "", *rows, "", "caption", ""))


def test_a_summary_counts_videos_and_shows_no_interval_of_few(tmp_path: Path) -> None:
    """Two questions a video: eight about four videos, ten about five; six of them are right."""
    few = summary_lines(tmp_path / "few", answers("AAAAAABB"))
    assert "all 8 4 75.0 - 75.0" in few
    assert few.count("no interval from fewer than five videos") == 1
    enough = summary_lines(tmp_path / "enough", answers("AAAAAABBBB"))
    assert "no interval" not in enough
    low, high = enough.partition("all 10 5 60.0 ")[2].split()[0:3:2]
    assert float(low) < 60 < float(high)


def write_comparison(folder: Path, method: str = "native") -> Path:
    """Two runs with a summary each, the second of this method: the planned one is the first by name."""
    planned_run(folder / "a-planned")
    write_run(folder / "b-native", answers("ABBA"))
    for name, own in (("a-planned", "videopro"), ("b-native", method)):
        run = RunFolder(folder / name)
        settings = (run.recorded_identity() or {})["method"]
        about = {**ABOUT, "model": "org/tiny", "method": own, "settings": settings}
        about |= {"protocol": "", "run_key": run.key()}
        summary = summarize(run.read(), recorded_protocol(run), about)
        run.summary.write_text(json.dumps(summary))
    return folder


def test_a_folder_of_runs_is_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Direct answers first; without a terminal the tables are 80 wide."""
    assert compare.main([str(write_comparison(tmp_path / "runs"))]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    first = next(number for number, line in enumerate(lines) if set(line.strip()) == {"─"})
    assert lines[first + 1].split() == ["b-native", "4", "2", "50.0", "-"]
    # Right: q0, q1 and q2 of the planned run, q0 and q3 of the direct answers.
    assert lines[first + 2].split() == ["a-planned", "4", "2", "75.0", "-", "+25.0", "-"]
    text = " ".join(" ".join(lines).split())
    assert text.count("no interval from fewer than five videos") == 1
    # Six programs of 100 tokens for four questions; direct answers have no planner.
    costs = [line.split()[-1] for line in lines if line.startswith(("b-native", "a-planned"))]
    assert costs[-2:] == ["0", "150"]


def test_runs_of_one_name_are_told_apart_and_an_unknown_method_comes_last(tmp_path: Path) -> None:
    folders = [write_comparison(tmp_path / "x"), write_comparison(tmp_path / "y", "mine")]
    found = [run.name for run in compare.read_comparison_runs(folders)]
    assert found == ["x/b-native", "x/a-planned", "y/a-planned", "y/b-native"]
