"""No video of an evaluation split gets in, known by its content, its name or its seed (pocket)."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.colours import make_video
from tests.support.making_videos import as_pocket
from tests.support.synthesis import NO_MODELS, cg, load_moody, make_questions, native, record, rows, write_cg
from videopro.benchmarks import load
from videopro.data_synthesis.datasets import assemble
from videopro.data_synthesis.decontamination import EvaluationVideos, evaluation_videos, set_aside
from videopro.data_synthesis.run import main
from videopro.errors import ConfigError, RunError
from videopro.pocket import world
from videopro.traces import VideoRef, read_traces
from videopro.train.runtime.evaluation import load_eval_questions
from videopro.video import Video


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own") / "b"
    make_questions(folder, videos=2, questions=1)
    as_pocket(*folder.rglob("*.mp4"))
    return folder


def command(root: Path, output: Path, *more: str, source: str = "jsonl") -> list[str]:
    flags = ["--source", source, "--root", str(root), "--teacher", "pocket-teacher", "--model", "m"]
    return [*flags, "--output", str(output), "--programs", "1", *NO_MODELS, *more]


def refusal(capsys: pytest.CaptureFixture[str], *args: Any) -> str:
    assert main(command(*args), load=load_moody) == 2
    return capsys.readouterr().err


def recorded(capsys: pytest.CaptureFixture[str], *args: Any) -> tuple[int, str, list[str]]:
    """Of a synthesis from CG-Bench: the status, what it says, and which questions are in its folder."""
    status = main(command(*args, source="cg_bench"), load=load_moody)
    kept = rows(args[1], "records.jsonl") if (args[1] / "records.jsonl").exists() else []
    return status, capsys.readouterr().err, [row["question_id"] for row in kept]


def jsonl(path: Path, *lines: dict[str, Any]) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_the_same_content_under_another_name_is_refused(
    questions: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a folder, or named by a JSONL beside it; a missing one is known by its name."""
    held = tmp_path / "held"
    held.mkdir()
    shutil.copy(questions / "videos" / "v1.mp4", held / "else.mkv")
    cases = (
        (held, "video 'videos/v1.mp4' is else.mkv in"),
        (jsonl(tmp_path / "held.jsonl", {"video": "held/else.mkv"}), "'videos/v1.mp4' is held/else.mkv in"),
        (jsonl(tmp_path / "two.jsonl", {"videos": ["held/else.mkv"]}), "'videos/v1.mp4' is held/else.mkv in"),
        (jsonl(tmp_path / "gone.jsonl", {"video": "elsewhere/v0.mp4"}), "videos/v0.mp4"),
        (
            write_cg(held, cg(video_uid="v1"), name="mini.json") / "mini.json",
            "'videos/v1.mp4' is video v1 of",
        ),
    )
    for exclude, named in cases:
        error = refusal(capsys, questions, tmp_path / "out", "--exclude", str(exclude))
        assert named in error
        assert ("by its name" in error) == (exclude.name == "gone.jsonl")
    assert not (tmp_path / "out").exists(), "nothing was asked"


def test_the_records_own_content_counts(tmp_path: Path) -> None:
    """Also if the file had other content when the check was made."""
    make_video(tmp_path / "held" / "a.mp4", "red")
    content = Video.open(tmp_path / "held" / "a.mp4").id
    trace = record(native("A", 0.9), video=VideoRef("/other/b.mp4", "b", content))
    known = evaluation_videos([tmp_path / "held"])
    settings: dict[str, Any] = {"tau": 0.75, "source": "s", "folder": tmp_path, "seeds": {}}
    with pytest.raises(RunError, match=r"q1.*b\.mp4 is a\.mp4 in"):
        assemble([trace], excluded=known, **settings)
    left = assemble([trace], excluded=known, skip=True, **settings)
    assert (left.sft, left.grpo) == ([], [])
    assert left.rejected == {"question: video of an evaluation split": 1}
    assert len(assemble([trace], excluded=EvaluationVideos(), **settings).sft) == 1


def test_pocket_splits_are_refused_by_their_seeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before a single video is drawn."""
    for split in ("val", "test", "test-heldout", "val-heldout"):
        args = ["--source", "pocket", "--split", split, "--teacher", "pocket-teacher", "--model", "m"]
        assert main([*args, "--output", str(tmp_path / "out"), "--limit", "3"], load=load_moody) == 2
        assert f"of pocket's split {split.removesuffix('-heldout')!r}" in capsys.readouterr().err
    assert list((tmp_path / "cache").rglob("*.mp4")) == []


def test_a_pocket_test_video_is_refused_by_content(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = world.ensure("test", videos={"short_000"}, quiet=True)
    question = {"id": "a", "video": "mine.mp4", "question": "Which?", "choices": ["x", "y"], "answer": "A"}
    own = jsonl(tmp_path / "own" / "questions.jsonl", question).parent
    shutil.copy(folder / "videos" / "short_000.mp4", own / "mine.mp4")
    assert "video short_000 of pocket's split 'test'" in refusal(capsys, own, tmp_path / "out")


def test_the_questions_of_cg_bench_mini_are_held_out_unless_named_otherwise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Five questions about two videos; mini holds the first. The second is about the same video, the third
    has mini's text with other punctuation."""
    copy = "What does he lift"
    root = write_cg(
        tmp_path / "cg",
        cg(),
        cg(qid=8, question="Where is he?"),
        cg(qid=9, video_uid="free", question=f"{copy.upper()} ?!"),
        cg(qid=10, video_uid="free", question="Who sings?"),
        cg(qid=11, video_uid="free", question="Who sings?", right_answer="C"),
    )

    def run(name: str, *more: str) -> tuple[int, str, set[str]]:
        status, error, asked = recorded(capsys, root, tmp_path / name, *more)
        return status, error, set(asked)

    status, error, _ = run("a")
    assert (status, "cgbench_mini.json is missing" in error) == (2, True)
    write_cg(root, cg(), name="cgbench_mini.json")
    # The videos are not there, so that each question ends as an error, but for those that were left out.
    assert run("a", "--evaluation", "refuse")[::2] == (0, {"8", "10", "11"})
    card = json.loads((tmp_path / "a" / "card.json").read_text())
    assert card["questions"]["not asked"] == {
        "question of CG-Bench mini": 1,
        "text of a held-out question": 1,
    }
    status, error, _ = run("b", "--cg-bench-mini", "videos")
    assert (status, "video 'abcDEF-1_xy' is video abcDEF-1_xy of CG-Bench mini" in error) == (2, True)
    assert run("b", "--cg-bench-mini", "videos", "--evaluation", "skip")[::2] == (0, {"10", "11"})
    assert run("c", "--cg-bench-mini", "training")[::2] == (0, {"7", "8", "9", "10", "11"})
    # What was recorded before it was held out gets into no dataset.
    assert run("c", "--assemble-only")[0] == 0
    card = json.loads((tmp_path / "c" / "card.json").read_text())
    assert card["rejected"] == {
        "question: VideoError": 3,
        "question: question of CG-Bench mini": 1,
        "question: text of a held-out question": 1,
    }
    write_cg(root, {"video_uid": "x"}, name="cgbench_mini.json")
    assert run("d")[0] == 2


def test_a_limit_is_of_questions_after_filters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ten questions about as many videos, of which mini holds four."""
    records = [cg(qid=i, video_uid=f"v{i}", question=f"Question {i}?") for i in range(10)]
    root = write_cg(tmp_path / "cg", *records)
    write_cg(root, *records[:4], name="cgbench_mini.json")

    def run(name: str, *more: str) -> tuple[int, str, list[str]]:
        return recorded(capsys, root, tmp_path / name, *more)

    status, error, five = run("a", "--limit", "5")
    assert (status, len(five)) == (0, 5)
    assert "limit is" not in error
    status, error, seven = run("b", "--limit", "7")
    assert (status, set(seven)) == (0, {"4", "5", "6", "7", "8", "9"})
    assert "limit is 7, but only 6 questions are left (left out of 10: question of CG-Bench mini: 4)" in error


def test_videos_of_another_benchmark_are_known_by_their_upload_and_content(
    questions: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """LVBench lists a video that is also in the source under the same id on YouTube, as another file, one
    that is there under another name, and one that only shares a plain name; and a question's words."""
    clips = tmp_path / "lv" / "videos"
    make_video(clips / "00abcDEF-_1.mp4", "grey", seconds=3.0)
    make_video(clips / "v.mp4", "blue", seconds=3.0)
    clips.joinpath("other_clip_.mp4").write_bytes((questions / "videos" / "v0.mp4").read_bytes())
    about = {"answer": "A", "question_type": ["summarization"], "time_reference": ""}
    texts = {"00abcDEF-_1": "Who?", "v": "Which colour?", "other_clip_": "Where?"}
    entries = []
    for key, text in texts.items():
        own = {"uid": key, "question": f"{text}\n(A) a\n(B) b\n(C) c\n(D) d", **about}
        entries.append({"key": key, "type": "t", "qa": [own], "video_info": {"duration_minutes": 1}})
    jsonl(tmp_path / "lv" / "video_info.meta.jsonl", *entries)
    source = tmp_path / "own"
    shutil.copytree(questions, source)
    make_video(source / "00abcDEF-_1.mp4", "red", seconds=2.0)
    make_video(source / "v.mp4", "red", seconds=4.0)
    as_pocket(source / "00abcDEF-_1.mp4", source / "v.mp4")
    with (source / "questions.jsonl").open("a") as file:
        for id, video, question in (
            ("upload", "00abcDEF-_1.mp4", "One?"),
            ("words", "v.mp4", "which COLOUR"),
            ("name", "v.mp4", "Two?"),
        ):
            line = {"id": id, "video": video, "question": question, "choices": ["x", "y"], "answer": "A"}
            file.write(json.dumps(line) + "\n")
    lvbench = ("--exclude", f"lvbench:{tmp_path / 'lv'}")
    assert "which is for evaluation" in refusal(capsys, source, tmp_path / "out", *lvbench)
    assert main(command(source, tmp_path / "out", *lvbench, "--evaluation", "skip"), load=load_moody) == 0
    asked = {row["question_id"] for row in rows(tmp_path / "out", "records.jsonl")}
    assert asked == {"v1q0", "name"}
    card = json.loads((tmp_path / "out" / "card.json").read_text())
    assert card["questions"]["not asked"] == {
        "text of a held-out question": 1,
        "video of an evaluation split": 2,
    }


def test_videos_are_set_aside_for_evaluation(questions: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert main(command(questions, out, "--held-out-videos", "1"), load=load_moody) == 0
    kept = load_eval_questions(str(out / "held_out.jsonl"), limit=None, seed=0).items
    (asked,) = read_traces(out / "records.jsonl")
    assert {asked.question_id, *(item.id for item in kept)} == {"v0q0", "v1q0"}
    assert [item.answer is not None and item.video.is_file() for item in kept] == [True]
    with pytest.raises(ConfigError, match="held_out_videos is 2, but the source has 2 videos"):
        set_aside(load("jsonl", root=questions).items, 2, 0)


@pytest.mark.parametrize("content", [None, "{", '{"path": "a"}', ""])
def test_an_unreadable_exclusion_is_reported(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "x.jsonl").write_text(content)
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "x.jsonl", tmp_path / "empty"):
        with pytest.raises(ConfigError, match=path.name):
            evaluation_videos([path])
