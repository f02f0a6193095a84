"""The files of reports and the command line: forms, figures, one self-contained page, exports, messages."""

import csv
import io
import json
import re
from contextlib import redirect_stdout
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from PIL import Image

from tests.support import view_world
from tests.support.report_world import (
    agent_trace,
    answers,
    direct_round,
    planned_run,
    repaired,
    reply,
    trace,
    unreadable,
    write_run,
)
from videopro.commands.report import main
from videopro.report import writing
from videopro.report.export import fenced_reply
from videopro.report.sections import BUILDERS, PUBLISHED
from videopro.report.table import BENCHMARK, Estimate, Number, Table, as_text, comma_separated
from videopro.traces import Control, Round, Step

MIXED = Table(
    "Shares in % of a_b",
    (BENCHMARK, "run & more", "accuracy, %", "n"),
    (
        ("pocket test", "a | b_1", Estimate(81.25, 70.04, 90.96), 12),
        ("pocket test", "c {x}", Estimate(2.5, -1.04, 6.0, signed=True), Number(1234.567, 1)),
        ("pocket test", "", None, None),
    ),
    ("A note with 5 %.",),
)


# ---- forms -----------------------------------------------------------------------------------------------


def test_markdown() -> None:
    lines = [re.sub(" +", " ", line) for line in as_text(MIXED).grid(is_padded=True).splitlines()]
    # The benchmark is the same in every row, so it is in the title alone; bars are escaped.
    assert lines[0] == "| run & more | accuracy, % | n |"
    assert re.fullmatch(r"\|:-+\|-+:\|-+:\|", lines[1])
    assert lines[2:] == [
        "| a \\| b_1 | 81.2 (70.0 to 91.0) | 12 |",
        "| c {x} | +2.5 (-1.0 to 6.0) | 1,234.6 |",
        "| | | |",
    ]


def test_latex() -> None:
    text = as_text(MIXED, dash="--").latex("tab:x")
    assert text.count("\\begin{table}") == text.count("\\end{table}") == 1
    for rule in ("\\toprule", "\\midrule", "\\bottomrule", "\\label{tab:x}", "\\begin{tabular}{lrr}"):
        assert text.count(rule) == 1
    assert "run \\& more" in text
    assert "a | b\\_1" in text
    assert "c \\{x\\}" in text
    assert "81.2 (70.0--91.0)" in text
    assert "\\caption{Shares in \\% of a\\_b, pocket test. A note with 5 \\%.}" in text
    body = text.partition("\n")[2]  # the first line is a comment
    assert not re.search(r"(?<!\\)[%&_](?![^\n]*\\\\)", body), "nothing that LaTeX would read as its own"


def test_comma_separated() -> None:
    rows = list(csv.reader(io.StringIO(comma_separated(MIXED))))
    head = ["accuracy, %", "accuracy, %, low", "accuracy, %, high"]
    assert rows[0] == ["benchmark", "run & more", *head, "n"]
    assert rows[1] == ["pocket test", "a | b_1", "81.25", "70.04", "90.96", "12"]
    assert rows[2][2:] == ["2.5", "-1.04", "6.0", "1234.567"]
    assert rows[3][2:] == ["", "", "", ""]


# ---- a report --------------------------------------------------------------------------------------------


def write_runs(folder: Path) -> Path:
    """Direct answers, a run with refinement, one without a group of modules."""
    write_run(folder / "native", [*answers("ABBA", minutes=(1, 5, 5, 20)), unreadable(9)])
    planned_run(folder / "videopro", refine_below=0.9)
    cut = [trace(i, [direct_round("A", 0.7)]) for i in range(4)]
    write_run(folder / "without", cut, method="adaptive", without=["context"])
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


class Report(NamedTuple):
    """A report of these runs: their folder, its own, and what was printed."""

    runs: Path
    folder: Path
    printed: str


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    runs = write_runs(tmp_path_factory.mktemp("reported") / "runs")
    before = contents(runs)
    output, printed = runs.parent / "report", io.StringIO()
    with redirect_stdout(printed):
        assert main([str(runs), "--title", "Runs <of> today", "--output", str(output)]) == 0
    assert contents(runs) == before, "they are only read"
    return Report(runs, output, printed.getvalue())


def test_a_report_and_its_files(report: Report) -> None:
    output = report.folder
    assert "left out: metrics" in report.printed
    made = ["main", "efficiency", "costs", "modules", "training", "modes", "confidence", "tau", "durations"]
    for name in (*made, "pairs", "runs"):
        files = {path.suffix for path in (output / "tables").glob(f"{name}.*")}
        assert files == {".md", ".tex", ".csv"}, name
    assert [path.name for path in sorted((output / "tables").glob("*_*"))] == [
        "confidence_bins.csv",
        *(f"confidence_risk.{form}" for form in ("csv", "md", "tex")),
        *(f"costs_all.{form}" for form in ("csv", "md", "tex")),
        "pairs_changed.csv",
    ]
    for name in ("costs", "modes", "confidence", "tau", "durations"):
        picture = Image.open(output / "figures" / f"{name}.png").convert("RGB")
        assert min(picture.size) > 200
        assert len(picture.getcolors(picture.width * picture.height)) > 20, f"{name} is blank"
        assert (output / "figures" / f"{name}.pdf").read_bytes().startswith(b"%PDF")
        assert b"<svg" in (output / "figures" / f"{name}.svg").read_bytes()
    text = (output / "report.md").read_text()
    for picture_path in re.findall(r"\]\((figures/[^)]+)\)", text):
        assert (output / picture_path).exists()
    assert "## Main results (Table 1)" in text


def test_the_papers_numbers_are_below_the_runs_own(
    report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Figures show none of them, and to write them takes most of the time.
    monkeypatch.setattr(writing, "_picture", lambda figure, ending: b"")
    output = tmp_path / "report"
    assert main([str(report.runs), "--published", "--output", str(output)]) == 0
    found = {path.name for path in (output / "tables").glob("*_published.md")}
    assert found == {f"{name}_published.md" for name in PUBLISHED}
    text = (output / "report.md").read_text()
    assert text.index("## Module ablation (Table 3)") < text.index("**As published: Table 3 of the paper**")
    assert "| without localization |" in text


def test_the_papers_numbers_agree_with_each_other() -> None:
    """The paper states many of them twice: means of rows, differences, and cells of several tables."""

    def numbers(name: str, row: int) -> list[float]:
        return [cell.value for cell in PUBLISHED[name].rows[row] if isinstance(cell, Number)]

    for row in range(4):
        *parts, mean = numbers("main", row)
        assert mean == pytest.approx(sum(parts) / 4, abs=0.051)
    for native, ours, gain in ((0, 1, "+4.9"), (2, 3, "+6.7")):
        assert float(gain) == pytest.approx(numbers("main", ours)[-1] - numbers("main", native)[-1])
        assert PUBLISHED["main"].rows[ours][-1] == gain
    whole, reached = numbers("modules", 0), numbers("training", 1)
    for row in PUBLISHED["modules"].rows[1:]:
        for value, gap, all_modules in zip(row[1::2], row[2::2], whole, strict=True):
            assert isinstance(value, Number)
            assert float(str(gap)) == pytest.approx(value.value - all_modules)
    assert whole == numbers("training", 0)[::2]
    accuracies = [numbers("efficiency", row)[0] for row in range(8)]
    assert accuracies[2:4] + accuracies[6:] == reached
    # Native and final: the row of Table 1 too, whose first two columns are these benchmarks in turn.
    assert [accuracies[4], accuracies[0]] == numbers("main", 2)[:2]
    assert [accuracies[7], accuracies[3]] == numbers("main", 3)[:2]
    for row in range(2):
        assert sum(numbers("modes", row)[:2]) == pytest.approx(100)


def test_the_page_holds_all_that_it_shows(report: Report) -> None:
    text = (report.folder / "report.html").read_text()
    for tag in ("table", "section", "figure", "tr", "td", "th"):
        assert len(re.findall(f"<{tag}[ >]", text)) == text.count(f"</{tag}>")
    assert text.count('src="data:image/svg+xml;base64,') == len(re.findall(r"\bsrc=", text)) == 5
    sections = set(BUILDERS) - {"metrics", "open", "citations"}
    assert set(re.findall(r'href="#(\w+)"', text)) == sections
    assert set(re.findall(r'\bid="(\w+)"', text)) == {*sections, "theme"}
    assert "<title>Runs &lt;of&gt; today</title>" in text
    assert "<script" not in text
    # Every caption says how many videos there are; a header is aligned with its numbers.
    counted = re.findall(
        r"questions about \d+(?: to \d+)? videos\.(?: Left out of the accuracy: [^<]+\.)?</figcaption>", text
    )
    assert text.count("</figcaption>") == len(counted)
    assert '<th class="n">difference</th>' in text


def test_selected_tables_only_and_the_same_again(report: Report, tmp_path: Path) -> None:
    words = [str(report.runs / "videopro"), "--tables", "tau", "--taus", "0.5", "0.6", "--output"]
    for name in ("a", "b"):
        assert main([*words, str(tmp_path / name)]) == 0
    made = contents(tmp_path / "a")
    assert made == contents(tmp_path / "b")
    assert [row["tau"] for row in csv.DictReader(io.StringIO(made["tables/tau.csv"].decode()))] == [
        *("0.50", "0.60")
    ]
    assert [name for name in made if name.endswith(".png")] == ["figures/tau.png"]


def test_what_answers_cite(tmp_path: Path) -> None:
    """Of five answers the refined one has a clue, 2 to 3 s, where its clip and its subtitle are. A direct one
    that looked at 0 and 10 s, of which nothing lies between, finds one of the two parts of its clue."""
    *others, refined = [each for each in view_world.traces(tmp_path) if each.error is None]
    direct = replace(others[0], evidence=((9.0, 11.0), (30.0, 31.0)))
    run = write_run(tmp_path / "run", [direct, *others[1:], refined])
    words = [str(run), "--tables", "citations", "--output", str(tmp_path / "out")]
    assert main(words) == 0
    (row,) = csv.DictReader((tmp_path / "out" / "tables" / "citations.csv").open())
    assert (row["answers"], row["with a clue"]) == ("5", "2")
    assert float(row["clue found, %"]) == pytest.approx(100 * (1 + 1 / 2) / 2)
    assert float(row["tIoU, %"]) == pytest.approx(100 * (1 + 0) / 2)
    assert not (tmp_path / "out" / "tables" / "citations_controls.csv").exists()


def test_how_many_letters_move_in_the_controls(tmp_path: Path) -> None:
    """Four answers A: without what they cite one is B, one none, one stays, and one replay fails; with that
    alone all stay."""
    without = (Control("B"), Control(None), Control("A"), Control(failure="NotFoundError"))
    traces = []
    for number, control in enumerate(without):
        round = direct_round("A", 0.9)
        controls = {"without": control, "alone": Control("A")}
        controlled = replace(round, execution=replace(round.execution, controls=controls))
        traces.append(replace(trace(number, [controlled]), evidence=((0.0, 1.0),)))
    run = write_run(tmp_path / "run", traces)
    assert main([str(run), "--tables", "citations", "--output", str(tmp_path / "out")]) == 0
    (row,) = csv.DictReader((tmp_path / "out" / "tables" / "citations_controls.csv").open())
    assert (row["without it, n"], row["without it: failed"]) == ("3", "1")
    assert float(row["without it: moved, %"]) == pytest.approx(100 * 2 / 3)
    assert (row["alone, n"], row["alone: failed"], float(row["alone: moved, %"])) == ("4", "0", 0.0)


# ---- other harnesses -------------------------------------------------------------------------------------


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """Right, wrong, of unknown answer, unreadable; and one that was refined."""
    unknown = trace(2, [direct_round("A", 0.5)], gold=None)
    native = [trace(0, [direct_round("A", 0.9)]), trace(1, [direct_round("B", 0.4)]), unknown, unreadable(3)]
    return write_run(tmp_path / "mixed", native)


def exported(run: Path, kind: str) -> Path:
    output = run.parent / "out" / kind
    assert main([str(run), "--export", kind, "--output", str(output)]) == 0
    if kind == "lmms-eval":
        return output
    (log,) = output.iterdir()
    return log


def test_lmms_eval_lines(mixed: Path) -> None:
    """As lmms-eval 0.7.3 writes them: EvolvingLMMs-Lab/lmms-eval, lmms_eval/evaluator.py (logged_sample) and
    lmms_eval/loggers/evaluation_tracker.py (save_results_samples)."""
    lines = [json.loads(line) for line in exported(mixed, "lmms-eval").read_text().splitlines()]
    assert [line["doc_id"] for line in lines] == ["q0", "q1", "q2", "q3"]
    for line in lines:
        assert {"doc_id", "target", "resps", "filtered_resps", "doc_hash", "input", "token_counts"} <= set(
            line
        )
        assert re.fullmatch("[0-9a-f]{64}", line["doc_hash"])
        assert line["input"].endswith("?\nA. one\nB. two")
    assert (lines[1]["target"], lines[1]["resps"], lines[1]["filtered_resps"]) == ("A", [["B"]], ["B"])
    assert [line.get("videopro_score") for line in lines] == [1.0, 0.0, None, None]
    assert len({line["doc_hash"] for line in lines}) == 4


def inspect_log(run: Path) -> dict[str, Any]:
    found = json.loads(exported(run, "inspect").read_text())
    assert isinstance(found, dict)
    return found


def said(sample: dict[str, Any]) -> list[tuple[str, str]]:
    return [(message["role"], message["content"]) for message in sample["messages"]]


def test_inspect_log(mixed: Path) -> None:
    log = inspect_log(mixed)
    told = (log["version"], log["status"], log["eval"]["task"], log["eval"]["model"])
    assert told == (2, "success", "pocket_test", "tiny")
    (score,) = log["results"]["scores"]
    assert score["metrics"]["accuracy"]["value"] == 0.5
    assert (score["scored_samples"], score["unscored_samples"]) == (2, 2)
    values = [sample.get("scores", {}).get("videopro", {}).get("value") for sample in log["samples"]]
    assert values == ["C", "I", None, None]
    assert "no such file" in log["samples"][3]["error"]["message"]


def test_inspect_shows_programs_and_their_outcomes(tmp_path: Path) -> None:
    log = inspect_log(planned_run(tmp_path / "v"))
    assert len(log["samples"]) == 4
    refined, reply = log["samples"][2], ("assistant", f"{'x' * 10}\n\n```python\ncode\n```")
    assert said(refined) == [
        *(("user", "What is 2?\nA. one\nB. two"), reply, ("user", "failed: NameError: no such name")),
        *(reply, ("user", "answer A, confidence 0.950")),
    ]
    assert refined["messages"][1]["metadata"]["reply"] == "x" * 10
    assert refined["output"]["usage"] == {"input_tokens": 0, "output_tokens": 200, "total_tokens": 200}
    assert refined["model_usage"] == {"tiny": refined["output"]["usage"]}
    # Two rounds of 0.5 s for the program and 1 s for running it, and 0.25 s of the video's.
    assert refined["total_time"] == refined["working_time"] == 3.25
    assert refined["metadata"]["refined"] == 1


def test_inspect_finds_its_log_by_name(mixed: Path) -> None:
    """TIME_TASK_ID.json, parts without underscores (inspect_ai 0.3.285, inspect_ai/log/_file.py). Answered
    one after the other, the questions took 3 times 1.25 s."""
    ended = datetime.fromtimestamp((mixed / "traces.jsonl").stat().st_mtime, UTC).replace(microsecond=0)
    log = inspect_log(mixed)
    (path,) = (mixed.parent / "out" / "inspect").iterdir()
    assert log["stats"]["completed_at"] == ended.isoformat()
    began = datetime.fromisoformat(log["stats"]["started_at"])
    assert (ended - began).total_seconds() == round(3 * 1.25)
    time, task, key = path.stem.split("_")
    assert time == f"{began:%Y-%m-%dT%H-%M-%S}+00-00"
    assert task.startswith("pocket-test")
    assert key == log["eval"]["task_id"] == yaml.safe_load((mixed / "config.yaml").read_text())["run_key"]


def test_a_program_is_fenced_whatever_it_holds() -> None:
    program = 'print("```")'
    reply = f"<planning>\nlook\n</planning>\n<code>\n{program}\n</code>"
    assert fenced_reply(Round("plan", reply, program)) == f"look\n\n````python\n{program}\n````"
    assert fenced_reply(Round("plan", "no program")) == "no program"


def test_exports_show_the_steps_of_an_agent(tmp_path: Path) -> None:
    """Requests, replies, repairs and tools, in order; counts in lmms-eval's lines."""
    steps = [repaired(), Step("retrieve", args={"key": "ball"}, result="3"), reply(times=(1, 2))]
    path = write_run(tmp_path / "a", [agent_trace(0, "A", steps)], method="vca")
    (sample,) = inspect_log(path)["samples"]
    assert said(sample)[1:] == [
        *(
            ("user", "predict?"),
            ("assistant", "no"),
            ("user", "could not be parsed: there is no JSON object"),
        ),
        *(("assistant", "{}"), ("tool", "3"), ("user", "predict?"), ("assistant", "{}")),
    ]
    assert sample["metadata"]["frames_seen"] == 2
    (line,) = map(json.loads, exported(path, "lmms-eval").read_text().splitlines())
    assert (line["steps"], line["unparsed"], line["frames_seen"]) == (3, 0, 2)
