"""How programs are run for rewards, which failures stop a run, and what is logged."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.support.reward_world import (
    MetricRecorder,
    SceneBackbone,
    SceneModels,
    checked,
    make,
    row,
    rows,
    score,
)
from tests.support.scenes import BROKEN, LOCAL, NATIVE, SceneIndex, reply
from videopro.errors import BackboneError, ConfigError, DatasetError, WorkerBug
from videopro.executor import Limits, SandboxError
from videopro.methods.program import execution
from videopro.modules.library import VideoContext
from videopro.train.rewards.report import ERRORS

BLUE = LOCAL.replace('"red"', '"blue"')
STUCK = reply("while True:\n    pass\nreturn query_mc(extract_frames(video), question, choices)")


def test_equal_programs_run_once_and_all_functions_share_their_runs() -> None:
    backbone = SceneBackbone()
    recorder = MetricRecorder()
    # The same program in other words: a comment, a docstring, a plan of its own.
    worded = LOCAL.replace("A plan.", "Another plan.").replace(
        "    intervals", '    """Look."""  # at red\n    intervals'
    )
    assert worded.count("# at red") == 1
    with make(backbone) as rewards:
        found = score(rewards, rows(4), [LOCAL, worded, BLUE, LOCAL], recorder)
        assert found == [(1, 1, 1), (1, 1, 1), (0, 1, 1), (1, 1, 1)]
        assert rewards.executions == 2
        # Each was answered once, with the adapter off.
        assert [adapted for _, adapted in backbone.asked] == [False, False]
        assert rewards.weights == [0.5, 0.2, 0.3]
        # A question in another kind of prompt is the same question; another question is not.
        score(rewards, [row(kind="bug_fix"), row(question="What is shown?")], [LOCAL, LOCAL])
        assert rewards.executions == 3
    # Three functions, one report.
    names = [name for name, _ in recorder.metrics]
    assert len(names) == len(set(names))
    assert dict(recorder.metrics)["programs/begun"] == 0.5


class MeetingIndex(SceneIndex):
    """Lets a search continue only when `count` programs search at once."""

    def __init__(self, count: int) -> None:
        self.together = threading.Barrier(count, timeout=60)

    def search(self, query: str, top_k: int, **window: Any) -> list[tuple[int, float]]:
        self.together.wait()
        return super().search(query, top_k, **window)


def test_programs_run_in_parallel() -> None:
    models = SceneModels()
    models.index = MeetingIndex(4)
    replies = [LOCAL.replace('"red"', f'"red {n}"') for n in range(4)]
    # Programs that ran one after another would never meet, and the broken barrier would raise.
    with make(models=models, workers=4) as rewards:
        assert score(rewards, rows(4), replies) == [(1, 1, 1)] * 4


def test_a_prefetched_program_is_not_started_again_and_videos_are_prepared_once() -> None:
    models = SceneModels()
    with make(models=models) as rewards:
        rewards.prepare([checked()] * 8)
        future = rewards.submit(checked(), LOCAL)
        ran = future.result(60)
        assert (ran.execution.answer.letter, rewards.executions) == ("B", 1)
        assert score(rewards, rows(2), [LOCAL, NATIVE]) == [(1, 1, 1), (0, 1, 0)]
        assert rewards.executions == 2
    assert len(models.made) == 1


def test_a_stuck_program_ends_and_the_others_are_judged() -> None:
    recorder = MetricRecorder()
    with make(limits=Limits(cpu_seconds=0.2, wall_seconds=60)) as rewards:
        found = score(rewards, rows(4), [STUCK, LOCAL, BROKEN, "prose"], recorder)
    assert found == [(0, 1, 1), (1, 1, 1), (0, 1, 1), (0, 0, 0)]
    metrics = dict(recorder.metrics)
    for name in ("limit", "NameError", "NoProgram"):
        assert metrics[f"programs/failed/{name}"] == 0.25
    assert metrics["programs/failed"] == 0.75
    assert recorder.columns["error"] == ["CpuLimit", None, "NameError", "NoProgram"]


def test_metrics_are_those_of_the_programs() -> None:
    recorder = MetricRecorder()
    guess = reply('query_native(video, question, choices)\nreturn make_result("B", 1.0)')
    with make() as rewards:
        score(rewards, rows(4), [LOCAL, NATIVE, guess, BROKEN], recorder)
    found = {name.removeprefix("programs/"): value for name, value in recorder.metrics}
    assert found["ok"] == 0.75
    assert found["empty"] == 0
    assert found["failed"] == 0.25
    named = {name: found[f"failed/{name}"] for name in ERRORS}
    assert {name: share for name, share in named.items() if share} == {"NameError": 0.25}
    assert found["guess"] == 0.25
    assert found["native_share"] == 0.5  # NATIVE, and the guess, whose only look is the native one.
    # LOCAL: clips, frames, question; NATIVE: one; the guess: one and make_result; BROKEN: none.
    assert found["module_calls"] == (3 + 1 + 2 + 0) / 4
    # 10 one-second frames of a clip of 10 s show 10 pictures; the backbone sees 12 of the whole video.
    assert found["frames"] == (10 + 12 + 12 + 0) / 4
    assert found["planner_tokens"] == (10 + 20 + 30 + 40) / 4
    assert found["confidence"] == pytest.approx((0.9 + 0.4 + 0.0) / 3)
    assert found["left_out"] == 0
    assert found["begun"] == 1
    assert found["wait_seconds"] > 0
    assert recorder.columns["kind"] == ["plan"] * 4
    assert recorder.columns["mode"] == ["program", "native", "native", "program"]
    assert recorder.columns["answer"] == ["B", "D", "B", None]


def test_a_row_is_left_out_only_for_what_shows_without_a_program(capsys: pytest.CaptureFixture[str]) -> None:
    """The model fails about one row whatever is asked; about the others only as the programs ask."""
    strip = reply(
        "frame = extract_frames(video, 1)[0]\nreturn query_mc([frame], question + '(bug)', choices)"
    )
    hidden = reply(
        "try:\n    query_yn(extract_frames(video, 1), '(bug)')\nexcept Exception:\n    pass\nreturn 'B'"
    )
    with make() as rewards:
        given = [row(), row(), row(id="r3", question="What is shown? (bug)"), row()]
        # Two failing requests, one of them hidden: wrong answers, not rows without a reward.
        found = score(rewards, given, [strip, hidden, LOCAL, LOCAL])
        assert [accuracy for accuracy, _, _ in found] == [0, 0, None, 1]
        assert list(rewards.left_out) == [(row()["video"], "r3")]
    assert capsys.readouterr().err.count("Traceback (most recent call last)") == 1


def test_one_exception_stops_a_training_only_if_no_row_works(tmp_path: Path) -> None:
    videos = [tmp_path / f"v{number}.mp4" for number in range(6)]
    for path in videos:
        path.symlink_to(row()["video"])
    bad = [row(id=path.name, question="What is shown? (bug)", video=str(path)) for path in videos]
    with make() as rewards:
        # Three videos of many, met again and again, between rows that work; also ones that ran before.
        for _ in range(3):
            for one in bad[:3]:
                assert score(rewards, [one, row()], [LOCAL, LOCAL]) == [(None, None, None), (1, 1, 1)]
    with make() as rewards:
        score(rewards, bad[:2], [LOCAL, LOCAL])
        with pytest.raises(WorkerBug, match="failed all rows of 3 videos in a row"):
            score(rewards, bad[2:3], [LOCAL])


def test_a_sandbox_or_a_module_that_cannot_run_stops_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any, **settings: Any) -> Any:
        raise SandboxError("programs cannot be run safely here")

    with monkeypatch.context() as patch:
        patch.setattr(execution, "run", broken)
        with make() as rewards, pytest.raises(SandboxError, match="cannot be run safely"):
            score(rewards, [row()], [LOCAL])

    class UnavailableModels(SceneModels):
        def context(self, video: Any, backbone: Any, subtitles: Any, without: Any = ()) -> VideoContext:
            raise ConfigError("encoder 'x' is not known")

    with make(models=UnavailableModels()) as rewards, pytest.raises(ConfigError, match="encoder"):
        score(rewards, [row()], [LOCAL])


def test_a_dead_backbone_stops_the_run() -> None:
    # The program catches every error that it can; a dead backbone is not one of them.
    caught = reply(
        "try:\n    return query_native(video, question, choices)\nexcept Exception:\n    return None"
    )
    with make(SceneBackbone(gone=True)) as rewards:
        with pytest.raises(BackboneError, match="cannot serve this request") as stopped:
            score(rewards, rows(2), [caught, "prose"])
        assert "Every other request fails too" in str(stopped.value)


def test_refused_rows_and_videos_that_cannot_be_read_are_left_out_and_named_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorder, broken = MetricRecorder(), tmp_path / "broken.mp4"
    broken.write_bytes(b"this is no video" * 100)
    with make() as rewards:
        given = [row(), row(id="q2/plan", question="What is shown? (refuse)")]
        for _ in range(2):
            assert score(rewards, given, [LOCAL, LOCAL], recorder) == [(1, 1, 1), (None, None, None)]
        # It is asked again: another time the backbone may serve it.
        assert rewards.executions == 3
        assert rewards.left_out == {(row()["video"], "q2/plan"): "cannot serve this request"}
        with pytest.raises(BackboneError, match="requests of all 2 programs"):
            score(rewards, [given[1]] * 2, [LOCAL, NATIVE])
        given = [*rows(2, id="q3/plan", video=str(broken)), row(id="q4/plan", video="/nowhere.mp4"), row()]
        for _ in range(2):
            found = score(rewards, given, [LOCAL, NATIVE, LOCAL, LOCAL], recorder)
            assert found == [*[(None, None, None)] * 3, (1, 1, 1)]
        assert {*rewards.left_out} == {(row()["video"], "q2/plan"), (str(broken), ""), ("/nowhere.mp4", "")}
    named = capsys.readouterr().err
    for name in ("q2/plan", f"rewards: skipped {broken}: ", "rewards: skipped /nowhere.mp4: "):
        assert named.count(name) == 1
    assert {("programs/left_out", 0.5), ("programs/left_out", 0.75)} <= {*recorder.metrics}
    assert recorder.columns["error"][-8:] == ["VideoError", "VideoError", "VideoError", None] * 2


def test_programs_have_the_rows_subtitles(tmp_path: Path) -> None:
    (tmp_path / "a.srt").write_text("1\n00:00:12,000 --> 00:00:15,000\nThe old king laughs.\n")
    spoken = reply(
        'start, end = get_informative_subtitles(video, "king", top_k=1)[0]\n'
        "return query_mc(trim_frames(video, start, end, num_frames=3), question, choices)"
    )
    with make() as rewards:
        given = [row(subtitles=str(tmp_path / "a.srt")), row()]
        # 12 to 15 s are red; without subtitles the module cannot be used.
        assert score(rewards, given, [spoken, spoken]) == [(1, 1, 1), (0, 1, 1)]
        # A row is left out for those that cannot be read.
        given[0]["subtitles"] = str(tmp_path / "missing.srt")
        assert score(rewards, given, [LOCAL, LOCAL]) == [(None, None, None), (1, 1, 1)]


def test_each_reply_is_a_line_of_the_log(tmp_path: Path) -> None:
    path = tmp_path / "run" / "rewards.jsonl"
    with make(log=path) as rewards:
        score(rewards, [row(), row(id="q1/bug_fix-2", kind="bug_fix")], [LOCAL, "prose \ud83d"], step=41)
    path.write_bytes(path.read_bytes() + b'{"step": 42, "id": "q1/pl')  # Killed while it wrote.
    with make(log=path) as rewards:
        score(rewards, [row()], [BROKEN], step=42)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(line["step"], line["id"], line["kind"]) for line in lines] == [
        (41, "q1/plan", "plan"),
        (41, "q1/bug_fix-2", "bug_fix"),
        (42, "q1/plan", "plan"),
    ]
    right, prose, broken = lines
    assert right["reply"] == LOCAL
    assert (right["mode"], right["status"], right["answer"], right["correct"]) == ("program", "ok", "B", True)
    assert right["rewards"] == {"accuracy": 1.0, "format": 1.0, "mode_consistency": 1.0}
    assert (prose["reply"], prose["mode"], prose["status"]) == ("prose \ud83d", None, "failed")
    assert (broken["error"], broken["answer"], broken["correct"]) == ("NameError", None, False)


def test_a_program_is_rewarded_in_the_world_that_its_row_describes() -> None:
    """What the row does without cannot be called; another row about the same question still can."""
    text = reply(
        'intervals, clips = get_informative_clips(video, "red", top_k=1)\n'
        "return query_mc(extract_frames(clips[0]), question, choices)"
    )
    with make(SceneBackbone()) as rewards:
        rows = [row(without=[]), row(without=["retrieval"]), row(without=["extraction"])]
        accuracies = [accuracy for accuracy, _, _ in score(rewards, rows, [text] * 3)]
    assert accuracies == [1, 0, 1]
    with pytest.raises(DatasetError, match="without is 'retrieval'"):
        checked(without="retrieval")
