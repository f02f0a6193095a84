"""A run of questions that no benchmark asked grows over restarts and from several processes, and is a run."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import view_world as world
from videopro.benchmarks import ROBUST, Protocol
from videopro.commands import view
from videopro.report import read_runs
from videopro.runs import AskedRun, asked_identity
from videopro.traces import Trace

SETTINGS = {"method": "native", "model": "some/model"}
IDENTITY = asked_identity(Protocol(parser=ROBUST), method={"name": "native", "frames": 8}, seed=0)
WHOLE = {**IDENTITY, "model": {"kind": "qwen", "model": "some/model"}}


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    made = world.traces(tmp_path_factory.mktemp("videos"))
    return next(trace for trace in made if trace.rounds and trace.final)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[AskedRun]:
    run = AskedRun(tmp_path / "run")
    run.open(SETTINGS, WHOLE)
    yield run
    run.close()


def test_questions_are_numbered_on_beside_a_process_and_after_a_restart(run: AskedRun, trace: Trace) -> None:
    assert run.add(trace)
    assert not run.add(trace), "an id is added once"
    beside = AskedRun(run.folder.path)
    beside.open(SETTINGS, WHOLE)
    numbers = [asker.add_numbered(trace).question_id for asker in (run, beside, run)]
    beside.close()
    run.close()
    again = AskedRun(run.folder.path)
    key = again.open(SETTINGS, WHOLE)
    numbers.append(again.add_numbered(trace).question_id)
    again.close()
    assert numbers == ["1", "2", "3", "4"]
    first, *read = again.read()
    assert first.question_id == trace.question_id
    found = [(each.question_id, each.run_key, each.final) for each in read]
    assert found == [(number, key, trace.final) for number in numbers]


def test_the_viewer_and_the_report_open_it(run: AskedRun, trace: Trace, tmp_path: Path) -> None:
    added = run.add_numbered(trace)
    folder = str(run.folder.path)
    assert view.main([folder, "--no-pictures", "--output", str(tmp_path / "pages")]) == 0
    index = (tmp_path / "pages" / "data" / "index.js").read_text()
    content = json.loads(index[index.index("{") : index.rindex("}") + 1])
    assert content["run"]["benchmark"] == "asked"
    assert [row[0] for row in content["rows"]] == [added.question_id]
    (reported,) = read_runs([folder])
    assert (reported.dataset.benchmark, reported.method, reported.traces) == ("asked", "native", (added,))
