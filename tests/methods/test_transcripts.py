"""Every method gets the same transcripts, by one setting, and their cost is a preparation's."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import scenes as world
from tests.support.adapting import adapted
from tests.support.making_videos import make
from tests.support.scenes import QUESTION, SceneBackbone, reply
from tests.support.sounds import with_damaged_sound, with_tone
from videopro.backbones.wrappers import Meter
from videopro.benchmarks import ROBUST, Item, Protocol
from videopro.errors import ConfigError
from videopro.methods import METHODS, MethodContext, create
from videopro.methods.agents import AgentMethod, BackboneModel
from videopro.methods.lvagent import LvAgentMethod
from videopro.modules.models import Heard, SpeechRecognizer, SpeechSpec
from videopro.traces import Result
from videopro.video import SubtitleLine, Video

SAID = "the ferry leaves at noon"
SPEECH = {"speech": "whisper:ears"}
AGENT: dict[str, Any] = {"max_parallel": 1}
PROGRAM = {**world.OPTIONS, "planner": "self"}
OPTIONS: dict[str, dict[str, Any]] = {
    "native": {},
    "program": PROGRAM,
    "adaptive": PROGRAM,
    "videopro": {**PROGRAM, "max_rounds": 0},
    "videoagent": {**AGENT, "selection": "uniform", "max_rounds": 1},
    "dvd": {**AGENT, "registry": "parallel", "text_encoder": "none", "max_tool_steps": 1},
    "vca": {**AGENT, "max_rounds": 1},
    "lvagent": {**AGENT, "agents": ["self", "pocket"], "encoder": "pocket", "max_rounds": 1},
}


class Ears(SpeechRecognizer):
    """Hears one sentence, which is said all the time."""

    pieces = 0

    def transcribe(self, sound: np.ndarray, language: str | None = None) -> Heard:
        Ears.pieces += 1
        return Heard((SubtitleLine(0.0, len(sound) / 16_000, SAID),), "en")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(SpeechSpec, "load", lambda spec, device=None: Ears())
    monkeypatch.setattr(
        AgentMethod,
        "models",
        lambda self, backbone: {role: BackboneModel(backbone) for role in self.equipment().roles},
    )
    Ears.pieces = 0
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return with_tone(tmp_path_factory.mktemp("videos") / "a.mkv", starts=(0.0,), seconds=8.0)


def answered(name: str, options: dict[str, Any], video: Path, **item: Any) -> tuple[Result, str]:
    """The result of a question, and all that models read for it."""
    backbone = SceneBackbone(
        writes=lambda request: reply(
            'lines = get_informative_subtitles(video, "ferry", top_k=1)\n'
            "return query_native(video, question, choices)"
        )
    )
    method = create(name, {**OPTIONS[name], **options})
    if isinstance(method, LvAgentMethod):
        method._is_checked = True  # Both agents are the same fake here.
    opened = Video.open(video)
    context = MethodContext(opened, backbone, Protocol(parser=ROBUST), meter=Meter())
    result = method.run(Item("q", video, "v", QUESTION, answer="B", **item), context)
    assert result.error is None
    calls = [call for round in result.rounds if round.execution for call in round.execution.calls]
    written = [request.text for request, *_ in backbone.written]
    return result, "\n".join([*backbone.prompts, *written, *(call.result for call in calls)])


def reads(name: str) -> dict[str, Any]:
    """How native is told to show lines, which a run's own settings settle by `adapt`."""
    return {"subtitles": "frames"} if name == "native" else {}


@pytest.mark.parametrize("name", METHODS)
def test_every_method_reads_the_transcript_and_none_pays_for_it_twice(
    name: str, cache: Path, video: Path
) -> None:
    options = {**SPEECH, **reads(name)}
    result, read = answered(name, options, video)
    assert SAID in read
    (made,) = (part for part in result.prepared if part.kind == "transcript")
    assert made.is_known
    assert made.audio_seconds == pytest.approx(8.0, abs=0.05)
    # Another run finds it, and reports the same cost.
    again, _ = answered(name, options, video)
    assert made in again.prepared
    assert Ears.pieces == 1
    without, unread = answered(name, reads(name), video)
    assert SAID not in unread
    assert "transcript" not in {part.kind for part in without.prepared}


@pytest.mark.parametrize("name", METHODS)
def test_listed_subtitles_come_first_and_a_video_without_sound_is_answered(
    name: str, cache: Path, video: Path, tmp_path: Path
) -> None:
    listed = tmp_path / "a.srt"
    listed.write_text("1\n00:00:00,000 --> 00:00:08,000\na corrected line about the ferry\n")
    options = {**SPEECH, **reads(name)}
    if name in ("videoagent", "vca"):
        options["subtitles"] = "listed"
    _, read = answered(name, options, video, subtitles=listed)
    assert "a corrected line about the ferry" in read
    assert not cache.joinpath("speech").exists()
    make(tmp_path / "mute.mp4", 16, rate=2)
    result, _ = answered(name, options, tmp_path / "mute.mp4")
    assert "no transcript: the video has no audio" in result.notes
    broken = with_damaged_sound(tmp_path / "broken.mkv", range(5, 80))
    result, _ = answered(name, options, broken)
    assert "no transcript: the audio of the video cannot be read" in result.notes
    assert Ears.pieces == 0


@pytest.mark.parametrize("name", METHODS)
def test_a_model_that_is_not_here_hears_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("videopro.modules.models.transcription.find_whisper", lambda: None)
    options = {**OPTIONS[name], **reads(name)}
    plain = create(name, options).identity()
    assert plain["speech"] == "none"
    # Whisper is asked for, and not on this machine.
    assert create(name, {**options, "speech": "whisper"}).identity() == plain
    heard = create(name, {**options, **SPEECH}).identity()
    assert heard == {**heard, **plain, "speech": "whisper:ears"}


def test_native_shows_the_lines_at_its_frames_unless_it_is_told_otherwise() -> None:
    offered, none = Protocol(ROBUST), Protocol(ROBUST, name="official", subtitles="none")
    assert adapted("native", SPEECH, protocol=offered).options == {**SPEECH, "subtitles": "frames"}
    assert adapted("native", {**SPEECH, "subtitles": "all"}).options["subtitles"] == "all"
    assert adapted("native", {}, protocol=offered).options == {}
    inside = Protocol(ROBUST, subtitles="interleaved")
    assert adapted("native", SPEECH, protocol=inside).options["subtitles"] == "interleaved"
    with pytest.raises(ConfigError, match="speech is 'whisper:ears', but protocol 'official' has no"):
        adapted("native", SPEECH, protocol=none)
