"""VideoAgent's Algorithm 1 on the minute of coloured scenes: ten seconds each of grey, red, grey, blue, grey,
green. The five first frames are those of seconds 6, 18, 30, 42 and 54; each is shown half a second later."""

import re
from typing import Any

import pytest

from tests.support.agents import SceneVideoAgent, kinds, looked_at, predict, reflect, search, steps
from tests.support.scenes import QUESTION, item
from videopro.errors import ConfigError
from videopro.methods.videoagent.timeline import Timeline, without_neighbours
from videopro.question import Question

FIRST = [6.5, 18.5, 30.5, 42.5, 54.5]
CAPTIONS = "caption caption caption caption caption"
TWO_ROUNDS: list[Any] = [predict("A"), reflect(1), search((2, "red")), predict("B"), reflect(3)]


def claim(result: Any) -> Any:
    """The letter, and the confidence that the agent claims."""
    return result.final.letter, result.rounds[0].execution.claim


def test_a_question_of_two_rounds_is_algorithm_1_line_by_line() -> None:
    wanted = search((5, "green"), (2, "red"))
    method = SceneVideoAgent([predict("D", "mostly grey"), reflect(1), wanted, predict("B"), reflect(3)])
    result = method.answer()
    # 1: s_1 <- captions of 5 uniform frames. t = 1: predict, reflect (1 < 3), find what is missing, retrieve,
    # 10: s_2 <- merge with captions of what was found. t = 2: predict, reflect (3 >= 3), break.
    assert kinds(result) == f"{CAPTIONS} predict reflect search retrieve caption caption predict1 reflect1"
    assert (claim(result), result.final.confidence) == (("B", 1.0), 0.0)
    # The first of the equally red seconds of segment 2 (6.5 to 18.5 s) is 10, as is 50 of the green ones.
    assert looked_at(result) == [6.5, 10.5, 18.5, 30.5, 42.5, 50.5, 54.5]
    assert (result.frames_seen, result.cost.frames, result.cost.calls) == (7, 7, 12)
    reflected, searched, retrieve = result.steps[6:9]
    assert retrieve.result == "10.5 s, 50.5 s"
    found = [(each.name, each.start, each.end, each.text) for each in retrieve.segments]
    assert found == [("5", 50.0, 51.0, "green"), ("2", 10.0, 11.0, "red")]
    named = [(each.name, each.start, each.end) for each in searched.segments]
    assert named == [("5", 42.5, 54.5), ("2", 6.5, 18.5)]
    # What was found is merged with the first captions by time.
    known = re.findall(r"^([\d.]+) s: a (\w+) wall$", result.steps[-2].prompt, re.MULTILINE)
    expected = "6.5 grey 10.5 red 18.5 red 30.5 blue 42.5 grey 50.5 green 54.5 green"
    assert " ".join(map(" ".join, known)) == expected
    # Reflection is shown the prediction and its reasons.
    assert "Your answer: D. grey\nYour reasons: mostly grey" in reflected.prompt
    offered = re.findall(r"^\d: (.+) s$", searched.prompt, re.MULTILINE)
    assert offered == ["0.0-6.5", "6.5-18.5", "18.5-30.5", "30.5-42.5", "42.5-54.5", "54.5-60.0"]


@pytest.mark.parametrize(("threshold", "confidence"), [(3, 1.0), (2, 0.5)])
def test_confidence_ends_the_search_at_once(threshold: int, confidence: float) -> None:
    result = SceneVideoAgent([predict("B"), reflect(threshold)], threshold=threshold).answer()
    assert kinds(result) == f"{CAPTIONS} predict reflect"
    assert (looked_at(result), claim(result)) == (FIRST, ("B", confidence))


def test_without_self_evaluation_all_rounds_are_used() -> None:
    lines = [predict("A"), search((2, "red")), predict("B"), search((7, "57.5")), predict("B")]
    result = SceneVideoAgent(lines, self_evaluation=False).answer()
    assert "reflect" not in kinds(result)
    assert kinds(result).endswith("predict2")
    assert looked_at(result) == sorted([*FIRST, 10.5, 57.5])


@pytest.mark.parametrize(
    ("settings", "seen"),
    [
        # Thirds of the minute: 10, 30 and 50 s.
        ({"max_rounds": 1, "first_frames": 3}, [10.5, 30.5, 50.5]),
        # A budget that is smaller.
        ({"max_frames": 2}, [15.5, 45.5]),
    ],
)
def test_the_first_frames(settings: dict[str, Any], seen: list[float]) -> None:
    result = SceneVideoAgent([predict("A"), reflect(1)], **settings).answer()
    assert (looked_at(result), [made.kind for made in result.prepared]) == (
        seen,
        ["index"] if "max_frames" in settings else [],
    )


UNREAD = ["red", "red!"]
LOOK, AGAIN = search((2, "red")), [predict("B"), reflect(3)]
UNPARSED: dict[str, tuple[list[Any], str, Any]] = {
    # An unparsed confidence is none, and the search goes on.
    "confidence": (
        [predict("A"), *UNREAD, LOOK, predict("B"), *UNREAD],
        *("predict reflect search retrieve predict1 reflect1", ("B", None)),
    ),
    # An unparsed prediction is not reflected on; the last one is no answer.
    "prediction": ([*UNREAD, LOOK, *AGAIN], "predict search retrieve predict1 reflect1", ("B", 1.0)),
    "last": (
        [predict("B"), reflect(1), LOOK, *UNREAD],
        *("predict reflect search retrieve predict1", (None, None)),
    ),
    # An unparsed search finds nothing, and the next round follows.
    "search": (
        [predict("A"), reflect(1), *UNREAD, *AGAIN],
        *("predict reflect search predict1 reflect1", ("B", 1.0)),
    ),
}


@pytest.mark.parametrize("name", UNPARSED)
def test_what_stays_unparsed(name: str) -> None:
    lines, expected, ends = UNPARSED[name]
    result = SceneVideoAgent(lines, max_rounds=2).answer()
    assert re.sub(r"caption\d? ", "", kinds(result)) == expected
    assert claim(result) == ends
    assert (10.5 in looked_at(result)) == ("retrieve" in expected)
    assert any(step.is_unparsed for step in result.steps)
    assert (result.rounds[0].execution.status, result.final.raw == "red!") == (
        ("ok", False) if ends[0] else ("empty", True)
    )


def test_a_segment_that_is_not_there_is_a_mistake_that_the_model_is_shown() -> None:
    method = SceneVideoAgent([*TWO_ROUNDS[:2], search((9, "red")), *TWO_ROUNDS[2:]])
    result = method.answer()
    assert "segment_id: Input should be 1, 2, 3, 4, 5 or 6" in method.llm.requests[3].prompt
    assert 10.5 in looked_at(result)


def test_segments_lie_between_seen_frames_and_hold_one_that_could_be_kept() -> None:
    timeline = Timeline(10.0, 1.0)
    assert [(s.number, s.start, s.end, s.indices) for s in timeline.segments([2, 4, 8])] == [
        (1, 0.0, 2.5, (0, 1)),
        # The second part has only second 3, a neighbour of both; in the third, 6 is next to neither end.
        (3, 4.5, 8.5, (5, 6, 7)),
    ]
    assert timeline.segments(range(0, 10, 2)) == []
    assert timeline.unseen([1, 2]).indices == (0, 3, 4, 5, 6, 7, 8, 9)
    # A short video has fewer frames, and a short last second; and one of two frames a second.
    short = Timeline(2.4, 1.0)
    assert short.uniform(5) == [0, 1, 2]
    assert short.time(2) == pytest.approx(2.2)
    assert Timeline(2.0, 2.0).uniform(2) == [1, 3]


def test_neighbours_are_dropped_worst_first() -> None:
    # 5 is next to the seen 4; 9 to the better 10; of the equal 20 and 21, the earlier is kept.
    found = {5: 0.9, 9: 0.3, 10: 0.4, 21: 0.2, 20: 0.2}
    assert without_neighbours([4], found) == [10, 20]


def test_without_segment_selection_the_whole_video_is_searched() -> None:
    lines: list[Any] = [*TWO_ROUNDS[:2], search("green"), *TWO_ROUNDS[3:]]
    method = SceneVideoAgent(lines, segment_selection=False)
    assert looked_at(method.answer()) == sorted([*FIRST, 50.5])
    assert "Parts of the video" not in method.llm.requests[2].prompt
    # A segment that it names nevertheless is not read.
    assert "segment_id" not in str(method.llm.requests[2].schema)
    # With segments, only the frames of the named one are compared: there is no green in 30.5 to 42.5 s.
    found = looked_at(SceneVideoAgent([*lines[:2], search((4, "green")), *lines[3:]]).answer())
    assert all(30.5 < time < 42.5 for time in {*found} - {*FIRST})


def test_uniform_frames_are_the_middles_of_the_longest_segments() -> None:
    lines = [*TWO_ROUNDS[:2], search((1, "red"), (1, "blue")), *TWO_ROUNDS[3:]]
    result = SceneVideoAgent(lines, selection="uniform", encoder=False).answer()
    # Of four segments of eleven seconds, the first two: seconds 7 to 17 and 19 to 29.
    assert looked_at(result) == sorted([*FIRST, 12.5, 24.5])
    assert result.prepared == ()


def test_retrieval_needs_an_encoder() -> None:
    with pytest.raises(ConfigError, match="leave out encoder=none"):
        SceneVideoAgent([], encoder=False).answer()


def test_a_clip_is_captioned_around_its_frame_in_a_sentence_and_a_frame_in_detail() -> None:
    lines = [predict("B"), reflect(3)]
    method = SceneVideoAgent(lines, captions="clip", first_frames=1, clip_seconds=2.0)
    # One clip of two seconds around 30.5 s, which begins in the grey and ends in the blue scene.
    assert looked_at(method.answer()) == [29.5, 30.0, 30.5, 31.0]
    assert "30.5 s: a grey then blue wall" in method.llm.requests[0].prompt
    assert method.captioner.requests[0].prompt == "Describe what is shown.\nReply in one sentence."
    detailed = SceneVideoAgent(lines)
    detailed.answer()
    assert "detail" in detailed.captioner.requests[0].prompt


def test_the_frame_budget_keeps_the_best_and_ends_the_search() -> None:
    # There is no green in segment 2, so what is found there fits less well.
    wanted = search((2, "green"), (5, "50.5"))
    lines = [predict("A"), reflect(1), wanted, predict("B"), reflect(1)]
    result = SceneVideoAgent(lines, max_frames=6).answer()
    assert looked_at(result) == sorted([*FIRST, 50.5])
    assert kinds(result).endswith("reflect1")
    assert "the frame budget is spent: the last prediction is the answer" in result.notes
    assert result.final.letter == "B"


@pytest.mark.parametrize(("limit", "seen"), [(9, 8), (3, 3)])
def test_clips_stay_within_the_frame_budget(limit: int, seen: int) -> None:
    """Two clips of four frames; then one clip, whose four frames would not fit, of three."""
    method = SceneVideoAgent([predict("B"), reflect(1)], captions="clip", clip_seconds=2.0, max_frames=limit)
    assert method.answer().frames_seen == seen


def test_a_video_that_was_seen_in_every_part_ends_the_search() -> None:
    result = SceneVideoAgent([predict("B"), reflect(1)], first_frames=30).answer()
    assert "the whole video was searched: the last prediction is the answer" in result.notes


def test_equal_looks_at_no_more_frames_than_the_backbone_takes() -> None:
    wanted = search((2, "12.5"), (3, "25.5"), (4, "42.5"), (4, "47.5"), (5, "57.5z"))
    lines = [predict("A"), reflect(1), wanted, predict("B"), reflect(1)]
    result = SceneVideoAgent(lines, preset="equal", frames=8).answer()
    # Half of eight are the first frames; of the five that are found, the four best are added.
    assert looked_at(result) == [7.5, 12.5, 22.5, 25.5, 37.5, 42.5, 47.5, 52.5]
    assert kinds(result).startswith("caption caption caption caption predict")


def test_a_spent_budget_answers_at_once_if_something_was_found_since() -> None:
    # The tenth step is the caption of what was found: it is answered from.
    method = SceneVideoAgent([*TWO_ROUNDS[:3], "B"], max_steps=10)
    result = method.answer()
    assert kinds(result).endswith("caption answer1")
    assert "10.5 s: a red wall" in method.llm.requests[-1].prompt
    assert result.final.letter == "B"
    # Spent among the first captions: answered from those that there are.
    method = SceneVideoAgent(["C"], max_steps=2)
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


def test_questions_of_a_video_share_captions_and_the_index() -> None:
    method = SceneVideoAgent([predict("B"), reflect(3), *TWO_ROUNDS], max_parallel=1)
    first, second = method.answers(item(id="q1"), item(id="q2"))
    assert len(method.captioner.requests) == 6
    assert [step.is_reused for step in steps(second, "caption")] == [True] * 5 + [False]
    assert (first.cost.calls, second.cost.calls) == (7, 6)
    # Frames of reused captions were looked at all the same.
    assert (first.frames_seen, second.frames_seen) == (5, 6)
    # Sixty clips of three frames; another run finds them, and has the same cost.
    assert first.prepared == second.prepared == SceneVideoAgent([predict("B"), reflect(3)]).answer().prepared
    (index,) = first.prepared
    assert (index.kind, index.is_known, index.cost.frames) == ("index", True, 180)
    # Another unit of work about the same video, in the same process.
    method.llm.lines = [predict("B"), reflect(3)]
    method.llm.requests.clear()
    assert method.answer().cost.calls == 2


def test_captions_of_questions_in_flight_are_made_once() -> None:
    method = SceneVideoAgent([lambda prompt, frames: reflect(3) if "Your answer" in prompt else predict("B")])
    method.llm.forever = True
    results = method.answers(*(item(id=f"q{number}") for number in range(8)))
    assert len(method.captioner.requests) == 5
    assert [result.final.letter for result in results] == ["B"] * 8
    assert sum(step.is_reused for result in results for step in result.steps) == 35
