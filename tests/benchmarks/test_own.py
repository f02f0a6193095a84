"""Benchmarks that are a file: found, run, changed, broken, gone, and offered by a package."""

import csv
import json
import re
from pathlib import Path

import pytest

from tests.support.benchmark_runs import in_this_process as in_this_process
from tests.support.benchmark_runs import infer
from tests.support.benchmark_world import Hub
from tests.support.colours import make_video
from videopro.benchmarks import BENCHMARKS, load
from videopro.commands import seeds
from videopro.commands.benchmarks.command import main as benchmarks_main
from videopro.commands.report import main as report_main
from videopro.commands.view import main as view_main
from videopro.errors import BenchmarkError
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


PARSED = 'return reply.strip("( ")[:1] or None'


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
    for words in (["check", str(file), "--root", str(tmp_path / "root")], ["list", str(file)]):
        assert benchmarks_main(words) == 0
        assert "written" in capsys.readouterr().out
    assert run(file) == 0
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    # Red and green are said; the third answer is annotated as blue.
    assert (summary["benchmark"], summary["n"]) == ("colours", 3)
    assert summary["accuracy"] == summary["official_accuracy"] == pytest.approx(2 / 3)
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
    assert "Which colour (1)?" in "".join(path.read_text() for path in (tmp_path / "site").rglob("*.js"))
    for ending in ("json", "csv"):
        words = ["submit", str(tmp_path / "run"), "--output", str(tmp_path / f"answers.{ending}")]
        assert benchmarks_main(words) == 0
    assert json.loads((tmp_path / "answers.json").read_text()) == {"q1": "A", "q2": "B", "q3": "B"}
    assert (tmp_path / "answers.csv").read_text() == "id,answer\nq1,A\nq2,B\nq3,B\n"


def test_a_changed_file_cannot_resume(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(file, "run", "--limit", "1") == 0
    file.write_text(FILE.replace("Say it.", "Say the colour."))
    assert run(file) == 2
    assert "protocol.answer_prompt" in capsys.readouterr().err
    # A change that the protocol does not show is one too.
    file.write_text(FILE.replace("[:1]", "[:2]"))
    assert run(file) == 2
    assert "protocol.version" in capsys.readouterr().err
    file.write_text(FILE)
    assert run(file) == 0


def test_questions_of_the_hub(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Hub(monkeypatch, {("me/colours", "colours", "val"): RECORDS[:1]})
    (item,) = load(str(file), root=tmp_path / "root", annotations="hf:me/colours", split="val").items
    assert asked.asked == [("me/colours", "colours", "val")]
    assert item.video == tmp_path / "root/videos/one.mp4"


# ---- what is wrong, and where -----------------------------------------------------------------------------


def line_of(text: str, content: str = FILE) -> int:
    return content[: content.index(text)].count("\n") + 1


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("groups=(", "groups=((", "never closed"),
        ("def rows(source, split):", "1 / 0\n\n\ndef rows(source, split):", "ZeroDivisionError"),
        ('"first letter",\n', '"frst letter",\n', "'frst letter'"),
        ("{options}", "{option}", "slot {option}"),
        ('reply="text"', 'reply="txt"', "reply: "),
        ('("kind",)', '("kind")', "groups: "),
        ('kind="macro", over', 'kind="makro", over', "metrics.0.kind: "),
        ('kind="macro"', 'kind="grade"', "metric 'by kind': needs a judge's grades"),
        ('over="kind"', 'over="kind", at=0.5', "metric 'by kind': at is 0.5"),
        (', over="kind"', "", "metric 'by kind': needs over"),
        ('"colours", (', '"my colours", (', "'my colours'"),
        ('"colours", (', '"jsonl", (', "'jsonl': the name is taken"),
        ('("test", "val")', '"test"', "splits must be a tuple"),
        ("(PROTOCOL,)", "()", "at least one split and one protocol"),
        ('reply="text"', 'subtitles="all"', "subtitle_folders"),
        ("(PROTOCOL,)", "(PROTOCOL, PROTOCOL)", "protocols must have distinct names"),
        ("BENCHMARK =", "BENCHMARK = 1 or", "defines no benchmark"),
        (
            "BENCHMARK =",
            "OTHER = BenchmarkSpec('x', ('a',), (PROTOCOL,), rows, '', parsers=PARSERS)\nBENCHMARK =",
            "several (x, colours)",
        ),
    ],
)
def test_a_file_that_describes_nothing(old: str, new: str, named: str, file: Path) -> None:
    content = FILE.replace(old, new)
    assert content != FILE
    file.write_text(content)
    with pytest.raises(BenchmarkError, match=re.escape(named)) as raised:
        BENCHMARKS.find(str(file))
    message = str(raised.value)
    assert message.startswith(str(file))
    assert f"{file}, line " in message or "BENCHMARK" in old


def test_an_error_of_the_code_names_line_and_record(file: Path, tmp_path: Path) -> None:
    bad = [RECORDS[0], {key: value for key, value in RECORDS[1].items() if key != "kind"}]
    questions = tmp_path / "root/test.json"
    questions.write_text(json.dumps(bad))
    line = line_of('record["kind"]')
    where = f"{file}, line {line}: KeyError: 'kind' (at {questions}, record 2)"
    with pytest.raises(BenchmarkError, match=re.escape(where)):
        load(str(file), root=tmp_path / "root")
    # A field that is read with a function makes a broken record, as for the public benchmarks.
    questions.write_text(json.dumps([RECORDS[0], record(2, "two", "B", question=3.5)]))
    with pytest.raises(BenchmarkError, match=r"test.json, record 2: field 'question'"):
        load(str(file), root=tmp_path / "root")
    assert len(load(str(file), root=tmp_path / "root", skip_broken=True).items) == 1


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ('answer=record["answer"]', "answer=2", "record 1: item returns an invalid Item: answer: "),
        ('answer=record["answer"]', 'answer="a"', "'a' is not an option"),
        ("return Item(", "return dict(", "item returns a dict"),
        ("id=text", "evidence=((2, 1),), id=text", "the interval (2, 1)"),
        ('return source.rows(f"{split}.json"', "return [{'id': 1}] or dict('x'", "rows returns {'id': 1}"),
    ],
)
def test_an_item_that_could_not_be_scored(old: str, new: str, named: str, file: Path) -> None:
    file.write_text(FILE.replace(old, new))
    with pytest.raises(BenchmarkError, match=re.escape(named)):
        load(str(file), root=file.parent / "root")


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("return reply[100]", "IndexError"),
        ("return 7", "parser 'first letter' returns 7"),
        ("return [(float('nan'), 2)]", "parser 'first letter' returns [(nan, 2)]"),
    ],
)
def test_an_error_of_a_parser_names_the_line(body: str, named: str, file: Path, tmp_path: Path) -> None:
    content = FILE.replace(PARSED, body)
    file.write_text(content)
    found = load(str(file), root=tmp_path / "root")
    assert found.parser is not None
    with pytest.raises(BenchmarkError, match=re.escape(named)) as raised:
        found.parser("B", found.items[0].question)
    where = f"{file}, line {line_of(body, content)}" if "Error" in named else str(file)
    assert where in str(raised.value)
    # Another process that finds another file says so.
    file.write_text(FILE)
    with pytest.raises(BenchmarkError, match="has changed since the run started"):
        found.parser("B", found.items[0].question)
