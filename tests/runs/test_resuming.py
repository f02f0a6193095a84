"""Resuming a run: nothing is repeated, and another run, model or text of a question is refused."""

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import cycle
from pathlib import Path

import pytest

from tests.support.benchmark_runs import in_this_process as in_this_process
from tests.support.colours import (
    SRT,
    check_complete,
    flags,
    lines,
    load_fake,
    make_benchmark,
    make_video,
    rewrite,
)
from tests.support.colours import root as root
from tests.support.qwen_models import checkpoint
from tests.support.traces import make
from videopro import benchmarks
from videopro.backbones import load_backbone
from videopro.commands.infer import main
from videopro.errors import RunError
from videopro.modules.models import read_transcript
from videopro.runs import RunFolder, check_files, check_model, identity_difference
from videopro.runs.folder import identity_unloaded
from videopro.runs.making import Supervisor
from videopro.traces import REDONE, Preparation, Redo, VideoRef
from videopro.video import content_id


def infer(root: Path, output: Path, *more: str) -> int:
    return main(flags(root, output, *more), load=load_fake)


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_resuming_repeats_nothing(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With worker processes, as runs have."""
    monkeypatch.setattr("videopro.commands.infer.Supervisor", Supervisor)
    output, log = tmp_path / "run", tmp_path / "answers.txt"
    log.touch()
    for limit, done in (("4", 4), ("4", 4), ("7", 7), ("12", 12)):
        assert infer(root, output, "--limit", limit, "--backbone", f"log={log}") == 0
        assert lines(output) == done
        assert len(log.read_text().splitlines()) == done
    check_complete(output)
    assert json.loads((output / "summary.json").read_text())["n"] == 12


@pytest.fixture(scope="module")
def finished(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with an answer to both questions that it was asked."""
    output = tmp_path_factory.mktemp("finished") / "run"
    assert infer(root, output, "--limit", "2") == 0
    return output


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("--model", "other"), "model.model: the run has 'm', this command 'other'"),
        (("--options", "frames=2"), "method.frames: the run has None, this command 2"),
        (("--method", "program"), "method.name: the run has 'native', this command 'program'\n"),
        (("--seed", "5"), "generation.seed: the run has 0, this command 5"),
        (("--backbone", "salt=x"), "model.salt: the run has '', this command 'x'"),
        (("--split", "val"), "protocol.split: the run has 'test', this command 'val'"),
    ],
)
def test_another_run_is_refused(
    root: Path,
    finished: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    change: Sequence[str],
    expected: str,
) -> None:
    """Also with nothing left to answer, when no model is loaded: its name is still compared, and first."""
    output = tmp_path / "run"
    shutil.copytree(finished, output)
    before = contents(output)
    for more in (("2",), ("2", "--workers", "2"), ("2", "--redo-errors"), ("1",), ("3",)):
        assert infer(root, output, "--limit", *more, *change) == 2
        out, error = capsys.readouterr()
        assert f"error: {output}" in error
        assert expected in error
        assert out == ""
        assert contents(output) == before
    assert infer(root, output, "--limit", "2") == 0


def test_a_deleted_model_is_compared_by_its_name(
    root: Path, finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A finished run of a deleted folder or server can be summarized again, by the model's name alone."""
    output = tmp_path / "run"
    shutil.copytree(finished, output)
    config = output / "config.yaml"
    config.write_text(config.read_text().replace("model: m\n", "model: missing\n", 1))
    assert infer(root, output, "--limit", "1", "--model", "missing") == 0
    assert "'missing' was compared with the run's model by name only" in capsys.readouterr().err
    assert json.loads((output / "summary.json").read_text())["model"] == "missing"
    assert infer(root, output, "--limit", "1", "--model", "missing", "--backbone", "salt=x") == 2
    assert "is a run of 'missing', which cannot be compared with 'missing'" in capsys.readouterr().err


def test_a_finished_run_is_compared_without_a_model_library(tmp_path: Path) -> None:
    """Its files say enough; only a difference is looked into."""
    model, settings = shutil.copytree(checkpoint("qwen3_vl"), tmp_path / "model"), {"frames": 4}
    folder = RunFolder(tmp_path / "run")
    identity = identity_unloaded(str(model), settings, {}, load_backbone)
    folder.open({"model": str(model), "backbone": settings}, {"model": identity})
    code = """
import sys
from pathlib import Path
from videopro.backbones import load_backbone
from videopro.runs import RunFolder, check_model
check_model(RunFolder(Path(sys.argv[1])), {}, sys.argv[2], {"frames": 4}, load_backbone)
print(sorted({"torch", "transformers"} & set(sys.modules)))
"""
    command = [sys.executable, "-c", code, str(folder.path), str(model)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    with pytest.raises(RunError, match=r"model\.frames: the run has 4, this command 2"):
        check_model(folder, {}, str(model), {"frames": 2}, load_backbone)
    (model / "config.json").write_text((model / "config.json").read_text() + "\n")
    with pytest.raises(RunError, match=r"model\.weights: the run has"):
        check_model(folder, {}, str(model), settings, load_backbone)


def test_changed_questions_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root, output = tmp_path / "b", tmp_path / "run"
    make_benchmark(root, videos=1)
    assert infer(root, output, "--limit", "1") == 0
    rewrite(root, "v0q0", "What colour is it?")
    assert infer(root, output) == 2
    assert "'v0q0' now has another text" in capsys.readouterr().err


def answers(output: Path) -> dict[str, str | None]:
    """What counts for each question: the option that was chosen."""
    traces = RunFolder(output).read()
    return {
        t.question_id: t.choices["ABCD".index(t.final.letter)] for t in traces if t.final and t.final.letter
    }


def test_another_video_under_the_same_path_is_refused_or_answered_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root, output = tmp_path / "b", tmp_path / "run"
    make_benchmark(root, videos=2, questions=2)
    video = root / "videos" / "v0.mp4"

    run = partial(infer, root, output)
    assert run("--ids", "v0q0", "v1q0") == 0
    assert answers(output) == {"v0q0": "red", "v1q0": "green"}
    # The same content goes on, whatever its times and its inode.
    content = video.read_bytes()
    video.unlink()
    video.write_bytes(content)
    assert run("--ids", "v0q0", "v1q0", "v1q1") == 0
    make_video(video, "blue")
    before = contents(output)
    for ids in (("v0q0", "v0q1"), ("v0q0",), ("v0q1",)):
        assert run("--ids", *ids) == 2
        error = capsys.readouterr().err
        assert f"{video}: changed since these questions were answered: v0q0" in error
        assert "--redo-changed" in error
    # What it is about is the other video's alone.
    assert run("--ids", "v0q1", "--redo-changed") == 2
    assert "--redo-changed must include these questions" in capsys.readouterr().err
    assert contents(output) == before
    assert run("--ids", "v1q0", "v1q1") == 0
    assert run("--redo-changed") == 0
    assert answers(output) == {"v0q0": "blue", "v0q1": "blue", "v1q0": "green", "v1q1": "green"}
    assert json.loads((output / "summary.json").read_text())["notes"] == {REDONE: 1}
    assert f"1 questions: {REDONE}" in " ".join(capsys.readouterr().out.split())
    assert lines(output) == 5
    # The video of the first answers again: two answers are about the other one now.
    video.write_bytes(content)
    assert run() == 2
    assert run("--redo-changed", "--workers", "2") == 0
    assert answers(output) == {"v0q0": "red", "v0q1": "red", "v1q0": "green", "v1q1": "green"}
    assert run() == 0
    assert lines(output) == 7


def listing(root: Path, *names: str) -> str:
    """The questions with these files as their subtitles, in turn."""
    rows = [json.loads(line) for line in (root / "questions.jsonl").read_text().splitlines()]
    listed = [{**row, "subtitles": name} for row, name in zip(rows, cycle(names), strict=False)]
    return "".join(json.dumps(row) + "\n" for row in listed)


@pytest.mark.parametrize("method", ["native", "program"])
def test_added_and_removed_subtitles_are_refused_where_they_are_looked_for(
    tmp_path: Path, method: str, capsys: pytest.CaptureFixture[str]
) -> None:
    root, questions = tmp_path / "b", tmp_path / "b" / "questions.jsonl"
    make_benchmark(root, videos=1)
    (root / "v0.srt").write_text(SRT)
    without, listed = questions.read_text(), listing(root, "v0.srt")
    looks = "subtitles=all" if method == "native" else "subtitles=listed"
    parts = () if method == "native" else ("encoder=none", "text_encoder=none", "ocr=none", "detector=none")
    for number, (before, after) in enumerate(((without, listed), (listed, without))):
        for rule, status in ((looks, 2), ("subtitles=none", 0)):
            chosen = ("--method", method, "--options", rule, *parts)
            run = partial(infer, root, tmp_path / f"{number}{rule}", *chosen)
            questions.write_text(before)
            assert run("--limit", "1") == 0
            assert run("--limit", "1") == 0
            questions.write_text(after)
            assert run() == status
            assert (f"{root / 'v0.srt'}" in capsys.readouterr().err) is (status == 2)
            assert run("--redo-changed") == 0


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

    hear("a red video")
    heard = read_transcript(stored)
    video = VideoRef("v0.mp4", "videos/v0.mp4", content_id(tmp_path / "b" / "videos" / "v0.mp4"), 2.0)
    about = replace(video, key=benchmark.items[0].video_key, text_id=heard.id)
    trace = make("v0q0", video=about, prepared=(Preparation("transcript", "key"),))

    def check(changed: bool) -> Redo:
        folder = RunFolder(tmp_path / "run")
        return check_files([trace], benchmark, benchmark.items, folder, errors=False, changed=changed)

    assert not check(changed=False).changed
    hear("a read video")
    with pytest.raises(
        RunError, match=r"the transcript of .*v0\.mp4: changed since these questions were answered: v0q0"
    ):
        check(changed=False)
    assert trace in check(changed=True)
    stored.unlink()
    assert not check(changed=False).changed


def test_long_texts_are_shown_where_they_begin_to_differ() -> None:
    text = "Watch the video. " * 20
    (line,) = identity_difference({"prompts": text + "Now answer."}, {"prompts": text + "Then answer." * 20})
    assert line == (
        "prompts: the run has '…o. Watch the video. Now answer.', this command "
        f"'…o. Watch the video. {('Then answer.' * 20)[:80]}…'"
    )
    (line,) = identity_difference({}, {"prompts": text})
    assert line == f"prompts: the run has nothing, this command '{text[:100]}…'"
