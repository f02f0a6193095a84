"""VCA's ablations (Tables 3 to 6), open questions, and settings that do not go together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.support.adapting import adapted
from tests.support.method_world import context, item
from tests.support.reason_world import SceneBackbone, colour_of
from tests.support.scripted_model import ScriptedModel
from tests.support.vca_world import ScriptedVca, explore, flat, listed
from videopro.errors import ConfigError
from videopro.methods import create
from videopro.methods.vca import VcaSettings
from videopro.modules import ModuleModels
from videopro.modules.models.encoders import VideoTextEncoder
from videopro.question import Question
from videopro.video import Frame

# ---- rewards ---------------------------------------------------------------------------------------------


def test_without_rewards_the_agent_chooses_by_the_frames() -> None:
    ended = explore([{"segment": 6}, {"answer": "B"}], reward="none", buffer=6)
    assert ended.kinds == ["reward", "explore", "reward", "evict", "explore"]
    first, second = ended.steps("reward")
    assert (first.model, first.args, first.frames) == ("", {"reward": "none"}, ())
    assert [segment.score for segment in first.segments] == [None] * 7
    assert [segment.parent for segment in second.segments] == ["6"] * 7
    assert "\n0: 0.0-8.6 s\n" in ended.asked_for_action[0].prompt
    assert listed(ended.asked_for_action[0]) == [0, 1, 2, 3, 4, 5, 6]
    # Only the newest frames are left.
    assert min(frame[0] for frame in ended.steps("explore")[1].frames) >= 51.0


@pytest.mark.parametrize(
    ("evidence", "scores", "note"),
    [
        # 8.6 to 17.1 s holds three quarters of it, the next segment one.
        (
            ((120 / 7 - 6, 120 / 7 + 2),),
            [0, 75, 25, 0, 0, 0, 0],
            "oracle: segments are scored by the annotated evidence",
        ),
        # A moment counts as a hundredth of a second.
        (((30.0, 30.0),), [0, 0, 0, 100, 0, 0, 0], "oracle: segments are scored by the annotated evidence"),
        ((), [None] * 7, "oracle: segments are scored by the annotated evidence, and this question has none"),
    ],
)
def test_the_oracle_scores_by_the_evidence(evidence: Any, scores: list[Any], note: str) -> None:
    ended = explore([{"answer": "B"}], reward="evidence", asked=replace(item(), evidence=evidence))
    (step,) = ended.steps("reward")
    found = [segment.score for segment in step.segments]
    assert found == (scores if scores[0] is None else pytest.approx(scores))
    assert step.args == {"reward": "evidence"}
    assert note in ended.result.notes


def test_only_the_oracle_gets_the_evidence_and_a_run_says_so() -> None:
    oracle, own = create("vca", {"reward": "evidence"}), create("vca", {})
    assert oracle.identity()["oracle"] == "evidence"
    assert "oracle" not in own.identity()
    with_evidence, without = (
        explore([flat(7), {"answer": "B"}], asked=replace(item(), evidence=evidence))
        for evidence in (((12.0, 18.0),), ())
    )
    assert [request.prompt for request in with_evidence.model.requests] == [
        request.prompt for request in without.model.requests
    ]


class ColourEncoder(VideoTextEncoder):
    """A red picture has cosine 0.8 with any text, a green one -0.5, and another one 0.2."""

    clip_frames = 2
    cosines: dict[str, float] = {"red": 0.8, "green": -0.5}

    def __init__(self) -> None:
        super().__init__("colours")
        self.clips: list[Sequence[Frame]] = []

    def identity(self) -> dict[str, object]:
        return {}

    def frame_size(self, height: int, width: int) -> tuple[int, int]:
        return height, width

    def score_clips(self, texts: Sequence[str], clips: Sequence[Sequence[Frame]]) -> np.ndarray:
        assert list(texts) == [item().question.text]
        assert all(clip[0] is clip[1] for clip in clips)
        self.clips += clips
        return np.array([[self.cosines.get(colour_of(clip[0]), 0.2) for clip in clips] for _ in texts])

    def _embed_clips(self, clips: Any) -> Any:
        raise NotImplementedError

    _embed_texts = _embed_clips


def test_image_rewards_are_mean_similarities_of_start_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = ColourEncoder()
    monkeypatch.setattr(ModuleModels, "encoder", lambda self: encoder)
    ended = explore([{"segment": 1}, {"answer": "B"}], reward="image")
    first, second = ended.steps("reward")
    # The frames are grey, red, grey, blue, grey, green; the first and the last segment have one of them. A
    # negative cosine counts as nothing.
    assert [s.score for s in first.segments] == pytest.approx([20, 50, 50, 20, 20, 10, 0])
    assert len(first.frames) == 6
    # Segment 1 lasts from 8.6 s, a frame known from the round before, to 17.1 s; it is red from 10 s on.
    assert [s.score for s in second.segments] == pytest.approx([20, 50, 80, 80, 80, 80, 80])
    assert len(encoder.clips) == 12
    assert "2: 17.1-25.7 s, 50\n" in ended.asked_for_action[1].prompt


def test_the_pocket_encoder_gives_image_rewards() -> None:
    ended = explore([{"answer": "B"}], reward="image", encoder="pocket")
    values = [segment.score for segment in ended.steps("reward")[0].segments]
    assert all(value is not None and 0 <= value <= 100 for value in values)
    assert len({*values}) > 1


def test_image_rewards_need_an_encoder() -> None:
    with pytest.raises(ConfigError, match="reward=image needs an encoder"):
        explore([], reward="image", encoder="none")


# ---- without tree search ---------------------------------------------------------------------------------


def test_without_tree_search_the_agent_names_moments() -> None:
    ended = explore(
        [{"times": [12.5, 11, 11]}, {"times": [15, 99]}, {"answer": "B"}], tree_search=False, buffer=8
    )
    assert ended.kinds == ["explore", "explore", "evict", "explore"]
    assert [len(request.frames) for request in ended.model.requests] == [6, 8, 8]
    second = ended.model.requests[1].prompt
    assert "Looked at, in seconds: 5.0, 11.0, 12.5, 15.0, 25.0, 35.0, 45.0, 55.0\n" in second
    # 99 s is the end; 15 s was among the first, and so one frame is too many.
    assert ended.steps("evict")[0].args["times"] == [5.0]
    assert ended.steps("explore")[0].segments == ()
    assert ended.result.final is not None
    assert ended.result.final.letter == "B"


def test_without_tree_search_the_cap_and_unreadable_replies_end_it_too() -> None:
    capped = explore([{"times": [12.5]}, {"times": [13]}, "C"], max_rounds=2, tree_search=False)
    assert capped.kinds == ["explore", "explore", "answer"]
    assert capped.result.notes == ("no further round: the answer was forced",)
    unread = explore([{"segment": 1}, {"times": "all"}], tree_search=False)
    assert unread.steps("explore")[0].is_unparsed
    assert unread.result.final is not None
    assert unread.result.final.letter is None


def test_without_tree_search_a_remembered_frame_costs_nothing_again() -> None:
    # The first frames are between two pictures of the video; showing them again must not count as new.
    ended = explore([{"times": [9.3]}, {"answer": "B"}], tree_search=False, max_frames=8, borders=7)
    assert [len(request.frames) for request in ended.model.requests] == [7, 8]
    assert ended.result.notes == ()


# ---- open questions --------------------------------------------------------------------------------------

OPEN = replace(item(), question=Question.open("What colour comes first after grey?"), answer=None)


def test_an_open_question_is_answered_in_words() -> None:
    ended = explore([flat(1), {"answer": "It is red."}], asked=OPEN)
    assert ended.result.final is not None
    assert (ended.result.final.letter, ended.result.final.raw) == (None, "It is red.")
    assert '{"answer": "a few words"}' in ended.asked_for_action[0].prompt


def test_a_forced_open_answer_is_in_words() -> None:
    ended = explore([flat(1), {"segment": 1}, "red"], asked=OPEN, max_rounds=1)
    assert ended.result.final is not None
    assert ended.result.final.raw == "red"
    assert ended.model.requests[-1].prompt.endswith("Reply in a few words.")


def test_open_questions_are_taken() -> None:
    assert adapted("vca", open_questions=3).options == {}


# ---- settings --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"subtitles": "frames"}, "subtitles"),
        ({"borders": 0}, "borders is 0"),
        ({"buffer": 0}, "buffer is 0"),
        ({"buffer": 8, "preset": "equal"}, "takes the model's frames"),
        ({"max_rounds": 0}, "max_rounds is 0"),
        ({"tree_search": False, "reward": "image"}, "leave reward out"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        create("vca", settings)


@pytest.mark.parametrize(("duration", "frames"), [(180.0, 8), (165.0, 8), (2466.0, 16), (4100.0, 16)])
def test_the_papers_buffer_sizes(duration: float, frames: int) -> None:
    assert VcaSettings().buffer_size(duration) == frames


def test_questions_of_a_video_do_not_share_their_trees() -> None:
    def line(prompt: str, frames: Sequence[Frame]) -> Any:
        return flat(1) if "\nNew parts, " in prompt else {"answer": "B"}

    model = ScriptedModel([line], forever=True)
    asked = [replace(item(), id=str(number)) for number in range(4)]
    method = ScriptedVca(VcaSettings(), model)
    results = [result for _, result in method.run_video(asked, context(SceneBackbone()))]
    assert [len(result.steps) for result in results] == [2] * 4
    assert all("Scores before" not in request.prompt for request in model.requests)
