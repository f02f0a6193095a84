"""A damaged video in a run: an error that names the setting, or the nearest intact frame, each use of which
is in the trace and counted. Picture 21 of the video is damaged, and with it those up to the key frame 30: of
ten pictures a second, 2.1 to 3.0 s."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.agents import ScriptedModel
from tests.support.colours import flags, load_fake, make_benchmark
from tests.support.making_videos import damage, make
from tests.support.number_encoder import NumberEncoder, load_index
from tests.support.scenes import OPTIONS, QUESTION, SceneBackbone, ScriptedPlanner, item, reply
from videopro.backbones.wrappers import Meter
from videopro.benchmarks import Protocol
from videopro.benchmarks.base import ROBUST
from videopro.commands import infer
from videopro.commands.benchmarks.command import main as benchmarks
from videopro.errors import VideoError
from videopro.methods import MethodContext, create
from videopro.methods.agents import Session
from videopro.methods.dvd.database import DatabaseBuilder
from videopro.methods.dvd.settings import DvdSettings
from videopro.methods.program import method as program_module
from videopro.modules.search.clip_index import build_index
from videopro.report.reading import read_run
from videopro.report.runs import stand_ins_note
from videopro.traces import StandIn, read_traces
from videopro.train.runtime.frame_cache import FrameCache
from videopro.video import FrameStore, Video


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    make(tmp_path / "video.mp4", 100, rate=10, options={"g": "10", "bf": "0"})
    return damage(tmp_path / "video.mp4", [21])


def opened(damaged: Path, nearest_intact: float = 1.0) -> Video:
    return Video.open(damaged, store=FrameStore(), nearest_intact=nearest_intact)


@pytest.fixture
def root(tmp_path: Path, damaged: Path) -> Path:
    """Two questions about the damaged video, and two about an intact one."""
    make_benchmark(tmp_path / "b", videos=2, questions=2)
    damaged.rename(tmp_path / "b" / "videos" / "v0.mp4")
    return tmp_path / "b"


def run(root: Path, output: Path, *more: str) -> int:
    """Two frames: at 2.5 and 7.5 s of the damaged video."""
    return infer.main(flags(root, output, "--options", "frames=2", *more), load=load_fake)


def test_without_the_setting_the_error_names_it(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(root, tmp_path / "run") == 0
    errors = {trace.question_id: trace.error for trace in read_traces(tmp_path / "run" / "traces.jsonl")}
    for name in ("v0q0", "v0q1"):
        error: Any = errors[name]
        assert error.type == "VideoError"
        assert "v0.mp4: the frame at 2.500 s is damaged" in error.message
        assert "--nearest-intact SECONDS" in error.message
    assert errors["v1q0"] is errors["v1q1"] is None
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert (summary["left_out"], summary["stand_ins"]) == ({"VideoError": 2}, {})
    # It is part of the run's key.
    assert run(root, tmp_path / "run", "--nearest-intact", "1") == 2
    assert "generation.nearest_intact: the run has 0.0, this command 1.0" in capsys.readouterr().err


def test_each_use_is_in_the_trace_and_counted(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    output = tmp_path / "run"
    assert run(root, output, "--nearest-intact", "1") == 0
    traces = {trace.question_id: trace for trace in read_traces(output / "traces.jsonl")}
    used = (StandIn("round 1, call 1 answer", 2.5, 2.0),)
    assert [traces[name].stand_ins for name in ("v0q0", "v0q1", "v1q0")] == [used, used, ()]
    assert not any(trace.error for trace in traces.values())
    summary = json.loads((output / "summary.json").read_text())
    assert summary["stand_ins"] == {"frames": 2, "questions": 2, "videos": 1}
    counted = "2 damaged frames (questions: 2, videos: 1)"
    assert f"the nearest intact frame replaced {counted}" in capsys.readouterr().out
    assert counted in stand_ins_note([read_run(output)])


@pytest.mark.parametrize(
    ("seconds", "status", "expected"),
    [
        ("0", 2, "v0.mp4: damaged at 2.10 to 3.00 s; download it again, or set --nearest-intact SECONDS"),
        ("0.3", 2, "set a larger --nearest-intact"),
        ("1", 0, "2.10 to 3.00 s; the nearest intact frames replace them"),
    ],
)
def test_check_decodes_what_a_run_shows(
    root: Path, capsys: pytest.CaptureFixture[str], seconds: str, status: int, expected: str
) -> None:
    words = ["check", "jsonl", "--root", str(root), "--open", "--nearest-intact", seconds]
    assert benchmarks(words) == status
    assert expected in capsys.readouterr().out


def test_a_program_and_its_planner(damaged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planner is shown two frames, at 2.5 and 7.5 s; its program looks at 2.25 s, and at a part of it."""
    body = """frame = trim_frames(video, 2.2, 2.3, 1)[0]
return query_mc([frame, crop_left(frame)], question, choices)"""
    planner = ScriptedPlanner(lambda request: reply(body))
    monkeypatch.setattr(program_module, "load_planner", lambda *args, **options: planner)
    method = create("program", {**OPTIONS, "planner_frames": 2})
    context = MethodContext(opened(damaged), SceneBackbone(), Protocol(parser=ROBUST), meter=Meter())
    result = method.run(item(video=damaged), context)
    assert result.error is None
    uses = [(use.where, use.wanted, use.given) for use in result.stand_ins]
    assert ("round 1", 2.5, 2.0) in uses
    assert [use for use in uses if "query_mc" in use[0]] == [("round 1, call 3 query_mc", 2.25, 2.0)] * 2


def test_an_agents_step(damaged: Path) -> None:
    model = ScriptedModel(["A number."])
    session = Session(QUESTION, opened(damaged), {"vqa": model}, DvdSettings())
    frames = session.frames([1.0, 2.5, 2.6], "vqa", one_each=True)
    session.tell("look", "vqa", "What is shown?", frames=frames)
    (step,) = session.steps
    assert [(ref[0], ref[3:]) for ref in step.frames] == [(1.0, ()), (2.0, (2.5,)), (3.0, (2.6,))]


def test_an_index_tells_of_them_and_is_not_used_where_they_may_not_stand_in(
    damaged: Path, tmp_path: Path
) -> None:
    encoder = NumberEncoder()
    with pytest.raises(VideoError, match="damaged"):
        build_index(opened(damaged, 0.0), encoder, clip_seconds=2.0, root=tmp_path)
    index = build_index(opened(damaged, 1.0), encoder, clip_seconds=2.0, root=tmp_path)
    assert index.stand_ins
    assert all(2.1 <= wanted < 3.0 and given in (2.0, 3.0) for wanted, given in index.stand_ins)
    again: Any = load_index(opened(damaged, 2.0), encoder, clip_seconds=2.0, root=tmp_path)
    assert again.stand_ins == index.stand_ins
    assert load_index(opened(damaged, 0.0), encoder, clip_seconds=2.0, root=tmp_path) is None


def test_a_database_tells_of_them_and_captions_clips_again(damaged: Path, tmp_path: Path) -> None:
    def build(nearest_intact: float, model: ScriptedModel) -> Any:
        settings = DvdSettings(clip_seconds=2.0, fps=1.0, text_encoder="none", registry="none")
        video = opened(damaged, nearest_intact)
        return DatabaseBuilder(video, model, settings, root=tmp_path, subtitles=None).build()

    model = ScriptedModel(["A number."], forever=True)
    # Clips of 2 s with a frame in the middle of each second: 2.5 s is damaged.
    assert build(1.0, model).preparation.stand_ins == ((2.5, 2.0),)
    assert build(2.0, ScriptedModel([])).preparation.stand_ins == ((2.5, 2.0),)
    with pytest.raises(VideoError, match="damaged"):
        build(0.0, model)


def test_training_decodes_as_runs_do(
    damaged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def cache(seconds: float) -> FrameCache:
        whole: Any = lambda height, width, n: (height, width)  # noqa: E731
        return FrameCache(tmp_path / "c", count=2, resize=whole, form="f", nearest_intact=seconds)

    (reason,) = cache(0.0).prepare([damaged]).values()
    assert "damaged" in reason
    for _ in range(2):  # decoded, then from the cache
        lenient = cache(1.0)
        assert lenient.prepare([damaged]) == {}
        assert [(frame.time, frame.wanted) for frame in lenient.frames(damaged)] == [(2.0, (2.5,)), (7.5, ())]
        assert "video.mp4: 1 damaged frames replaced by intact ones" in capsys.readouterr().err
    # What is cached is not shown to a training without the setting.
    assert cache(0.0).prepare([damaged]) != {}
