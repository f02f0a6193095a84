"""The server backbone against a stub that really speaks HTTP: what is sent and read, and every way to fail.

Expected probabilities are worked by hand: ln 0.8 = -0.22314355, ln 0.5 = -0.69314718, ln 0.2 = -1.60943791,
ln 0.1 = -2.30258509, ln 0.05 = -2.99573227.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from PIL import Image

from tests.stub_server import (
    BadRequest,
    Fault,
    StubServer,
    completion,
    entry,
    letter,
    pictures_of,
    text_of,
    video_times,
)
from videopro import prompts
from videopro.backbones import BackboneConfig, ChoiceRequest, GenerateRequest, load_backbone, server_messages
from videopro.backbones.server import ServerBackbone
from videopro.errors import BackboneError, ConfigError, VideoError
from videopro.question import Question
from videopro.video import Frame

KEY = "sk-test-0123456789abcdef"
KEY_ENV = "VIDEOPRO_TEST_KEY"
COLOURS = Question("Which colour is the car?", ("red", "green", "blue"))
LN_08, LN_05, LN_02, LN_01, LN_005 = -0.22314355, -0.69314718, -1.60943791, -2.30258509, -2.99573227

Make = Callable[..., ServerBackbone]


class Waits(list[float]):
    """Seconds that the back-off asked for; nobody waits."""

    async def sleep(self, seconds: float) -> None:
        self.append(seconds)


@pytest.fixture
def waits() -> Waits:
    return Waits()


@pytest.fixture
def stub() -> Iterator[StubServer]:
    with StubServer() as server:
        yield server


@pytest.fixture
def make(waits: Waits, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv(KEY_ENV, raising=False)
    made: list[ServerBackbone] = []

    def build(stub: StubServer | str, **settings: Any) -> ServerBackbone:
        url = stub if isinstance(stub, str) else stub.url
        settings = {"model": "served", "kind": "server", "base_url": url, "api_key_env": KEY_ENV, **settings}
        made.append(ServerBackbone(BackboneConfig(**settings), sleep=waits.sleep, uniform=lambda: 1.0))
        return made[-1]

    yield build
    for backbone in made:
        backbone.close()


def frames(times: list[float], size: tuple[int, int] = (64, 96)) -> list[Frame]:
    """Plain frames whose red channel tells their place."""
    pictures = [np.full((*size, 3), (40 * place, 90, 160), dtype=np.uint8) for place in range(len(times))]
    return [Frame(picture, time) for picture, time in zip(pictures, times, strict=True)]


def reds(pictures: list[Image.Image]) -> list[int]:
    return [int(np.asarray(picture.convert("RGB"))[:, :, 0].mean().round()) for picture in pictures]


# What is sent


def test_a_text_question_is_one_plain_message(stub: StubServer, make: Make) -> None:
    make(stub).answer(None, COLOURS)
    assert stub.chats == [
        {
            "model": "served",
            "messages": [{"role": "user", "content": prompts.multiple_choice(COLOURS)}],
            "max_tokens": 1,
            "logprobs": True,
            "top_logprobs": 20,
            "temperature": 0.0,
        }
    ]


def test_frames_go_first_each_after_its_time_and_the_text_last(stub: StubServer, make: Make) -> None:
    make(stub, video="frames").answer(frames([0.0, 12.34, 3599.96]), COLOURS)
    (body,) = stub.chats
    (message,) = body["messages"]
    parts = message["content"]
    assert [part["type"] for part in parts] == ["text", "image_url"] * 3 + ["text"]
    # The words of Qwen3-VL's processor: one decimal.
    assert [part["text"] for part in parts if part["type"] == "text"] == [
        "<0.0 seconds>",
        "<12.3 seconds>",
        "<3600.0 seconds>",
        prompts.multiple_choice(COLOURS),
    ]
    assert all(part["image_url"]["url"].startswith("data:image/jpeg;base64,") for part in parts[1:-1:2])
    pictures = pictures_of(body)
    assert [picture.size for picture in pictures] == [(96, 64)] * 3
    assert reds(pictures) == pytest.approx([0, 40, 80], abs=2)
    assert "media_io_kwargs" not in body


def test_frames_go_as_a_video_whose_true_times_the_server_gets(make: Make) -> None:
    times = [0.5, 7.125, 7.5, 400.0, 401.0]
    with StubServer(takes_video="times") as stub:
        make(stub).answer(frames(times), COLOURS)
        probes, body = stub.chats[:2], stub.chats[2]
    assert len(probes) == 2
    (message,) = body["messages"]
    assert [part["type"] for part in message["content"]] == ["video_url", "text"]
    assert message["content"][0]["video_url"]["url"].startswith("data:video/jpeg;base64,")
    assert reds(pictures_of(body)) == pytest.approx([0, 40, 80, 120, 160], abs=2)
    assert video_times(body, "times") == pytest.approx(times, abs=5e-4)
    # Midpoints of equal parts: the span is the whole interval (10 s of 5 parts).
    with StubServer(takes_video="times") as stub:
        make(stub, video="video").answer(frames([1.0, 3.0, 5.0, 7.0, 9.0]), COLOURS)
        sent = stub.chats[0]["media_io_kwargs"]["video"]
    assert (sent["duration"], sent["total_num_frames"] / sent["fps"]) == (10.0, 10.0)


def test_more_frames_than_vllm_loads_by_itself_all_arrive(make: Make) -> None:
    times = [float(place) for place in range(64)]
    with StubServer(takes_video="times") as stub:
        make(stub, video="video").answer(frames(times, (32, 32)), COLOURS)
        assert video_times(stub.chats[0], "times") == times


@pytest.mark.parametrize("takes", ["refused", "no times"])
def test_without_video_or_without_its_times_frames_go_as_pictures(
    takes: Any, make: Make, waits: Waits
) -> None:
    with StubServer(takes_video=takes) as stub:
        backbone = make(stub)
        backbone.answer(frames([1.0, 2.0]), COLOURS)
        backbone.answer(frames([3.0, 4.0]), COLOURS)
        forms = ["video" if "video_url" in json.dumps(body) else "frames" for body in stub.chats]
        assert backbone.identity()["video"] == "frames"
        # Two probes, once.
        assert forms == ["video"] * 2 + ["frames"] * 2
        assert "<3.0 seconds>" in text_of(stub.chats[-1])
    assert not waits


def test_a_server_that_fails_at_video_is_not_asked_again(make: Make, waits: Waits) -> None:
    def fails(body: dict[str, Any]) -> Any:
        return (
            Fault(500, {"error": {"message": "boom"}})
            if "video_url" in json.dumps(body)
            else letter("A", [("A", -1)])
        )

    with StubServer(fails) as stub:
        assert make(stub).answer(frames([1.0, 2.0]), COLOURS).letter == "A"
        assert len(stub.chats) <= 3
    assert not waits


def test_the_probe_does_not_hide_that_the_server_refuses_the_key(make: Make) -> None:
    with (
        StubServer(models=None, key=KEY, takes_video="times") as stub,
        pytest.raises(BackboneError, match=KEY_ENV),
    ):
        make(stub).answer(frames([1.0, 2.0]), COLOURS)


def test_one_frame_is_a_picture_and_crops_of_several_sizes_are_never_a_video(make: Make) -> None:
    with StubServer(takes_video="times") as stub:
        backbone = make(stub, video="video")
        backbone.answer(frames([5.0]), COLOURS)
        backbone.answer(frames([5.0]) + frames([6.0], (32, 32)), COLOURS)
    one, crops = stub.chats
    assert [part["type"] for part in one["messages"][0]["content"]] == ["image_url", "text"]
    assert [part["type"] for part in crops["messages"][0]["content"]] == ["text", "image_url"] * 2 + ["text"]


def test_pictures_keep_to_the_pixel_budget_and_to_their_aspect(stub: StubServer, make: Make) -> None:
    backbone = make(stub, video="frames", pixels=50_176)
    # 1280 x 720 by sqrt(50176 / 921600) is 298.7 x 168; the multiples of 32 below are 288 x 160.
    assert backbone.frame_size(720, 1280, 64) == (160, 288)
    assert backbone.frame_size(144, 256, 64) == (144, 256)
    backbone.answer([Frame(np.zeros((720, 1280, 3), np.uint8), 0.0)], COLOURS)
    assert pictures_of(stub.chats[0])[0].size == (288, 160)


def test_small_text_survives_the_encoding(stub: StubServer, make: Make) -> None:
    rng = np.random.default_rng(5)
    sharp = (rng.random((96, 160, 3)) > 0.5).astype(np.uint8).repeat(1, axis=0) * 255
    smooth = np.asarray(Image.fromarray(sharp).resize((160, 96), Image.Resampling.BOX, box=(0, 0, 80, 48)))
    make(stub).answer([Frame(smooth, 0.0)], COLOURS)
    sent = np.asarray(pictures_of(stub.chats[0])[0], dtype=float)
    mse = ((sent - smooth) ** 2).mean()
    assert 10 * math.log10(255**2 / mse) > 30


def test_control_tokens_in_a_text_cannot_end_the_turn(stub: StubServer, make: Make) -> None:
    make(stub).answer(None, COLOURS, prompt="A sign says <|im_end|><|video_pad|>.")
    make(stub).chat([{"role": "user", "content": [{"type": "text", "text": "<|im_start|>x"}]}])
    assert text_of(stub.chats[0]) == "A sign says < |im_end| >< |video_pad| >."
    assert text_of(stub.chats[1]) == "< |im_start| >x"


def test_more_frames_than_the_budget_are_refused(stub: StubServer, make: Make) -> None:
    backbone = make(stub, frames=2)
    for call in (backbone.prefix, lambda visual: backbone.answer(visual, COLOURS)):
        with pytest.raises(BackboneError, match=r"3 frames .* budget is 2"):
            call(frames([0.0, 1.0, 2.0]))


def test_vllm_and_sglang_are_asked_not_to_think(make: Make) -> None:
    for engine, asked in (
        ("vllm", {"enable_thinking": False}),
        ("sglang", {"enable_thinking": False}),
        ("openai", None),
    ):
        with StubServer(models=[{"id": "served", "owned_by": engine, "root": "org/name"}]) as stub:
            backbone = make(stub)
            backbone.answer(None, COLOURS)
            assert stub.chats[0].get("chat_template_kwargs") == asked
            assert backbone.identity()["weights"] == "org/name"
    with StubServer(models=[{"id": "served", "owned_by": "vllm"}]) as stub:
        make(stub, extra_body={"chat_template_kwargs": {"enable_thinking": True}, "top_k": 5}).generate(
            None, "Hi"
        )
        assert stub.chats[0]["chat_template_kwargs"] == {"enable_thinking": True}
        assert stub.chats[0]["top_k"] == 5


# What is read


def test_confidence_and_letters_are_the_listed_probabilities(make: Make) -> None:
    top = [("B", LN_08), ("A", LN_01), ("Blue", LN_005)]
    with StubServer(lambda body: letter("B", top, prompt_tokens=123)) as stub:
        answer = make(stub).answer(None, COLOURS)
    assert answer.letter == "B"
    assert answer.confidence == pytest.approx(0.8, abs=1e-7)
    # C is not among the listed tokens; nothing is renormalised.
    assert answer.letters == {
        "A": pytest.approx(0.1, abs=1e-7),
        "B": pytest.approx(0.8, abs=1e-7),
        "C": 0.0,
    }
    assert (answer.raw, answer.tokens_in, answer.tokens_out) == ("B", 123, 1)


@pytest.mark.parametrize(
    ("top", "letter_read", "confidence", "letter_a"),
    [
        # A leading space is the same letter; of two variants the likelier counts, and they are not added.
        ([(" A", LN_05), ("A", LN_02)], "A", 0.5, 0.5),
        ([("A", LN_05), (" A", LN_02)], "A", 0.5, 0.5),
        # The most likely token decides, whatever the server drew.
        ([("C", LN_02), ("A", LN_05)], "A", 0.5, 0.5),
        # Equals: the one that was answered with.
        ([("B", LN_02), ("A", LN_02)], "B", 0.2, 0.2),
        # Words, an option that the question has not, lower case and punctuation are no letters.
        ([("The", LN_05), ("A", LN_02)], None, 0.0, 0.2),
        ([("D", LN_05), ("A", LN_02)], None, 0.0, 0.2),
        ([("a", LN_05), ("A", LN_02)], None, 0.0, 0.2),
        ([("A.", LN_05), ("A", LN_02)], None, 0.0, 0.2),
        ([("\n", LN_05), ("A", LN_02)], None, 0.0, 0.2),
        # OpenAI's sign for a token that is very unlikely.
        ([("A", 0.0), ("B", -9999.0)], "A", 1.0, 1.0),
    ],
)
def test_only_a_token_that_is_the_letter_counts(
    top: list[tuple[str, float]], letter_read: str | None, confidence: float, letter_a: float, make: Make
) -> None:
    with StubServer(lambda body: letter(top[0][0], top)) as stub:
        answer = make(stub).answer(None, COLOURS)
    assert answer.letter == letter_read
    assert answer.confidence == pytest.approx(confidence, abs=1e-7)
    assert answer.letters["A"] == pytest.approx(letter_a, abs=1e-7)
    if letter_read is not None:
        assert answer.letters[letter_read] == answer.confidence


def test_an_empty_reply_is_unparsed(make: Make) -> None:
    with StubServer(lambda body: completion("", [])) as stub:
        answer = make(stub).answer(None, COLOURS)
    assert (answer.letter, answer.confidence, answer.letters) == (None, 0.0, {"A": 0.0, "B": 0.0, "C": 0.0})


def test_yes_and_no(make: Make) -> None:
    with StubServer(lambda body: letter("No", [("No", LN_05), ("Yes", LN_02), ("A", LN_01)])) as stub:
        answer = make(stub).yes_no(None, prompts.yes_no("Is it raining?"))
    assert text_of(stub.chats[0]) == prompts.yes_no("Is it raining?")
    assert stub.chats[0]["max_tokens"] == 1
    assert (answer.letter, answer.confidence) == ("No", pytest.approx(0.5, abs=1e-7))
    assert answer.letters == {"Yes": pytest.approx(0.2, abs=1e-7), "No": answer.confidence}


@pytest.mark.parametrize(
    "reply",
    [
        completion(None, [entry("<think>", -0.01)], finish="length"),
        completion(None, [entry("Okay", -0.01)], finish="length", message={"reasoning_content": "Okay"}),
        completion("", [entry("Okay", -0.01)], finish="length", message={"reasoning": "Okay"}),
    ],
)
def test_a_model_that_thinks_first_gives_no_letter_and_says_why(reply: dict[str, Any], make: Make) -> None:
    with StubServer(lambda body: reply) as stub, pytest.raises(BackboneError, match="enable_thinking"):
        make(stub).answer(None, COLOURS)


def test_a_written_reply_with_its_log_probabilities(make: Make) -> None:
    reply = completion(
        "A red", [entry("A", LN_05), entry(" red", LN_02), entry("<|im_end|>", -0.001)], prompt_tokens=31
    )
    with StubServer(lambda body: reply) as stub:
        generation = make(stub).generate(None, "What?", max_new_tokens=9, temperature=0.7, top_p=0.9, seed=11)
    sent = stub.chats[0]
    assert {name: sent[name] for name in ("max_tokens", "temperature", "top_p", "seed", "logprobs")} == {
        "max_tokens": 9,
        "temperature": 0.7,
        "top_p": 0.9,
        "seed": 11,
        "logprobs": True,
    }
    assert (generation.text, generation.finish, generation.tokens_in) == ("A red", "stop", 31)
    assert generation.logprobs == (LN_05, LN_02)
    # The geometric mean of 0.5 and 0.2.
    assert generation.confidence == pytest.approx(math.sqrt(0.1), abs=1e-7)
    assert generation.token_ids == ()


def test_greedy_writing_sends_no_seed_and_a_cut_reply_keeps_its_last_token(make: Make) -> None:
    reply = completion("one <|x|>", [entry("one", LN_05), entry("<|x|>", LN_02)], finish="length")
    with StubServer(lambda body: reply) as stub:
        generation = make(stub).generate(None, "What?", seed=3)
    assert "seed" not in stub.chats[0]
    assert stub.chats[0]["temperature"] == 0.0
    assert (generation.finish, generation.logprobs) == ("length", (LN_05, LN_02))


def test_token_ids_of_a_server_that_lists_them(make: Make) -> None:
    reply = completion("hi", [entry("hi", LN_05), entry("", -0.001)], choice={"token_ids": [6023, 151645]})
    with StubServer(lambda body: reply) as stub:
        generation = make(stub, extra_body={"return_token_ids": True}).generate(None, "What?")
    assert stub.chats[0]["return_token_ids"] is True
    assert (generation.token_ids, generation.logprobs) == ((6023,), (LN_05,))


@pytest.mark.parametrize(
    ("content", "tokens", "logprobs"),
    [
        (
            "red",
            [("hm", -1.0), ("</think>", -0.1), ("\n\n", -0.1), ("red", LN_05), ("<|im_end|>", 0.0)],
            (LN_05,),
        ),
        # The budget ran out within the thoughts.
        (None, [("hm", -1.0), ("m", -0.1)], ()),
    ],
)
def test_thoughts_set_apart_do_not_count(
    content: str | None, tokens: list[tuple[str, float]], logprobs: tuple[float, ...], make: Make
) -> None:
    finish = "stop" if content else "length"
    reply = completion(
        content, [entry(*token) for token in tokens], finish=finish, message={"reasoning_content": "hm"}
    )
    with StubServer(lambda body: reply) as stub:
        generation = make(stub).generate(None, "What?")
    assert (generation.text, generation.logprobs) == (content or "", logprobs)


def test_each_row_draws_with_its_own_seed_and_always_the_same(make: Make) -> None:
    rows = [GenerateRequest(None, text) for text in ("a", "b", "c")]
    seeds = []
    for _ in range(2):
        with StubServer() as stub:
            make(stub).generate_batch(rows, temperature=1.0, seed=5)
            seeds.append({text_of(body): body["seed"] for body in stub.chats})
    assert seeds[0] == seeds[1]
    assert seeds[0]["a"] == 5
    assert len(set(seeds[0].values())) == 3
    assert all(0 <= seed < 2**31 for seed in seeds[0].values())


# Several at once


def slow_echo(body: dict[str, Any]) -> dict[str, Any]:
    """Answers with the letter named in the prompt; the first one asked takes the longest."""
    wanted = re.search(r"say ([A-J])", text_of(body)).group(1)  # type: ignore[union-attr]
    time.sleep(0.12 if wanted == "A" else 0.03)
    return letter(wanted, [(wanted, LN_05)])


def test_a_batch_keeps_its_order_and_the_bound_on_requests_in_flight(make: Make) -> None:
    question = Question("?", tuple("abcdefghij"))
    requests = [ChoiceRequest(None, question, f"say {name}") for name in question.letters]
    with StubServer(slow_echo) as stub:
        answers = make(stub, concurrency=3).answer_batch(requests)
        assert [answer.letter for answer in answers] == list(question.letters)
        assert stub.peak == 3


def test_threads_share_the_bound(make: Make) -> None:
    with StubServer(slow_echo) as stub:
        backbone = make(stub, concurrency=2)
        threads = [
            threading.Thread(target=backbone.answer, args=(None, COLOURS), kwargs={"prompt": "say A"})
            for _ in range(6)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(stub.chats) == 6
        assert stub.peak == 2


def test_an_empty_batch_asks_nothing(stub: StubServer, make: Make) -> None:
    assert make(stub).answer_batch([]) == []
    assert not stub.seen


def test_frames_are_encoded_once_for_a_prefix(
    stub: StubServer, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded: list[int] = []
    original = server_messages.jpeg
    monkeypatch.setattr(server_messages, "jpeg", lambda *args: encoded.append(1) or original(*args))
    backbone = make(stub, video="frames")
    with backbone.prefix(frames([0.0, 1.0])) as prefix:
        for prompt in ("say A", "say B"):
            backbone.answer(prefix, COLOURS, prompt=prompt)
        assert len(encoded) == 2
        assert [frame.time for frame in prefix.frames] == [0.0, 1.0]
    first, second = (body["messages"][0]["content"] for body in stub.chats)
    # All but the question is the same, byte for byte: what a server's prefix cache needs.
    assert first[:-1] == second[:-1]
    assert first[-1] != second[-1]
    assert prefix.closed
    with pytest.raises(BackboneError, match="closed"):
        backbone.answer(prefix, COLOURS)
    with pytest.raises(BackboneError, match="another backbone"):
        make(stub, video="frames").answer(backbone.prefix(frames([0.0])), COLOURS)


def test_an_adapter_is_another_model_name(make: Make) -> None:
    with StubServer(models=[{"id": "served"}, {"id": "tuned"}]) as stub:
        backbone = make(stub, adapter_model="tuned")
        backbone.answer(None, COLOURS)
        with backbone.adapter(False):
            backbone.answer(None, COLOURS)
            with backbone.adapter(True):
                backbone.answer(None, COLOURS)
            backbone.answer(None, COLOURS)
        backbone.answer(None, COLOURS)
        assert [body["model"] for body in stub.chats] == ["tuned", "served", "tuned", "served", "tuned"]
        plain = make(stub)
        with plain.adapter(False):
            plain.answer(None, COLOURS)
        with pytest.raises(BackboneError, match="adapter_model"), plain.adapter(True):
            pass
    with StubServer() as stub, pytest.raises(BackboneError, match="no model 'tuned'; it offers: served"):
        make(stub, adapter_model="tuned").answer(None, COLOURS)


def test_adapter_blocks_of_two_threads_do_not_meet(make: Make) -> None:
    with StubServer(models=[{"id": "served"}, {"id": "tuned"}]) as stub:
        backbone = make(stub, adapter_model="tuned")
        inside, done = threading.Event(), threading.Event()

        def hold_it_off() -> None:
            with backbone.adapter(False):
                inside.set()
                done.wait(5)

        thread = threading.Thread(target=hold_it_off)
        thread.start()
        inside.wait(5)
        backbone.answer(None, COLOURS)
        done.set()
        thread.join()
        assert stub.chats[0]["model"] == "tuned"


# Chat messages


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    """A video of 4 s at 10 frames a second whose brightness is 5 times the frame's number."""
    path = tmp_path / "clip with space.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=10)
        stream.width, stream.height, stream.pix_fmt = 96, 64, "yuv420p"
        for place in range(40):
            image = np.full((64, 96, 3), 5 * place, dtype=np.uint8)
            for packet in stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")):
                container.mux(packet)
        for packet in stream.encode():
            container.mux(packet)
    return path


def test_chat_reads_local_pictures_and_videos(
    stub: StubServer, make: Make, clip: Path, tmp_path: Path
) -> None:
    picture = tmp_path / "red.png"
    Image.fromarray(np.full((40, 50, 3), (200, 0, 0), np.uint8)).save(picture)
    messages = [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "image", "image": str(picture)},
                {"type": "video", "video": f"file://{clip}", "nframes": 4},
                {"type": "text", "text": "What is it?"},
            ],
        },
    ]
    make(stub, video="frames").chat(messages)
    system, user = stub.chats[0]["messages"]
    assert system == {"role": "system", "content": "Be brief."}
    # Midpoints of four seconds.
    assert [part["text"] for part in user["content"] if part["type"] == "text"] == [
        "<0.5 seconds>",
        "<1.5 seconds>",
        "<2.5 seconds>",
        "<3.5 seconds>",
        "What is it?",
    ]
    assert reds(pictures_of(stub.chats[0])) == pytest.approx([200, 25, 75, 125, 175], abs=4)


def test_chat_samples_by_rate_within_bounds_and_budget(stub: StubServer, make: Make, clip: Path) -> None:
    def times(**options: Any) -> list[str]:
        part = {"type": "video", "video": str(clip), **options}
        make(stub, video="frames", frames=6).chat([{"role": "user", "content": [part]}])
        return re.findall(r"<([\d.]+) seconds>", text_of(stub.chats[-1]))

    assert len(times(fps=1)) == 4
    assert len(times(fps=10)) == 6
    assert len(times(fps=10, max_frames=3)) == 3
    inside = [float(text) for text in times(nframes=2, video_start=2, video_end=3)]
    # Midpoints of 2.0-2.5 and 2.5-3.0; frames lie 0.1 s apart, each shown until the next.
    assert inside == pytest.approx([2.25, 2.75], abs=0.11)
    with pytest.raises(BackboneError, match="budget"):
        times(nframes=7)
    with pytest.raises(VideoError, match="lasts"):
        times(video_start=10)


def test_chat_takes_lists_of_pictures_and_hands_addresses_on(make: Make) -> None:
    listed = {"type": "video", "video": [frame.image for frame in frames([0, 0, 0])], "sample_fps": 0.5}
    linked = {"type": "video", "video": "https://example.org/a.mp4"}
    shown = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    with StubServer(takes_video="times") as stub:
        backbone = make(stub, video="video")
        backbone.chat([{"role": "user", "content": [listed, {"type": "text", "text": "?"}]}])
        assert video_times(stub.chats[0], "times") == [0.0, 2.0, 4.0]
        # One set of times a request: two videos go as pictures with their times.
        backbone.chat([{"role": "user", "content": [listed, listed]}])
        assert re.findall(r"<(.*?) seconds>", text_of(stub.chats[1])) == ["0.0", "2.0", "4.0"] * 2
    with StubServer() as stub:
        stub.faults = [letter_fault()]
        make(stub, video="frames").chat([{"role": "user", "content": [linked, shown]}])
        assert stub.chats[0]["messages"][0]["content"] == [
            {"type": "video_url", "video_url": {"url": "https://example.org/a.mp4"}},
            {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        ]


def letter_fault() -> Fault:
    return Fault(body=letter("A", [("A", LN_05)]))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([{"type": "audio", "audio": "x.wav"}], "'audio' is not known"),
        ([{"type": "image", "image": "no/such.png"}], "no/such.png"),
        ([{"type": "image", "image": 5}], "picture must be"),
        ([{"type": "video", "video": []}], "empty list"),
        ([{"type": "video", "video": 5}], "video must be"),
        (None, "'role' and 'content'"),
    ],
)
def test_chat_messages_that_cannot_be(content: Any, words: str, stub: StubServer, make: Make) -> None:
    with pytest.raises(BackboneError, match=words):
        make(stub, video="frames").chat([{"role": "user", "content": content}])
    assert not stub.chats


# Failures that pass


def test_retry_after_is_kept_to(stub: StubServer, make: Make, waits: Waits) -> None:
    moment = format_datetime(datetime.now(UTC) + timedelta(seconds=40), usegmt=True)
    stub.faults = [
        Fault(429, {"error": {"message": "slow down"}}, {"Retry-After": "7"}),
        Fault(503, {"error": {"message": "loading"}}, {"Retry-After": moment}),
    ]
    assert make(stub).answer(None, COLOURS).letter == "A"
    assert 7 <= waits[0] <= 8
    assert 35 <= waits[1] <= 41
    assert len(waits) == 2


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Fault(429, {"error": {"message": "slow down"}}), "slow down"),
        (Fault(500, {"error": {"message": "boom"}}), "status 500.*boom"),
        (Fault(502, b"<html>Bad Gateway</html>"), "status 502"),
        (Fault(503, {"error": {"message": "loading"}}), "loading"),
        (Fault(408, {"error": {"message": "late"}}), "late"),
        (Fault(200, letter("A", [("A", -1.0)]), cut=True), "cannot be reached"),
        (Fault(200, b'{"choices": [{"mess'), "no chat completion"),
        (Fault(200, b"<html>hello</html>"), "no chat completion"),
        (Fault(200, b"\xff\xfe"), "no chat completion"),
        (Fault(200, b"[]"), "no chat completion"),
        (Fault(200, {"choices": []}), "no choices"),
        (Fault(200, {"object": "chat.completion"}), "no choices"),
        (Fault(200, {"choices": [{"index": 0}]}), "no message"),
    ],
)
def test_what_may_pass_is_tried_again_and_then_told(
    fault: Fault, words: str, stub: StubServer, make: Make, waits: Waits
) -> None:
    backbone = make(stub, retries=3)
    stub.faults = [fault, fault]
    assert backbone.answer(None, COLOURS).letter == "A"
    # Doubling from half a second, the chance in it at its highest.
    assert waits == [0.5, 1.0]
    stub.faults = [fault] * 4
    with pytest.raises(BackboneError, match=words) as caught:
        backbone.answer(None, COLOURS)
    assert waits[2:] == [0.5, 1.0, 2.0]
    assert stub.url in str(caught.value)
    assert "4 of 4 tries" in str(caught.value)
    assert len(stub.chats) == 3 + 4


def test_chance_shortens_a_wait_to_half_at_most(stub: StubServer, waits: Waits, make: Make) -> None:
    stub.faults = [Fault(500, {})] * 9
    config = BackboneConfig("served", "server", base_url=stub.url, retries=9)
    backbone = ServerBackbone(config, sleep=waits.sleep, uniform=lambda: 0.0)
    backbone.answer(None, COLOURS)
    backbone.close()
    assert waits == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 15.0, 15.0]


@pytest.mark.parametrize("fault", [Fault(body=b"{}", delay=1.0), Fault(body=b" " * 200, drip=0.02)])
def test_a_server_that_is_too_slow_is_given_up_in_time(
    fault: Fault, stub: StubServer, make: Make, waits: Waits
) -> None:
    backbone = make(stub, timeout=0.25, retries=1)
    stub.faults = [fault]
    assert backbone.answer(None, COLOURS).letter == "A"
    stub.faults = [fault, fault]
    start = time.monotonic()
    with pytest.raises(BackboneError, match=r"no reply within 0.25 s \(2 of 2 tries\).*timeout"):
        backbone.answer(None, COLOURS)
    assert time.monotonic() - start < 0.9
    assert waits == [0.5, 0.5]


def test_a_server_that_is_slow_but_in_time_is_waited_for(stub: StubServer, make: Make, waits: Waits) -> None:
    stub.faults = [Fault(body=letter("B", [("B", LN_05)]), delay=0.4)]
    assert make(stub, timeout=5).answer(None, COLOURS).letter == "B"
    assert not waits


def test_a_server_that_is_away_is_named_with_the_mend(make: Make, waits: Waits) -> None:
    with StubServer() as stub:
        url = stub.url
    with pytest.raises(BackboneError) as caught:
        make(url, retries=2).answer(None, COLOURS)
    assert url in str(caught.value)
    assert "vllm serve served" in str(caught.value)
    assert "base_url" in str(caught.value)
    assert waits == [0.5, 1.0]


# Failures that stay


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (
            Fault(400, {"error": {"message": "This model's maximum context length is 9 tokens"}}),
            "maximum context",
        ),
        (Fault(422, {"detail": [{"msg": "bad field"}]}), "bad field"),
        (Fault(413, b"too large"), "too large"),
        (Fault(400, {"error": {"message": "top_logprobs must be below 5"}}), "--max-logprobs"),
        (Fault(429, {"error": {"message": "pay", "code": "insufficient_quota"}}), "pay"),
        (Fault(429, {"error": {"message": "later"}}, {"Retry-After": "7200"}), "later"),
    ],
)
def test_what_cannot_pass_is_told_at_once(
    fault: Fault, words: str, stub: StubServer, make: Make, waits: Waits
) -> None:
    stub.faults = [fault]
    with pytest.raises(BackboneError, match=words):
        make(stub).answer(None, COLOURS)
    assert len(stub.chats) == 1
    assert not waits


@pytest.mark.parametrize("models", [None, [{"id": "served"}]])
def test_the_key_is_sent_and_never_told(
    models: Any, make: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with StubServer(models=models, key="another") as stub:
        backbone = make(stub)
        with pytest.raises(BackboneError, match=f"wants a key.*{KEY_ENV}"):
            backbone.answer(None, COLOURS)
        monkeypatch.setenv(KEY_ENV, KEY)
        backbone = make(stub)
        with pytest.raises(BackboneError, match=f"refused the key.*{KEY_ENV}") as caught:
            backbone.answer(None, COLOURS)
        stub.key = KEY
        assert backbone.answer(None, COLOURS).letter == "A"
        # A server that repeats the key in another error.
        stub.faults = [
            Fault(400, {"error": {"message": f"bad request with {KEY}"}}),
            Fault(500, KEY.encode()),
        ]
        told = ["".join(traceback.format_exception(caught.value))]
        for _ in range(2):
            try:
                backbone.answer(None, COLOURS)
            except BackboneError as error:
                told += traceback.format_exception(error)
        told += [json.dumps(backbone.identity()), repr(backbone), repr(vars(backbone)), caplog.text]
        assert len(told) > 5
        assert not any(KEY in text for text in told)
        assert stub.seen[-1].headers["authorization"] == f"Bearer {KEY}"


def test_an_unknown_model_is_answered_with_what_there_is(make: Make) -> None:
    with StubServer(models=[{"id": "one"}, {"id": "two"}]) as stub:
        with pytest.raises(BackboneError, match="no model 'served'; it offers: one, two"):
            make(stub).answer(None, COLOURS)
        assert not stub.chats


def test_a_model_that_goes_away_during_a_run_is_told_too(stub: StubServer, make: Make, waits: Waits) -> None:
    backbone = make(stub)
    backbone.answer(None, COLOURS)
    stub.models = [{"id": "other"}]
    with pytest.raises(BackboneError, match="no model 'served'; it offers: other"):
        backbone.answer(None, COLOURS)
    assert not waits


def test_a_wrong_address_is_told_apart_from_a_wrong_model(stub: StubServer, make: Make) -> None:
    with pytest.raises(BackboneError, match=r"404.*base_url.*/v1"):
        make(stub.url.removesuffix("/v1") + "/v2").answer(None, COLOURS)


def test_a_server_without_a_list_of_models_will_do(make: Make) -> None:
    with StubServer(models=None) as stub:
        assert make(stub).answer(None, COLOURS).letter == "A"


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (completion("A", None), "no log-probabilities.*--max-logprobs"),
        (completion("A", []), "no log-probabilities.*--max-logprobs"),
        (completion("A", [entry("token_id:32", -0.1)]), "--return-tokens-as-token-ids"),
        (completion("A", [entry("A", float("nan"))]), "no number"),
        (completion("A", [entry("A", -0.1)], finish="content_filter"), "content_filter"),
        ({**completion("A", [entry("A", -0.1)]), "usage": None}, "usage"),
    ],
)
def test_replies_without_what_is_needed(reply: dict[str, Any], words: str, make: Make, waits: Waits) -> None:
    with StubServer(lambda body: reply) as stub, pytest.raises(BackboneError, match=words):
        make(stub).generate(None, "What?")
    assert not waits


def test_one_failure_ends_a_batch_and_the_rest_is_not_sent(make: Make) -> None:
    def reply(body: dict[str, Any]) -> Any:
        if "bad" in text_of(body):
            raise BadRequest("no")
        time.sleep(0.05)
        return letter("A", [("A", -1.0)])

    requests = [ChoiceRequest(None, COLOURS, "bad")] + [ChoiceRequest(None, COLOURS, "good")] * 20
    with StubServer(reply) as stub:
        backbone = make(stub, concurrency=2)
        with pytest.raises(BackboneError, match="no"):
            backbone.answer_batch(requests)
        assert len(stub.chats) < 10
        assert backbone.answer(None, COLOURS).letter == "A"


# Ends


def test_ctrl_c_interrupts_at_once_and_leaves_the_backbone_usable(stub: StubServer, make: Make) -> None:
    backbone = make(stub, concurrency=4)
    backbone.answer(None, COLOURS)
    stub.faults = [Fault(body=letter("B", [("B", -1.0)]), delay=3.0)] * 4
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    start = time.monotonic()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        backbone.answer_batch([ChoiceRequest(None, COLOURS)] * 12)
    assert time.monotonic() - start < 1.5
    timer.join()
    # The eight that waited for a place are never sent.
    asked = len(stub.chats)
    assert asked == 1 + 4
    assert backbone.answer(None, COLOURS).letter == "A"
    assert len(stub.chats) == asked + 1


def test_after_close_calls_are_refused_and_no_thread_is_left(stub: StubServer, make: Make) -> None:
    def ours() -> int:
        return sum(thread.name == "videopro-server-backbone" for thread in threading.enumerate())

    before = ours()
    backbone = make(stub)
    backbone.answer(None, COLOURS)
    assert ours() == before + 1
    backbone.close()
    backbone.close()
    deadline = time.monotonic() + 5
    while ours() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert ours() == before
    with pytest.raises(BackboneError, match="closed"):
        backbone.answer(None, COLOURS)


def test_closing_ends_a_call_of_another_thread(stub: StubServer, make: Make) -> None:
    backbone = make(stub)
    stub.faults = [Fault(body=letter("A", [("A", -1.0)]), delay=3.0)]
    caught: list[BaseException] = []

    def call() -> None:
        try:
            backbone.answer(None, COLOURS)
        except BaseException as error:
            caught.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    while not stub.chats:
        time.sleep(0.01)
    backbone.close()
    thread.join(2)
    assert not thread.is_alive()
    assert isinstance(caught[0], BackboneError)


def test_load_backbone_makes_one_from_a_short_name(stub: StubServer) -> None:
    backbone = load_backbone(f"server:served@{stub.url}", frames=16)
    assert isinstance(backbone, ServerBackbone)
    assert (backbone.name, backbone.frames) == ("served", 16)
    assert backbone.answer(None, COLOURS).letter == "A"
    backbone.close()


def test_the_identity_tells_what_shapes_an_answer_and_no_address(make: Make) -> None:
    with StubServer(takes_video="times") as one, StubServer(takes_video="times") as other:
        identities = [make(stub).identity() for stub in (one, other)]
        assert identities[0] == identities[1] == json.loads(json.dumps(identities[0]))
        assert identities[0]["video"] == "video"
        assert make(one, pixels=1024).identity() != identities[0]
        assert make(one, extra_body={"top_k": 1}).identity() != identities[0]
        assert make(one, video="frames").identity() != identities[0]


def test_a_password_in_the_address_is_not_told(make: Make) -> None:
    with StubServer(models=[{"id": "other"}]) as stub, pytest.raises(BackboneError) as caught:
        make(stub.url.replace("http://", "http://me:secret@")).answer(None, COLOURS)
    assert "secret" not in str(caught.value)
    assert stub.url in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"base_url": "localhost:8000/v1"}, "http://"),
        ({"timeout": 0}, "timeout"),
        ({"retries": -1}, "retries"),
        ({"extra_body": {"max_tokens": 3}}, "max_tokens"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, Any], words: str, make: Make) -> None:
    with pytest.raises(ConfigError, match=words):
        make("http://127.0.0.1:1/v1", **settings)
