"""Letters, yes or no, words, log-probabilities, videos and pictures: the engine beside the local model."""

import pytest

from tests.support.live_engine import Engine
from videopro.backbones import (
    Backbone,
    ChoiceRequest,
    GenerateRequest,
    Sampling,
    Stills,
    YesNoRequest,
    load_backbone,
)
from videopro.question import Answer, Question, prompts
from videopro.video import Frame

pytestmark = pytest.mark.live

QUESTIONS = [
    Question(text, ("red", "green", "blue", "yellow"))
    for text in ("Which colour is the box?", "Which colour is the ball?", "What colour is the car?")
] + [
    Question("Where does it happen?", ("in the park", "at the temple", "at the beach")),
    Question("How many birds are there?", ("one", "two", "three", "four")),
]


def close(live: Answer, here: Answer) -> bool:
    """Equal up to the rounding of another implementation, in float32 or bfloat16."""
    return live.letter == here.letter and live.confidence == pytest.approx(here.confidence, abs=0.03)


def test_letters(served: Backbone, local: Backbone, seen: list[Frame]) -> None:
    asked = [ChoiceRequest(seen, question) for question in QUESTIONS]
    for live, here in zip(served.answer_batch(asked), local.answer_batch(asked), strict=True):
        assert close(live, here), (live, here)
        assert sum(live.letters.values()) <= 1.0001
        assert live.tokens_in == here.tokens_in
    # Of a text without a video.
    assert close(served.answer(None, QUESTIONS[0]), local.answer(None, QUESTIONS[0]))


def test_yes_or_no(served: Backbone, local: Backbone, seen: list[Frame]) -> None:
    texts = [prompts.yes_no(text) for text in ("Is there a dog?", "Is there a sign?", "Is it night?")]
    asked = [YesNoRequest(seen, text) for text in texts]
    for live, here in zip(served.yes_no_batch(asked), local.yes_no_batch(asked), strict=True):
        assert close(live, here), (live, here)


def test_words_and_their_log_probabilities(served: Backbone, local: Backbone, seen: list[Frame]) -> None:
    asked = [GenerateRequest(seen, text) for text in ("What is the sign?", "Describe the video.")]
    greedy = Sampling(max_new_tokens=12)
    replies = served.generate_batch(asked, greedy), local.generate_batch(asked, greedy)
    for live, here in zip(*replies, strict=True):
        assert live.text == here.text
        assert live.finish == here.finish
        assert live.logprobs == pytest.approx(here.logprobs, abs=0.05)
        assert live.confidence == pytest.approx(here.confidence, abs=0.03)


def test_a_video_is_one_and_its_prompt_is_ours(served: Backbone) -> None:
    facts = served.identity()
    assert (facts["engine"], facts["video"]) == ("vllm", "video")
    # As the shipped model records them.
    assert (facts["frames"], facts["pixels"]) == (16, 15_360)
    assert served.notes == ()


def test_pictures(engine: Engine, served: Backbone, local: Backbone, seen: list[Frame]) -> None:
    """Frames that do not belong together are pictures in both."""
    apart = Stills(seen[::4])
    assert close(served.answer(apart, QUESTIONS[0]), local.answer(apart, QUESTIONS[0]))
    assert close(served.answer(seen[:1], QUESTIONS[0]), local.answer(seen[:1], QUESTIONS[0]))
    as_pictures = load_backbone(f"server:pocket@{engine.url}", video="frames")
    asked = as_pictures.answer(seen, QUESTIONS[0])
    assert asked.tokens_in > served.answer(seen, QUESTIONS[0]).tokens_in
    as_pictures.close()
