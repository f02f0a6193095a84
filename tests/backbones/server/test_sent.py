"""What the server backbone sends: messages, frames, texts between them, times and settings; system turns, and
replies begun for the model or constrained to a schema."""

import base64
import io
import json
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.support.server_cases import COLOURS, KEY, KEY_ENV, LN_05, Make, frames, reds
from tests.support.stub_server import (
    StubFault,
    StubServer,
    completion,
    entry,
    letter,
    pictures_of,
    text_of,
    video_times,
)
from videopro.backbones import ChoiceRequest, GenerateRequest, Interleaved, Stills
from videopro.backbones.server import messages
from videopro.errors import BackboneError
from videopro.question import prompts
from videopro.video import Frame


def test_a_text_question_is_one_plain_message(stub: StubServer, make: Make) -> None:
    make(stub, extra_body={"logit_bias": {32: -100}}).answer(None, COLOURS)
    assert stub.chats == [
        {
            "model": "served",
            "messages": [{"role": "user", "content": prompts.multiple_choice(COLOURS)}],
            "max_tokens": 1,
            "logprobs": True,
            "top_logprobs": 20,
            "temperature": 0.0,
            "logit_bias": {"32": -100},
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


def test_a_picture_is_encoded_once_while_it_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    """A decoded frame, which nobody changes, is one array for all who look at it."""
    encoded: list[np.ndarray] = []
    original = messages.jpeg
    monkeypatch.setattr(messages, "jpeg", lambda *args: encoded.append(args[0].copy()) or original(*args))
    for number in range(3):
        picture = np.full((32, 32, 3), 80 * number, np.uint8)
        picture.flags.writeable = False
        frames = [Frame(picture, 0.0), Frame(picture, 1.0)]
        sent = messages.encode_frames(frames, 32 * 32).jpegs
        # Other pixels at the same address, once it is free, are another picture.
        assert sent == (original(picture, 32 * 32),) * 2
        assert len(encoded) == number + 1
        del picture, frames
    changing = np.zeros((32, 32, 3), np.uint8)
    for _ in range(2):
        messages.encode_frames([Frame(changing, 0.0)], 32 * 32)
    assert len(encoded) == 5


@pytest.mark.parametrize("kind", ["frame", "crop", "large"])
def test_a_jpeg_is_that_of_pillow(kind: str) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (96, 160, 3), np.uint8)
    smooth = np.asarray(Image.fromarray(noise).resize((320, 192), Image.Resampling.BICUBIC))
    smooth.flags.writeable = False  # as frames of the store
    picture = Image.fromarray(smooth)
    image, shown = {
        "frame": (smooth, picture),
        "crop": (smooth[32:96, 64:192], picture.crop((64, 32, 192, 96))),
        "large": (smooth, picture.resize((160, 96), Image.Resampling.BICUBIC)),
    }[kind]
    written = io.BytesIO()
    shown.save(written, format="JPEG", quality=99, subsampling=0)
    sent = base64.b64decode(messages.jpeg(image, 160 * 96 if kind == "large" else 320 * 192))
    with Image.open(io.BytesIO(sent)) as ours, Image.open(written) as theirs:
        assert ours.size == shown.size
        np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs))


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
def test_without_video_or_without_its_times_frames_go_as_pictures(takes: Any, make: Make) -> None:
    with StubServer(takes_video=takes) as stub:
        backbone = make(stub)
        backbone.answer(frames([1.0, 2.0]), COLOURS)
        backbone.answer(frames([3.0, 4.0]), COLOURS)
        forms = ["video" if "video_url" in json.dumps(body) else "frames" for body in stub.chats]
        assert backbone.identity()["video"] == "frames"
        # Each question once as frames; the probes before, of which the second may be on its way when the
        # first is refused, or is never sent.
        assert sorted(forms) in (["frames"] * 2 + ["video"] * 2, ["frames"] * 2 + ["video"])
        assert forms[0] == "video"
        assert any("<3.0 seconds>" in text_of(body) for body in stub.chats)


def test_a_server_that_fails_at_video_gets_pictures(make: Make) -> None:
    def fails(body: dict[str, Any]) -> Any:
        return StubFault(500) if "video_url" in json.dumps(body) else letter("A", [("A", -1)])

    with StubServer(fails) as stub:
        assert make(stub).answer(frames([1.0, 2.0]), COLOURS).letter == "A"


def test_the_probe_does_not_hide_that_the_server_refuses_the_key(make: Make) -> None:
    with StubServer(takes_video="times") as stub:
        backbone = make(stub)
        backbone.answer(None, COLOURS)
        stub.key = KEY
        with pytest.raises(BackboneError, match=KEY_ENV):
            backbone.answer(frames([1.0, 2.0]), COLOURS)
        assert "image_url" not in json.dumps(stub.chats)


def test_one_frame_crops_of_several_sizes_and_stills_are_never_a_video(make: Make) -> None:
    with StubServer(takes_video="times") as stub:
        backbone = make(stub, video="video")
        for shown in (frames([5.0]), frames([5.0]) + frames([6.0], (32, 32)), Stills(frames([5.0, 60.0]))):
            backbone.answer(shown, COLOURS)
    single, crops, stills = (body["messages"][0]["content"] for body in stub.chats)
    assert [part["type"] for part in single] == ["image_url", "text"]
    for several in (crops, stills):
        assert [part["type"] for part in several] == ["text", "image_url"] * 2 + ["text"]
    assert [part["text"] for part in stills[:4:2]] == ["<5.0 seconds>", "<60.0 seconds>"]
    assert "media_io_kwargs" not in stub.chats[2]


def test_pictures_keep_to_the_pixel_budget_and_to_their_aspect(stub: StubServer, make: Make) -> None:
    backbone = make(stub, video="frames", pixels=50_176)
    # 1280 x 720 by sqrt(50176 / 921600) is 298.7 x 168; the multiples of 32 below are 288 x 160.
    assert backbone.frame_size(720, 1280, 64) == (160, 288)
    assert backbone.frame_size(144, 256, 64) == (144, 256)
    backbone.answer([Frame(np.zeros((720, 1280, 3), np.uint8), 0.0)], COLOURS)
    assert pictures_of(stub.chats[0])[0].size == (288, 160)


def test_control_tokens_in_a_text_cannot_end_the_turn(stub: StubServer, make: Make) -> None:
    make(stub).answer(None, COLOURS, prompt="A sign says <|im_end|><|video_pad|>.")
    assert text_of(stub.chats[0]) == "A sign says < |im_end| >< |video_pad| >."


def test_more_frames_than_the_budget_are_refused(stub: StubServer, make: Make) -> None:
    backbone = make(stub, frames=2)
    for call in (backbone.prefix, lambda visual: backbone.answer(visual, COLOURS)):
        with pytest.raises(BackboneError, match=r"3 frames .* budget is 2"):
            call(frames([0.0, 1.0, 2.0]))


@pytest.mark.parametrize("engine", ["vllm", "sglang", "openai"])
def test_engines_do_not_think_and_leave_the_samplings_defaults_of_their_models(
    engine: str, make: Make
) -> None:
    """Qwen's generation_config.json has top_k 20, and a repetition penalty in Qwen2.5-VL. vLLM 0.31 and newer
    take the other penalties from there too."""
    neutral = {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0}
    penalties = {"presence_penalty": 0.0, "frequency_penalty": 0.0}
    asked = {"chat_template_kwargs": {"enable_thinking": False}, **neutral, **penalties}
    with StubServer(models=[{"id": "served", "owned_by": engine, "root": "org/name"}]) as stub:
        backbone = make(stub, frames=4, pixels=1024)
        backbone.answer(None, COLOURS)
        sent = {name: value for name, value in stub.chats[0].items() if name in asked}
        assert sent == ({} if engine == "openai" else asked)
        own = {"chat_template_kwargs": {"enable_thinking": True}, "top_k": 5}
        make(stub, extra_body=own, frames=4, pixels=1024).generate(None, "Hi")
        assert {name: stub.chats[1][name] for name in own} == own
        assert backbone.identity()["weights"] == "org/name"


# ---- turns, replies begun for the model or constrained to a schema -----------------------------------------

VLLM = [{"id": "served", "owned_by": "vllm"}]
TURNS: dict[str, Any] = {"system": "Watch it.", "prefill": "Best Option: ("}


def roles(body: dict[str, Any]) -> list[str]:
    return [message["role"] for message in body["messages"]]


@pytest.mark.parametrize("shared", [False, True])
def test_turns_and_a_begun_reply_are_sent(make: Make, shared: bool) -> None:
    with StubServer(models=VLLM) as stub:
        backbone = make(stub, video="frames")
        shown = frames([0.0, 1.0])
        visual: Any = backbone.prefix(shown, system="Watch it.") if shared else shown
        backbone.generate_batch([GenerateRequest(visual, "Which?", **TURNS)])
        backbone.answer_batch([ChoiceRequest(visual, COLOURS, "Which?", **TURNS)])
        begun = len(stub.chats)
        for body in stub.chats:
            assert roles(body) == ["system", "user", "assistant"]
            assert body["messages"][0]["content"] == "Watch it."
            assert body["messages"][2]["content"] == "Best Option: ("
            # As vLLM and SGLang want it; the reply holds only what they add.
            assert (body["continue_final_message"], body["add_generation_prompt"]) == (True, False)
        backbone.generate(shown, "Which?")
        (plain,) = stub.chats[begun:]
        assert roles(plain) == ["user"]
        assert "continue_final_message" not in plain
        if shared:
            with pytest.raises(BackboneError, match="make the prefix with the request's"):
                backbone.generate(visual, "Which?")


def test_a_server_that_would_begin_another_reply_is_refused(stub: StubServer, make: Make) -> None:
    with pytest.raises(BackboneError, match="does not report itself as vllm or sglang"):
        make(stub).generate_batch([GenerateRequest(None, "Which?", **TURNS)])
    assert not stub.chats


def test_texts_stand_before_their_frames(stub: StubServer, make: Make) -> None:
    shown = Interleaved(frames([0.0, 1.0]), ["", "He waves.\n"])
    make(stub, video="frames").answer(shown, COLOURS, prompt="Which?")
    make(stub, video="video").answer(shown, COLOURS, prompt="Which?")
    make(stub).answer(Interleaved(frames([0.0]), ["He waves.\n"]), COLOURS, prompt="Which?")
    *several, one = [body["messages"][0]["content"] for body in stub.chats]
    for parts in several:
        assert [part.get("text", part["type"]) for part in parts] == [
            "<0.0 seconds>",
            "image_url",
            "He waves.\n<1.0 seconds>",
            "image_url",
            "Which?",
        ]
    assert [part.get("text", part["type"]) for part in one] == ["He waves.\n", "image_url", "Which?"]


SCHEMA = {"title": "My verdict!", "type": "object", "properties": {"letter": {"type": "string"}}}


def verdict(body: dict[str, Any]) -> dict[str, Any]:
    return completion('{"letter": "B"}', [entry('{"letter": "B"}', LN_05)])


def test_a_schema_is_sent_as_the_response_format(make: Make) -> None:
    with StubServer(verdict) as stub:
        free, bound = make(stub).generate_batch(
            [GenerateRequest(None, "judge"), GenerateRequest(None, "judge", schema=SCHEMA)]
        )
        sent = [body.get("response_format") for body in stub.chats]
    assert (free.is_constrained, bound.is_constrained) == (False, True)
    assert sorted(sent, key=bool) == [
        None,
        {"type": "json_schema", "json_schema": {"name": "My_verdict_", "schema": SCHEMA}},
    ]


def test_a_server_without_schemas_generates_freely_from_then_on(make: Make) -> None:
    def plain(body: dict[str, Any]) -> Any:
        if "response_format" in body:
            return StubFault(400, {"error": {"message": "response_format of type json_schema: unknown"}})
        return verdict(body)

    with StubServer(plain) as stub:
        backbone = make(stub)
        replies = [
            backbone.generate_batch([GenerateRequest(None, "judge", schema=SCHEMA)])[0] for _ in range(2)
        ]
        asked = ["response_format" in body for body in stub.chats]
    assert [reply.is_constrained for reply in replies] == [False, False]
    assert [reply.text for reply in replies] == ['{"letter": "B"}'] * 2
    assert asked == [True, False, False], "what was refused once is not sent again"


def test_another_refusal_is_raised(make: Make) -> None:
    fault = StubFault(400, {"error": {"message": "the prompt is too long"}})
    with StubServer(lambda body: fault) as stub, pytest.raises(BackboneError, match="too long"):
        make(stub).generate_batch([GenerateRequest(None, "judge", schema=SCHEMA)])
