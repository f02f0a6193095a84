"""What VideoAgent looks at: clips and frames, budgets, presets, what questions share, pocket videos."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.method_world import item
from tests.support.reason_world import QUESTION
from tests.support.scripted_model import ScriptedModel
from tests.support.videoagent_world import (
    SceneVideoAgent,
    kinds,
    looked_at,
    predict,
    reflect,
    search,
)
from videopro.backbones import load_backbone
from videopro.backbones.wrappers import Meter
from videopro.benchmarks import Protocol
from videopro.benchmarks.base import ROBUST
from videopro.errors import ConfigError
from videopro.methods import MethodContext, create
from videopro.methods.agents import ModelLoader
from videopro.methods.videoagent import VideoAgentMethod
from videopro.methods.videoagent.agent import VideoAgentSettings
from videopro.methods.videoagent.timeline import Timeline, without_neighbours
from videopro.pocket import world
from videopro.question import Question
from videopro.video import Video

FIRST = [6.5, 18.5, 30.5, 42.5, 54.5]
TWO_ROUNDS: list[Any] = [predict("A"), reflect(1), search((2, "red")), predict("B"), reflect(3)]


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIDEOPRO_CACHE", str(tmp_path))


# ---- the frames of a video -------------------------------------------------------------------------------


def test_segments_lie_between_seen_frames_and_hold_one_that_could_be_kept() -> None:
    timeline = Timeline(10.0, 1.0)
    assert [(s.number, s.start, s.end, s.indices) for s in timeline.segments([2, 4, 8])] == [
        (1, 0.0, 2.5, (0, 1)),
        # The second part has only second 3, a neighbour of both; in the third, 6 is next to neither end.
        (3, 4.5, 8.5, (5, 6, 7)),
    ]
    assert timeline.segments(range(0, 10, 2)) == []
    assert timeline.unseen([1, 2]).indices == (0, 3, 4, 5, 6, 7, 8, 9)


def test_a_short_video_has_fewer_frames_and_a_short_last_second() -> None:
    timeline = Timeline(2.4, 1.0)
    assert timeline.uniform(5) == [0, 1, 2]
    assert timeline.time(2) == pytest.approx(2.2)
    # Two frames a second.
    assert Timeline(2.0, 2.0).uniform(2) == [1, 3]


def test_neighbours_are_dropped_worst_first() -> None:
    # 5 is next to the seen 4; 9 to the better 10; of the equal 20 and 21, the earlier is kept.
    found = {5: 0.9, 9: 0.3, 10: 0.4, 21: 0.2, 20: 0.2}
    assert without_neighbours([4], found) == [10, 20]


# ---- clips, frames, captions -----------------------------------------------------------------------------


def test_a_clip_is_captioned_around_its_frame() -> None:
    method = SceneVideoAgent([predict("B"), reflect(3)], captions="clip", first_frames=1, clip_seconds=2.0)
    result = method.answer()
    # One clip of two seconds around 30.5 s, which begins in the grey and ends in the blue scene.
    assert looked_at(result) == [29.5, 30.0, 30.5, 31.0]
    assert "30.5 s: a grey then blue wall" in method.llm.requests[0].prompt
    assert method.captioner.requests[0].prompt == "Describe what is shown.\nReply in one sentence."


def test_frames_are_captioned_in_detail_and_clips_in_a_sentence() -> None:
    detailed = SceneVideoAgent([predict("B"), reflect(3)])
    detailed.answer()
    assert "detail" in detailed.captioner.requests[0].prompt
    short = SceneVideoAgent([predict("B"), reflect(3)], captions="clip")
    short.answer()
    assert "one sentence" in short.captioner.requests[0].prompt


def test_without_captions_the_language_model_sees_the_frames() -> None:
    method = SceneVideoAgent(TWO_ROUNDS, captions="none")
    result = method.answer()
    assert kinds(result) == [
        ("predict", 0), ("reflect", 0), ("search", 0), ("retrieve", 0), ("predict", 1), ("reflect", 1)
    ]  # fmt: skip
    assert [[frame.time for frame in request.frames] for request in method.llm.requests] == [
        *[FIRST] * 3, *[sorted([*FIRST, 10.5])] * 2
    ]  # fmt: skip
    assert "from these times in seconds: 6.5, 10.5, 18.5," in method.llm.requests[3].prompt
    equipment = method.equipment()
    assert (equipment.seeing, list(equipment.roles)) == ("llm", ["llm"])


def test_frames_beyond_the_models_maximum_are_left_out_and_noted() -> None:
    method = SceneVideoAgent([predict("B"), reflect(3)], captions="none", frames=4)
    result = method.answer()
    assert len(method.llm.requests[0].frames) == 4
    assert "at most 4 frames a call: the maximum of llm" in result.notes


def test_an_open_question_is_answered_in_words() -> None:
    method = SceneVideoAgent([predict("a red wall"), reflect(3)])
    result = method.answer(question=Question.open("What is shown second?"), answer=None)
    assert (result.final.letter, result.final.raw) == (None, "a red wall")
    assert result.rounds[0].execution.status == "ok"
    assert '"final_answer": "a few words"' in method.llm.requests[0].prompt
    assert "Your answer: a red wall" in method.llm.requests[1].prompt


# ---- budgets and presets ---------------------------------------------------------------------------------


def test_the_frame_budget_keeps_the_best_and_ends_the_search() -> None:
    # There is no green in segment 2, so what is found there fits less well.
    wanted = search((2, "green"), (5, "50.5"))
    lines = [predict("A"), reflect(1), wanted, predict("B"), reflect(1)]
    result = SceneVideoAgent(lines, max_frames=6).answer()
    assert looked_at(result) == sorted([*FIRST, 50.5])
    assert kinds(result)[-1] == ("reflect", 1)
    assert "no more frames may be looked at: the last prediction is the answer" in result.notes
    assert result.final.letter == "B"


def test_a_small_frame_budget_makes_fewer_first_frames() -> None:
    result = SceneVideoAgent([predict("B"), reflect(1)], max_frames=2).answer()
    assert looked_at(result) == [15.5, 45.5]


def test_clips_stay_within_the_frame_budget() -> None:
    # Two clips of four frames; then one clip, whose four frames would not fit, of three.
    for limit, seen in ((9, 8), (3, 3)):
        lines = [predict("B"), reflect(1)]
        method = SceneVideoAgent(lines, captions="clip", clip_seconds=2.0, max_frames=limit)
        assert method.answer().frames_seen == seen


def test_a_video_that_was_seen_in_every_part_ends_the_search() -> None:
    method = SceneVideoAgent([predict("B"), reflect(1)], first_frames=30)
    result = method.answer()
    assert "every part of the video was looked at: the last prediction is the answer" in result.notes


def test_equal_looks_at_no_more_frames_than_the_backbone_takes() -> None:
    wanted = search((2, "12.5"), (3, "25.5"), (4, "42.5"), (4, "47.5"), (5, "57.5z"))
    lines = [predict("A"), reflect(1), wanted, predict("B"), reflect(1)]
    result = SceneVideoAgent(lines, preset="equal", frames=8).answer()
    # Half of eight are the first frames; of the five that are found, the four best are added.
    assert looked_at(result) == [7.5, 12.5, 22.5, 25.5, 37.5, 42.5, 47.5, 52.5]
    assert [step.kind for step in result.steps[:5]] == ["caption"] * 4 + ["predict"]


def test_a_spent_budget_answers_from_the_last_prediction_or_a_new_one() -> None:
    # Five captions, then predict: nothing was found since.
    result = SceneVideoAgent([predict("B")], max_steps=6).answer()
    assert (result.final.letter, kinds(result)[-1]) == ("B", ("predict", 0))
    # The tenth step is the caption of what was found: it is predicted from.
    method = SceneVideoAgent([predict("A"), reflect(1), search((2, "red")), predict("B")], max_steps=10)
    result = method.answer()
    assert kinds(result)[-2:] == [("caption", 0), ("predict", 1)]
    assert "10.5 s: a red wall" in method.llm.requests[-1].prompt
    assert result.final.letter == "B"
    # Spent among the first captions: predicted from those that there are.
    method = SceneVideoAgent([predict("C")], max_steps=2)
    assert method.answer().final.letter == "C"
    assert "18.5 s: a red wall" in method.llm.requests[0].prompt
    assert "30.5 s" not in method.llm.requests[0].prompt


def test_sampled_captions_do_not_depend_on_the_question_that_asks_first() -> None:
    seeds = []
    for text in ("What is shown first?", "What is shown last?"):
        method = SceneVideoAgent([predict("B"), reflect(3)], temperature=0.7)
        method.answer(question=Question(text, QUESTION.choices))
        seeds.append([request.sampling.seed for request in method.captioner.requests if request.sampling])
    assert seeds[0] == seeds[1]
    assert len(set(seeds[0])) == 5


# ---- what questions share --------------------------------------------------------------------------------


def test_questions_of_a_video_share_captions_and_the_index() -> None:
    lines: list[Any] = [predict("B"), reflect(3), *TWO_ROUNDS]
    method = SceneVideoAgent(lines, max_parallel=1)
    first, second = method.answers(item(id="q1"), item(id="q2"))
    assert len(method.captioner.requests) == 6
    assert [step.is_reused for step in second.steps if step.kind == "caption"] == [True] * 5 + [False]
    assert (first.cost.calls, second.cost.calls) == (7, 6)
    # Frames of reused captions were looked at all the same.
    assert (first.frames_seen, second.frames_seen) == (5, 6)
    assert first.prepared == second.prepared
    # Another unit of work about the same video, in the same process.
    method.llm.lines = [predict("B"), reflect(3)]
    method.llm.requests.clear()
    assert method.answer().cost.calls == 2


def test_captions_of_questions_in_flight_are_made_once() -> None:
    def fits(prompt: str, frames: object) -> Any:
        return reflect(3) if "Your answer" in prompt else predict("B")

    method = SceneVideoAgent([fits], max_parallel=8)
    method.llm.forever = True
    results = method.answers(*(item(id=f"q{number}") for number in range(8)))
    assert len(method.captioner.requests) == 5
    assert [result.final.letter for result in results] == ["B"] * 8
    assert sum(step.is_reused for result in results for step in result.steps) == 35


def test_the_index_has_its_cost_also_where_another_run_built_it() -> None:
    built = SceneVideoAgent([predict("B"), reflect(3)]).answer().prepared
    found = SceneVideoAgent([predict("B"), reflect(3)]).answer().prepared
    assert built == found
    (index,) = built
    # Sixty clips of three frames.
    assert (index.kind, index.is_known, index.cost.frames) == ("index", True, 180)


def test_retrieval_needs_an_encoder() -> None:
    with pytest.raises(ConfigError, match="leave out encoder=none"):
        SceneVideoAgent([], encoder=False).answer()


# ---- the pocket world ------------------------------------------------------------------------------------


class PocketVideoAgent(VideoAgentMethod):
    """The pocket model captions, the pocket encoder retrieves, and a scripted language model decides."""

    def __init__(self, llm: ScriptedModel) -> None:
        super().__init__(VideoAgentSettings())
        self._llm = llm

    def models(self, backbone: Any) -> dict[str, Any]:
        return {"llm": self._llm, "captioner": ModelLoader(backbone)["self"]}


def test_the_pocket_model_captions_what_its_encoder_finds(tmp_path: Path) -> None:
    folder = world.ensure("val", tmp_path, videos=["short_001"], quiet=True)
    video = Video.open(folder / "videos" / "short_001.mp4")
    backbone = load_backbone("pocket")
    llm = ScriptedModel([predict("A"), reflect(1), search("a ball at the forest"), predict("B"), reflect(3)])
    method = PocketVideoAgent(llm)
    method.settings = VideoAgentSettings(segment_selection=False)
    context = MethodContext(video, backbone, Protocol(parser=ROBUST), meter=Meter())
    result = method.run(item(question=QUESTION), context)
    assert result.final.letter == "B"
    captions = [step for step in result.steps if step.kind == "caption"]
    assert len(captions) == 6
    # The pocket model knows the short prompt only.
    assert {step.prompt for step in captions} == {"Describe what is shown.\nReply in one sentence."}
    # The video shows a ball at the forest from 30.25 to 41.5 s, and it is found by the words.
    assert 30.25 <= captions[-1].frames[0][0] < 41.5
    assert re.search(r"\bball\b.*\bforest\b", captions[-1].raw)
    assert not any(re.search(r"\bball\b.*\bforest\b", step.raw) for step in captions[:-1])
    (index,) = result.prepared
    assert index.cost.frames > video.duration


def test_the_method_is_known_by_its_name() -> None:
    method = create("videoagent", {"first_frames": 3, "captioner": "api:vlm@http://host/v1"})
    assert isinstance(method, VideoAgentMethod)
    assert (method.identity()["captioner"], method.identity()["llm"]) == ("api:vlm", "self")
