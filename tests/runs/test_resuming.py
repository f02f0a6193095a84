"""Resuming a run: nothing is repeated, and another run, model or text of a question is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.fakes import load_fake, make_benchmark, make_video
from tests.support.infer_world import SRT, check_complete, flags, lines
from tests.support.infer_world import root as root
from tests.support.traces import make
from videopro import benchmarks
from videopro.commands import compare
from videopro.commands.infer import main
from videopro.errors import RunError
from videopro.modules.models import read_transcript
from videopro.runs import RunFolder, check_files, identity_difference
from videopro.traces import REDONE, Preparation, Redo, VideoRef
from videopro.video import content_id


def test_resuming_adds_and_repeats_nothing(root: Path, tmp_path: Path) -> None:
    output, log = tmp_path / "run", tmp_path / "answers.txt"
    log.touch()
    asked = ("--backbone", f"log={log}")
    for limit, done in (("4", 4), ("4", 4), ("7", 7)):
        assert main(flags(root, output, "--limit", limit, *asked), load=load_fake) == 0
        assert lines(output) == done
        assert len(log.read_text().splitlines()) == done
    assert main(flags(root, output, *asked), load=load_fake) == 0
    check_complete(output)
    assert len(log.read_text().splitlines()) == 12
    assert json.loads((output / "summary.json").read_text())["n"] == 12


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("--options", "frames=2"), "method.frames: the run has None, this command 2"),
        (("--options", "reply_tokens=64"), "method.reply_tokens: the run has None, this command 64"),
        (("--method", "program"), "method.planner: the run has nothing, this command 'self'"),
        (("--seed", "5"), "generation.seed: the run has 0, this command 5"),
        (("--backbone", "salt=x"), "model.salt: the run has '', this command 'x'"),
        (("--split", "val"), "protocol.split: the run has 'test', this command 'val'"),
    ],
)
def test_another_run_is_refused(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Sequence[str], expected: str
) -> None:
    output = tmp_path / "run"
    assert main(flags(root, output, "--limit", "1"), load=load_fake) == 0
    before = {path: path.read_bytes() for path in output.glob("*.*")}
    capsys.readouterr()
    assert main(flags(root, output, "--limit", "2", *change), load=load_fake) == 2
    error = capsys.readouterr().err
    assert expected in error
    assert "error: " in error
    assert {path: path.read_bytes() for path in output.glob("*.*")} == before


@pytest.fixture(scope="module")
def finished(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with an answer to both questions that it was asked."""
    output = tmp_path_factory.mktemp("finished") / "run"
    assert main(flags(root, output, "--limit", "2"), load=load_fake) == 0
    return output


@pytest.mark.parametrize("more", [(), ("--workers", "2"), ("--redo-errors",), ("--limit", "1")])
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("--model", "other"), "model.model: the run has 'm', this command 'other'"),
        (("--backbone", "salt=x"), "model.salt: the run has '', this command 'x'"),
        (("--method", "native", "--options", "frames=2"), "method.frames: the run has None"),
        (("--seed", "5"), "generation.seed: the run has 0"),
    ],
)
def test_a_finished_run_keeps_its_model(
    root: Path,
    finished: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    change: Sequence[str],
    expected: str,
    more: Sequence[str],
) -> None:
    """With nothing left to answer no model is loaded; its name is still compared, and first."""
    output = tmp_path / "run"
    shutil.copytree(finished, output)
    before = {path: path.read_bytes() for path in output.rglob("*") if path.is_file()}
    assert main([*flags(root, output, "--limit", "2"), *more, *change], load=load_fake) == 2
    out, error = capsys.readouterr()
    assert expected in error
    assert out == ""
    assert {path: path.read_bytes() for path in output.rglob("*") if path.is_file()} == before
    assert main([*flags(root, output, "--limit", "2"), *more], load=load_fake) == 0


def test_a_finished_method_of_a_table_keeps_its_model(
    root: Path, finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`compare` detects it before it runs any method."""
    shutil.copytree(finished, tmp_path / "table" / "adaptive")
    argv = flags(root, tmp_path / "table", "--limit", "1", "--methods", "native", "adaptive")
    assert compare.main(argv, load=load_fake) == 2
    assert "method.name: the run has 'native', this command 'adaptive'" in capsys.readouterr().err
    assert not (tmp_path / "table" / "native").exists()
    (tmp_path / "table" / "adaptive").rename(tmp_path / "table" / "native")
    argv = [*flags(root, tmp_path / "table", "--limit", "1"), "--model", "other"]
    assert compare.main([*argv, "--methods", "native", "adaptive"], load=load_fake) == 2
    assert "model.model: the run has 'm', this command 'other'" in capsys.readouterr().err
    assert not (tmp_path / "table" / "adaptive").exists()


def test_a_deleted_model_is_compared_by_its_name(
    root: Path, finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A finished run of a deleted folder or server can be summarized again, by the model's name alone."""
    output = tmp_path / "run"
    shutil.copytree(finished, output)
    config = output / "config.yaml"
    config.write_text(config.read_text().replace("model: m\n", "model: missing\n", 1))
    assert main([*flags(root, output, "--limit", "1"), "--model", "missing"], load=load_fake) == 0
    assert "'missing' was compared with the run's model by name only" in capsys.readouterr().err
    assert json.loads((output / "summary.json").read_text())["model"] == "missing"
    argv = [*flags(root, output, "--limit", "1"), "--model", "missing", "--backbone", "salt=x"]
    assert main(argv, load=load_fake) == 2
    assert "is a run of 'missing', which cannot be compared with 'missing'" in capsys.readouterr().err


def test_changed_questions_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_benchmark(tmp_path / "b", videos=1)
    assert main(flags(tmp_path / "b", tmp_path / "run", "--limit", "1"), load=load_fake) == 0
    file = tmp_path / "b" / "questions.jsonl"
    file.write_text(file.read_text().replace("Which colour is shown (0)", "What colour is it"))
    assert main(flags(tmp_path / "b", tmp_path / "run"), load=load_fake) == 2
    assert "'v0q0' now has another text" in capsys.readouterr().err


def answers(output: Path) -> dict[str, str | None]:
    """What counts for each question: the option that was chosen."""
    traces = RunFolder(output).read()
    return {
        t.question_id: t.choices["ABCD".index(t.final.letter)] for t in traces if t.final and t.final.letter
    }


def test_another_film_under_the_same_path_is_refused_or_answered_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root, output = tmp_path / "b", tmp_path / "run"
    make_benchmark(root, videos=2, questions=2)
    film = root / "videos" / "v0.mp4"

    def infer(*more: str) -> int:
        return main(flags(root, output, *more), load=load_fake)

    assert infer("--ids", "v0q0", "v1q0") == 0
    assert answers(output) == {"v0q0": "red", "v1q0": "green"}
    # The same content goes on, whatever its times and its inode.
    content = film.read_bytes()
    film.unlink()
    film.write_bytes(content)
    assert infer("--ids", "v0q0", "v1q0", "v1q1") == 0
    make_video(film, "blue")
    before = {path: path.read_bytes() for path in output.glob("*.*")}
    for ids in (("v0q0", "v0q1"), ("v0q0",), ("v0q1",)):
        assert infer("--ids", *ids) == 2
        error = capsys.readouterr().err
        assert f"{film}: another one when these were answered: v0q0" in error
        assert "--redo-changed" in error
    # What it is about is the other film's alone.
    assert infer("--ids", "v0q1", "--redo-changed") == 2
    assert "--redo-changed has to ask these too" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in output.glob("*.*")} == before
    assert infer("--ids", "v1q0", "v1q1") == 0
    assert infer("--redo-changed") == 0
    assert answers(output) == {"v0q0": "blue", "v0q1": "blue", "v1q0": "green", "v1q1": "green"}
    assert json.loads((output / "summary.json").read_text())["notes"] == {REDONE: 1}
    assert f"1 questions: {REDONE}" in " ".join(capsys.readouterr().out.split())
    assert lines(output) == 5
    # The film of the first answers again: two answers are about the other one now.
    film.write_bytes(content)
    assert infer() == 2
    assert infer("--redo-changed", "--workers", "2") == 0
    assert answers(output) == {"v0q0": "red", "v0q1": "red", "v1q0": "green", "v1q1": "green"}
    assert infer() == 0
    assert lines(output) == 7


def test_other_subtitles_are_refused_where_they_were_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "b"
    make_benchmark(root, videos=1)
    questions = [json.loads(line) for line in (root / "questions.jsonl").read_text().splitlines()]
    listed = [{**question, "subtitles": "v0.srt"} for question in questions]
    (root / "questions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in listed))
    subtitles = root / "v0.srt"
    subtitles.write_text(SRT)

    def infer(name: str, *more: str) -> int:
        rule = ("--options", "subtitles=all") if name == "reads" else ()
        return main(flags(root, tmp_path / name, *rule, *more), load=load_fake)

    for name in ("reads", "does not"):
        assert infer(name, "--limit", "1") == 0
    subtitles.write_text(SRT.replace("early", "late"))
    assert infer("does not") == 0
    assert infer("reads") == 2
    assert f"{subtitles}: another one when these were answered: v0q0" in capsys.readouterr().err
    assert infer("reads", "--redo-changed") == 0
    traces = RunFolder(tmp_path / "reads").read()
    assert {trace.video.text_id for trace in traces} == {content_id(subtitles)}
    assert lines(tmp_path / "reads") == 4


@pytest.mark.parametrize("method", ["native", "program"])
def test_added_and_removed_subtitles_are_refused_where_they_are_looked_for(
    tmp_path: Path, method: str, capsys: pytest.CaptureFixture[str]
) -> None:
    root, questions = tmp_path / "b", tmp_path / "b" / "questions.jsonl"
    make_benchmark(root, videos=1)
    (root / "v0.srt").write_text(SRT)
    without = questions.read_text()
    rows = [{**json.loads(line), "subtitles": "v0.srt"} for line in without.splitlines()]
    listed = "".join(json.dumps(row) + "\n" for row in rows)
    looks = "subtitles=all" if method == "native" else "subtitles=listed"
    parts = () if method == "native" else ("encoder=none", "text_encoder=none", "ocr=none", "detector=none")

    def infer(name: str, *more: str) -> int:
        rule = looks if name.startswith("reads") else "subtitles=none"
        chosen = ("--method", method, "--options", rule, *parts)
        return main(flags(root, tmp_path / name, *chosen, *more), load=load_fake)

    for name, before, after in (("reads-added", without, listed), ("reads-removed", listed, without)):
        for run in (name, name.replace("reads", "none")):
            questions.write_text(before)
            assert infer(run, "--limit", "1") == 0
            assert infer(run, "--limit", "1") == 0
            questions.write_text(after)
            assert infer(run) == (2 if run == name else 0)
        assert f"{root / 'v0.srt'}" in capsys.readouterr().err
        assert infer(name, "--redo-changed") == 0


def test_a_question_about_another_file_than_before_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root, output = tmp_path / "b", tmp_path / "run"
    make_benchmark(root, videos=1)
    assert main(flags(root, output), load=load_fake) == 0
    film, other = root / "videos" / "v0.mp4", root / "videos" / "other.mp4"
    questions = root / "questions.jsonl"
    questions.write_text(questions.read_text().replace(film.name, other.name))
    shutil.copy(film, other)
    assert main(flags(root, output), load=load_fake) == 0
    make_video(other, "blue")
    assert main(flags(root, output), load=load_fake) == 2
    assert f"{other}: another one when these were answered: v0q0" in capsys.readouterr().err


def test_a_film_may_have_subtitles_of_one_name_in_two_folders(tmp_path: Path) -> None:
    root = tmp_path / "b"
    make_benchmark(root, videos=1, questions=2)
    rows = [json.loads(line) for line in (root / "questions.jsonl").read_text().splitlines()]
    for row, language in zip(rows, ("en", "de"), strict=True):
        row["subtitles"] = f"{language}/v0.srt"
        (root / language).mkdir()
        (root / row["subtitles"]).write_text(SRT.replace("early", language))
    (root / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(flags(root, tmp_path / "run", "--options", "subtitles=all"), load=load_fake) == 0
    assert lines(tmp_path / "run") == 2


def test_another_transcript_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was lost, and that the model heard otherwise the second time."""
    monkeypatch.setenv("VIDEOPRO_CACHE", str(tmp_path))
    make_benchmark(tmp_path / "b", videos=1)
    benchmark = benchmarks.load("jsonl", split="test", root=tmp_path / "b")
    stored = tmp_path / "speech" / "key.json"
    stored.parent.mkdir()

    def hear(text: str) -> None:
        about = {"language": "en", "has_sound": True, "sound_seconds": 2, "seconds": 1, "damaged": 0}
        stored.write_text(json.dumps({"format": 2, **about, "lines": [[0.0, 1.0, text]]}))

    hear("a red film")
    heard = read_transcript(stored)
    assert heard is not None
    video = VideoRef("v0.mp4", "videos/v0.mp4", content_id(tmp_path / "b" / "videos" / "v0.mp4"), 2.0)
    about = replace(video, key=benchmark.items[0].video_key, text_id=heard.id)
    trace = make("v0q0", video=about, prepared=(Preparation("transcript", "key"),))

    def check(changed: bool) -> Redo:
        folder = RunFolder(tmp_path / "run")
        return check_files([trace], benchmark, benchmark.items, folder, errors=False, changed=changed)

    assert not check(changed=False).changed
    hear("a read film")
    with pytest.raises(
        RunError, match=r"the transcript of .*v0\.mp4: another one when these were answered: v0q0"
    ):
        check(changed=False)
    assert trace in check(changed=True)
    stored.unlink()
    assert not check(changed=False).changed


def test_a_run_of_several_versions_says_so_and_goes_on(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "run"
    assert main(flags(root, output, "--limit", "1"), load=load_fake) == 0
    assert "several versions" not in capsys.readouterr().out
    trace = json.loads((output / "traces.jsonl").read_text())
    now = trace["versions"]["torch"]
    trace["versions"]["torch"] = "1.0"
    (output / "traces.jsonl").write_text(json.dumps(trace) + "\n")
    assert main(flags(root, output, "--limit", "3"), load=load_fake) == 0
    said = f"answered by several versions (questions by each): torch 1.0 (1), {now} (2)"
    assert said in " ".join(capsys.readouterr().out.split())
    assert json.loads((output / "summary.json").read_text())["versions"]["torch"] == {"1.0": 1, now: 2}


def test_long_texts_are_shown_where_they_begin_to_differ() -> None:
    text = "Watch the video. " * 20
    (line,) = identity_difference({"prompts": text + "Now answer."}, {"prompts": text + "Then answer." * 20})
    assert line == (
        "prompts: the run has '…o. Watch the video. Now answer.', this command "
        f"'…o. Watch the video. {('Then answer.' * 20)[:80]}…'"
    )
    (line,) = identity_difference({}, {"prompts": text})
    assert line == f"prompts: the run has nothing, this command '{text[:100]}…'"
