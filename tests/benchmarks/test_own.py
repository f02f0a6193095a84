"""Benchmarks that are a file: found, run, changed, broken, gone, and offered by a package."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from tests.support.benchmark_runs import in_this_process as in_this_process
from tests.support.benchmark_runs import infer
from tests.support.fakes import make_video
from videopro.benchmarks import BENCHMARKS, load
from videopro.commands import seeds
from videopro.commands.benchmarks.command import main as benchmarks_main
from videopro.commands.report import main as report_main
from videopro.commands.view import main as view_main
from videopro.errors import BenchmarkError
from videopro.runs.making import Supervisor
from videopro.traces import read_traces

FILE = '''"""Colours: which colour is it?"""

from videopro.benchmarks import AnswerPrompt, BenchmarkSpec, Item, Metric, Protocol, Question, each_row
from videopro.benchmarks import text, texts

PROMPT = AnswerPrompt(source="none", text="{question}\\n{options}\\nSay it.", option="{letter}: {text}")
PROTOCOL = Protocol(
    "first letter",
    name="written",
    answer_prompt=PROMPT,
    reply="text",
    groups=("kind",),
    metrics=(Metric("by kind", kind="macro", over="kind"),),
)


def rows(source, split):
    return source.rows(f"{split}.json", hub=("colours", split))


def item(record, source, split):
    return Item(
        id=text(record, "id"),
        video=source.files.video(text(record, "video"), "videos"),
        video_key=text(record, "video"),
        question=Question(text(record, "question"), texts(record, "choices")),
        answer=record["answer"],
        groups={"kind": record["kind"]},
    )


def first_letter(reply, question):
    return reply.strip("( ")[:1] or None


PARSERS = {"first letter": first_letter}
BENCHMARK = BenchmarkSpec(
    "colours", ("test", "val"), (PROTOCOL,), each_row(rows, item), "test.json", parsers=PARSERS
)
'''


def record(number: int, video: str, answer: str, **changes: object) -> dict[str, object]:
    return {
        "id": f"q{number}",
        "video": video,
        "question": f"Which colour ({number})?",
        "choices": ["red", "green", "blue", "grey"],
        "answer": answer,
        "kind": "odd" if number % 2 else "even",
        **changes,
    }


RECORDS = [record(1, "one", "A"), record(2, "two", "B"), record(3, "two", "C")]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file of a benchmark; its folder is `root`, beside it."""
    path = tmp_path / "colours.py"
    path.write_text(FILE)
    (tmp_path / "root").mkdir()
    (tmp_path / "root/test.json").write_text(json.dumps(RECORDS))
    make_video(tmp_path / "root/videos/one.mp4", "red")
    make_video(tmp_path / "root/videos/two.mp4", "green")
    return path


def run(file: Path, name: str = "run", *more: str) -> int:
    return infer(file.parent / "root", file.parent / name, "--benchmark", str(file), *more)


# ---- a run, and what is made of it ------------------------------------------------------------------------


def test_a_run_and_its_folder_when_the_file_is_gone(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert benchmarks_main(["check", str(file), "--root", str(tmp_path / "root")]) == 0
    assert "colours, split 'test', protocol 'written'" in capsys.readouterr().out
    assert benchmarks_main(["list", str(file)]) == 0
    assert "written" in capsys.readouterr().out
    assert run(file) == 0
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    # Red and green are said; the third answer is annotated as blue.
    assert (summary["benchmark"], summary["n"], summary["accuracy"]) == ("colours", 3, pytest.approx(2 / 3))
    assert summary["official_accuracy"] == pytest.approx(2 / 3)
    assert summary["metrics"]["by kind"]["robust"] == pytest.approx((1 / 2 + 1) / 2)
    (first, *_) = sorted(read_traces(tmp_path / "run/traces.jsonl"), key=lambda trace: trace.question_id)
    assert first.official == "A"
    # The same command, also from another folder, finds the run finished.
    assert run(file) == 0
    moved = tmp_path / "elsewhere" / "colours.py"
    moved.parent.mkdir()
    file.rename(moved)
    assert infer(tmp_path / "root", tmp_path / "run", "--benchmark", str(moved)) == 0
    moved.unlink()
    assert report_main([str(tmp_path / "run"), "--tables", "main", "--output", str(tmp_path / "report")]) == 0
    (row,) = csv.DictReader((tmp_path / "report/tables/main.csv").open())
    assert any(head.startswith("colours test") for head in row)
    rows = [f"one={tmp_path}/run", f"two={tmp_path}/run"]
    assert seeds.main([*rows, "--output", str(tmp_path / "seeds.json")]) == 0
    assert view_main([str(tmp_path / "run"), "--output", str(tmp_path / "site")]) == 0
    assert "Which colour (1)?" in "".join(
        path.read_text()
        for path in (tmp_path / "site").rglob("*")
        if path.suffix in (".json", ".js", ".html")
    )
    assert benchmarks_main(["submit", str(tmp_path / "run"), "--output", str(tmp_path / "answers.json")]) == 0
    assert json.loads((tmp_path / "answers.json").read_text()) == {"q1": "A", "q2": "B", "q3": "B"}
    assert benchmarks_main(["submit", str(tmp_path / "run"), "--output", str(tmp_path / "answers.csv")]) == 0
    assert (tmp_path / "answers.csv").read_text() == "id,answer\nq1,A\nq2,B\nq3,B\n"


def test_a_changed_file_cannot_resume(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(file, "run", "--limit", "1") == 0
    file.write_text(FILE.replace("Say it.", "Say the colour."))
    assert run(file) == 2
    error = capsys.readouterr().err
    assert "protocol.answer_prompt" in error
    assert "protocol.version" in error
    # A change that the protocol does not show is one too.
    file.write_text(FILE.replace("[:1]", "[:2]"))
    assert run(file) == 2
    assert "protocol.version (of the benchmark's files): the run has" in capsys.readouterr().err
    file.write_text(FILE)
    assert run(file) == 0


def test_beside_other_benchmarks(file: Path, tmp_path: Path) -> None:
    """Of several, each is read from ROOT/NAME and run into OUTPUT/NAME, by the name in the file."""
    (tmp_path / "root").rename(tmp_path / "colours")
    (tmp_path / "root").mkdir()
    (tmp_path / "colours").rename(tmp_path / "root/colours")
    (tmp_path / "root/intentqa/Videos").mkdir(parents=True)
    head = "video_id,question,answer,qid,type,a0,a1,a2,a3,a4"
    row = "one,which,0,1,CW,red,green,blue,grey,none"
    (tmp_path / "root/intentqa/test.csv").write_text(f"{head}\n{row}\n")
    make_video(tmp_path / "root/intentqa/Videos/one.mp4", "red")
    assert infer(tmp_path / "root", tmp_path / "runs", "--benchmark", str(file), "intentqa") == 0
    assert {path.name for path in (tmp_path / "runs").iterdir()} == {"colours", "intentqa"}
    assert json.loads((tmp_path / "runs/intentqa/summary.json").read_text())["accuracy"] == 1.0


def test_questions_of_the_hub(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets")
    asked = []

    def rows(repo: str, config: str | None, *, split: str) -> list[dict[str, object]]:
        asked.append((repo, config, split))
        return RECORDS[:1]

    monkeypatch.setattr(datasets, "load_dataset", rows)
    flags = {"root": tmp_path / "root", "annotations": "hf:me/colours", "split": "val"}
    (item,) = load(str(file), **flags).items  # type: ignore[arg-type]
    assert asked == [("me/colours", "colours", "val")]
    assert item.video == tmp_path / "root/videos/one.mp4"


# ---- what is wrong, and where -----------------------------------------------------------------------------


def line_of(text: str, content: str = FILE) -> int:
    return content[: content.index(text)].count("\n") + 1


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("groups=(", "groups=((", "'(' was never closed"),
        ("def rows(source, split):", "1 / 0\n\n\ndef rows(source, split):", "ZeroDivisionError: division by"),
        ("Question, each", "Questions, each", "ImportError: cannot import name 'Questions'"),
        ('"first letter",\n', '"frst letter",\n', "no parser is named 'frst letter'; did you mean 'first"),
        ("{options}", "{option}", "the prompt has no slot {option}; did you mean 'options'?"),
        (
            'reply="text"',
            'reply="txt"',
            "reply: Input should be 'letter', 'text' or 'intervals', not 'txt'",
        ),
        ('reply="text"', 'subtitles="al"', "subtitles: Input should be 'none',"),
        ('("kind",)', '("kind")', "groups: Input should be a valid tuple, not 'kind'"),
        ('over="kind"),)', 'over="kind"))', 'metrics: Input should be a valid tuple, not "Metric('),
        (
            'kind="macro", over',
            'kind="makro", over',
            "metrics.0.kind: Input should be 'accuracy', 'macro',",
        ),
        ('over="kind"', 'over="kind", of=("a")', "metrics.0.of: Input should be a valid tuple, not 'a'"),
        (
            'kind="macro"',
            'kind="grade"',
            "metric 'by kind': is of a judge's grades; give the protocol a judge",
        ),
        (
            'over="kind"',
            'over="kind", at=0.5',
            "metric 'by kind': at is 0.5; only a metric of kind 'grounding'",
        ),
        (', over="kind"', "", "metric 'by kind': needs over, the kind of its groups"),
        (
            "answer_prompt=PROMPT",
            "answer_prompt=PROMPT.text",
            "should be an instance of AnswerPrompt",
        ),
        ('"colours", (', '"my colours", (', "give a name of letters"),
        ('"colours", (', '"jsonl", (', "the name is taken"),
        ('("test", "val")', '"test"', "splits must be a tuple, not 'test'"),
        ("(PROTOCOL,)", "()", "at least one split and one protocol"),
        ('reply="text"', 'subtitles="all"', "shows subtitles; name their folders with subtitle_folders"),
        ("(PROTOCOL,)", "(PROTOCOL, PROTOCOL)", "each protocol a name of its own"),
        (
            "BENCHMARK =",
            "BENCHMARK = 1 or",
            "defines no benchmark; a benchmark is a BenchmarkSpec; assign one to",
        ),
        (
            "BENCHMARK =",
            "OTHER = BenchmarkSpec('x', ('a',), (PROTOCOL,), rows, '', parsers=PARSERS)\nBENCHMARK =",
            "several (x, colours)",
        ),
    ],
)
def test_a_file_that_describes_nothing(old: str, new: str, expected: str, file: Path) -> None:
    content = FILE.replace(old, new)
    assert content != FILE
    file.write_text(content)
    with pytest.raises(BenchmarkError) as raised:
        BENCHMARKS.find(str(file))
    message = str(raised.value)
    assert message.startswith(str(file))
    assert expected in message
    if "BENCHMARK" not in old:
        assert f"{file}, line " in message


def test_an_error_of_the_code_names_line_and_record(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = [RECORDS[0], {key: value for key, value in RECORDS[1].items() if key != "kind"}]
    (tmp_path / "root/test.json").write_text(json.dumps(bad))
    with pytest.raises(BenchmarkError) as raised:
        load(str(file), root=tmp_path / "root")
    line = line_of('record["kind"]')
    assert str(raised.value) == (
        f"{file}, line {line}: KeyError: 'kind' (at {tmp_path}/root/test.json, record 2); correct the file"
    )
    # A field that is read with a function makes a broken record, as for the public benchmarks.
    (tmp_path / "root/test.json").write_text(json.dumps([RECORDS[0], record(2, "two", "B", question=3.5)]))
    with pytest.raises(
        BenchmarkError, match=r"test.json, record 2: field 'question' is 3.5; it must be a te"
    ):
        load(str(file), root=tmp_path / "root")
    assert len(load(str(file), root=tmp_path / "root", skip_broken=True).items) == 1
    assert benchmarks_main(["check", str(tmp_path / "none.py"), "--root", str(tmp_path / "root")]) == 2
    assert "none.py cannot be read (No such file or directory)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('answer=record["answer"]', "answer=2", "answer: Input should be a valid string, not '2'"),
        ('answer=record["answer"]', 'answer="a"', "'a' is not an option of this question"),
        ('"kind": record["kind"]', '"kind": 3', "groups.kind: Input should be a valid string, not '3'"),
        ("video=source", "video='a' or source", "video: Input should be an instance of Path, not 'a'"),
        ("return Item(", "return dict(", "gives a dict; it must give an Item, or None to leave it out"),
        ('{"kind": record["kind"]}', "None", "groups: Input should be a valid dictionary, not 'None'"),
        ("id=text", "evidence=[[1, 2]], id=text", "evidence: Input should be a valid tuple, not '[[1, 2]]'"),
        (
            "id=text",
            "evidence=((2, 1),), id=text",
            "the interval (2, 1); it must be (start, end) in seconds",
        ),
        ("id=text", "subtitles='a', id=text", "subtitles: Input should be an instance of Path, not 'a'"),
        (
            'return source.rows(f"{split}.json"',
            "return [{'id': 1}] or dict('x'",
            "rows gives {'id': 1}; it",
        ),
        ("Question(text", "Question.open(text", "takes 2 positional arguments but 3 were given"),
    ],
)
def test_an_item_that_could_not_be_scored(old: str, new: str, expected: str, file: Path) -> None:
    file.write_text(FILE.replace(old, new))
    with pytest.raises(BenchmarkError) as raised:
        load(str(file), root=file.parent / "root")
    assert expected in str(raised.value)
    assert ("test.json, record 1" if "rows" not in expected else str(file)) in str(raised.value)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return reply[100]", "IndexError: string index out of range"),
        ("return 7", "parser 'first letter' returns 7; it must return a letter"),
        ("return [(float('nan'), 2)]", "parser 'first letter' returns [(nan, 2)]; it must return a letter"),
    ],
)
def test_an_error_of_a_parser_names_the_line(body: str, expected: str, file: Path, tmp_path: Path) -> None:
    content = FILE.replace('return reply.strip("( ")[:1] or None', body)
    file.write_text(content)
    parser = load(str(file), root=tmp_path / "root").parser
    assert parser is not None
    question = load(str(file), root=tmp_path / "root").items[0].question
    with pytest.raises(BenchmarkError) as raised:
        parser("B", question)
    assert expected in str(raised.value)
    assert str(file) in str(raised.value)
    if "Error" in expected:
        assert f"line {line_of(body, content)}" in str(raised.value)
    # Another process that finds another file says so.
    file.write_text(FILE)
    with pytest.raises(BenchmarkError, match="has changed since the run started"):
        parser("B", question)


def test_a_folder_without_a_single_valid_question_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "questions.jsonl").write_text('{"id": "q1", "options": []}\n{"id": 2}\n')
    assert benchmarks_main(["check", "jsonl", "--root", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "none of the 2 lines is a question" in said
    assert "line 1: unknown field 'options'" in said


def test_unknown_names(file: Path) -> None:
    with pytest.raises(BenchmarkError, match=r"unknown benchmark 'mvbenc'; did you mean 'mvbench'\?"):
        load("mvbenc", root=file.parent)
    with pytest.raises(BenchmarkError, match=r"videopro: is a set of benchmarks \(lvbench, videomme, longv"):
        load("videopro", root=file.parent)
    assert {"mvbench", "charades_sta"} < set(BENCHMARKS)


# ---- packages ---------------------------------------------------------------------------------------------


@pytest.fixture
def package(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An installed package with the benchmark "colours", and others that do not work."""
    folder = tmp_path / "site"
    (folder / "own_colours-1.0.dist-info").mkdir(parents=True)
    (folder / "own_colours.py").write_text(FILE)
    (folder / "own_colours-1.0.dist-info/METADATA").write_text("Name: own-colours\nVersion: 1.0\n")
    entries = (
        "colours = own_colours:BENCHMARK",
        "tints = own_colours:BENCHMARK",
        "lost = own_colours:LOST",
        "mvbench = own_colours:BENCHMARK",
        "mlvu = own_colours:BENCHMARK",
    )
    points = "[videopro.benchmarks]\n" + "\n".join(entries) + "\n"
    (folder / "own_colours-1.0.dist-info/entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(str(folder))
    yield folder
    sys.modules.pop("own_colours", None)


@pytest.mark.usefixtures("package")
def test_a_benchmark_of_a_package(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert metadata.version("own-colours") == "1.0"
    assert infer(tmp_path / "root", tmp_path / "run", "--benchmark", "colours") == 0
    assert json.loads((tmp_path / "run/summary.json").read_text())["official_accuracy"] == pytest.approx(
        2 / 3
    )
    capsys.readouterr()
    # The package's version is part of the key, so its file alone is another benchmark.
    assert run(tmp_path / "colours.py", "run") == 2
    assert "the run has '1.0 " in capsys.readouterr().err
    for name, expected in (
        ("tints", "benchmark 'tints' of package own-colours (own_colours:BENCHMARK) has the name 'colours'"),
        (
            "lost",
            "benchmark 'lost' of package own-colours (own_colours:LOST) cannot be loaded (AttributeError",
        ),
        ("mvbench", "benchmark 'mvbench' is in several packages (videopro, own-colours)"),
        ("mlvu", "benchmark 'mlvu' is in several packages (videopro, own-colours)"),
    ):
        with pytest.raises(BenchmarkError) as raised:
            load(name, root=tmp_path / "root")
        assert expected in str(raised.value)


# ---- worker processes -------------------------------------------------------------------------------------


def test_workers_read_replies_with_the_files_parser(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """In processes of their own, by a path that is relative to where the command runs."""
    monkeypatch.setattr("videopro.commands.infer.Supervisor", Supervisor)
    monkeypatch.chdir(file.parent)
    assert infer(Path("root"), tmp_path / "run", "--benchmark", file.name) == 0
    traces = read_traces(tmp_path / "run/traces.jsonl")
    assert sorted((trace.question_id, trace.official) for trace in traces) == [
        ("q1", "A"),
        ("q2", "B"),
        ("q3", "B"),
    ]
    content = FILE.replace('return reply.strip("( ")[:1] or None', "return reply.letter")
    file.write_text(content)
    capfd.readouterr()
    assert infer(Path("root"), tmp_path / "other", "--benchmark", file.name) == 2
    told = capfd.readouterr().err
    line = line_of("return reply.letter", content)
    assert f"{file}, line {line}: AttributeError: 'str' object has no attribute 'letter'" in told
    assert "Traceback" not in told
