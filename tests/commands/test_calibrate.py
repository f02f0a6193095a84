"""`videopro calibrate` and `--abstain`: from a run to answers that are not given."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.colours import ColourBackbone, change_questions, flags, make_benchmark
from tests.support.fake_backbone import confident_answer
from tests.support.served import World
from videopro import VideoPro
from videopro.backbones.base import Backbone, ChoiceRequest
from videopro.commands import calibrate, infer
from videopro.commands.ask.command import main as ask
from videopro.question import Answer
from videopro.runs import RunFolder
from videopro.serve import Answerer
from videopro.video import Frame

Capture = pytest.CaptureFixture[str]
UNSURE = "(unsure) Which colour is shown?"


class Unsure(ColourBackbone):
    """Sure with 0.9, but of what is marked only with 0.3."""

    def choose(self, request: ChoiceRequest, frames: Sequence[Frame]) -> Answer:
        answer = super().choose(request, frames)
        sure = 0.3 if request.question.text.startswith("(unsure)") else 0.9
        return confident_answer(answer.letter, sure, request.question.letters, other=0.02)


def load(model: str, **settings: Any) -> Backbone:
    return Unsure(model, **settings)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four videos, with ten questions each that are answered right, and ten without a right option."""
    folder = tmp_path_factory.mktemp("twins")
    gold = make_benchmark(folder, questions=20)

    def twin(record: dict[str, Any]) -> dict[str, Any]:
        has_none = int(record["id"].partition("q")[2]) % 2
        return {"question": UNSURE, "answer": "-"} if has_none else {"answer": gold[record["id"]]}

    change_questions(folder, twin)
    return folder


@pytest.fixture(scope="module")
def file(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The calibration of a run over them. Of 40 sure answers none is wrong."""
    folder = tmp_path_factory.mktemp("calibration")
    assert infer.main(flags(root, folder / "run"), load=load) == 0
    assert calibrate.main([str(folder / "run"), "--output", str(folder / "calibration.json")]) == 0
    return folder / "calibration.json"


def test_the_file_has_the_curve_and_what_it_was_made_of(file: Path) -> None:
    """No error in 40 answers: at most 1 - 0.005^(1/40), or 12.4 %, the tenth part of 5 % for each of ten."""
    made = json.loads(file.read_text())
    assert (len(made["questions"]), made["unanswerable"], made["videos"]) == (80, 40, 4)
    assert made["runs"] == {str(file.parent / "run"): RunFolder(file.parent / "run").key()}
    half = next(point for point in made["curve"] if point["coverage"] == 0.5)
    assert (half["threshold"], half["answered"], half["errors"]) == (0.9, 40, 0)
    assert half["bound"] == pytest.approx(1 - 0.005 ** (1 / 40))


def test_a_run_that_abstains_keeps_its_record_and_its_scores(
    root: Path, file: Path, tmp_path: Path, capsys: Capture
) -> None:
    shutil.copytree(file.parent / "run", tmp_path / "run")
    plain, before = (tmp_path / "run" / name for name in ("summary.json", "traces.jsonl"))
    scores, traces = json.loads(plain.read_text()), before.read_bytes()
    assert infer.main(flags(root, tmp_path / "run", "--abstain", f"0.2@{file}"), load=load) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "--abstain 0.2: 40 of 80 questions answered with a confidence of 0.900 or more, 0 of" in shown
    after = json.loads(plain.read_text())
    about = after.pop("abstention")
    assert (about["n"], about["answered"], about["errors"], about["threshold"]) == (80, 40, 0, 0.9)
    assert (after, before.read_bytes()) == (scores, traces)


def test_an_answer_that_is_not_confident_is_kept_and_not_shown(
    root: Path, file: Path, tmp_path: Path, capsys: Capture
) -> None:
    video, abstain = str(root / "videos" / "v0.mp4"), f"0.2@{file}"
    choices = ["--choices", "red", "blue", "--model", "m", "--abstain", abstain]
    kept = ["--output", str(tmp_path / "run")]
    assert ask([video, UNSURE, *choices, *kept], load=load) == 0
    shown = capsys.readouterr().out.splitlines()
    note = "no confident answer: A with 0.300, below 0.900 (risk 0.2, calibration.json)"
    assert shown[0] == "no confident answer"
    assert note in shown
    (trace,) = RunFolder(tmp_path / "run").read()
    assert (trace.final.letter, trace.notes) == ("A", (note,))
    assert ask([video, "Which colour is shown?", *choices], load=load) == 0
    assert capsys.readouterr().out.startswith("A. red")
    for text, withheld in ((UNSURE, True), ("Which colour is shown?", False)):
        assert ask([video, text, *choices, "--json"], load=load) == 0
        assert json.loads(capsys.readouterr().out.splitlines()[-1])["withheld"] is withheld

    with VideoPro("m", "native", abstain=abstain, load=load) as ready:
        answer = ready.ask(video, UNSURE, choices=["red", "blue"])
        assert (answer.letter, answer.choice, answer.text) == (None, None, "no confident answer")
        assert (answer.trace.final.letter, answer.probabilities["A"]) == ("A", 0.3)
        assert ready.ask(video, "Which colour is shown?", choices=["red", "blue"]).letter == "A"

    world = World(tmp_path, answerer=Answerer("m", method="native", abstain=abstain, load=load))
    file_id = world.video("red")
    page = world.answered(world.ask(file_id, question=UNSURE))
    (listed,) = world.client.get(f"/v1/videopro/questions?file_id={file_id}").json()["data"]
    assert (listed["answer"]["letter"], listed["answer"]["withheld"]) == (None, True)
    assert [each for each in page["notes"] if each.startswith("no confident answer: A with 0.300")]
    # What was not calibrated is refused: words, and other settings.
    refused = world.client.post(
        "/v1/videopro/questions", json={"file_id": file_id, "question": "What is it?"}
    )
    assert refused.status_code == 400
    assert "only answers with a letter are calibrated" in refused.text
    world.close()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--abstain", "0.1@{file}"], "no confidence in {file} keeps the risk at 0.1; allow 0.124, or"),
        (
            ["--abstain", "0.2@{file}", "--frames", "2"],
            "{file} is of another method (method.frames: the file has None, this command 2); calibrate with",
        ),
        (
            ["--abstain", "0.2@{file}", "--backbone", "salt=x"],
            "{file} is of another model (model.salt: the file has '', this command 'x'); calibrate with",
        ),
    ],
)
def test_a_calibration_of_something_else_is_refused(
    root: Path, file: Path, tmp_path: Path, capsys: Capture, more: list[str], said: str
) -> None:
    words = [word.format(file=file) for word in more]
    assert infer.main(flags(root, tmp_path / "run", *words), load=load) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said.format(file=file) in line
    assert not (tmp_path / "run").exists()


def test_runs_that_cannot_be_calibrated_together(
    root: Path, file: Path, tmp_path: Path, capsys: Capture
) -> None:
    run = str(file.parent / "run")
    assert infer.main(flags(root, tmp_path / "run", "--frames", "2", "--limit", "1"), load=load) == 0
    capsys.readouterr()
    cases: list[tuple[list[str], str]] = [
        ([run, str(tmp_path / "run")], "is of another method or model (method.frames: "),
        ([run, run], "two runs have the same question"),
        ([str(tmp_path)], "contains no finished run"),
    ]
    for runs, said in cases:
        assert calibrate.main([*runs, "--output", str(tmp_path / "none.json")]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert said in line
    assert not (tmp_path / "none.json").exists()
