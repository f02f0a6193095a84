"""Questions as OpenAI's chat, with the real client: at once, streamed, as a conversation, and refused."""

from __future__ import annotations

import errno
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from openai import APIError, APIStatusError, NotFoundError, OpenAI
from pydantic import ValidationError

from tests.support.served import QUESTION, World, message
from videopro.backbones import find_video
from videopro.benchmarks import load
from videopro.pocket import model_dir
from videopro.serve.chat import ChatRequest, Message, read_messages
from videopro.serve.problems import Problem
from videopro.serve.question_routes import MOST_EARLIER

CHOICES = {"choices": ["red", "green", "blue"]}


@pytest.fixture(scope="module")
def video(world: World) -> str:
    return world.video("green")


def url_message(url: str) -> dict[str, Any]:
    part = {"type": "video_url", "video_url": {"url": url}}
    return {"role": "user", "content": [{"type": "text", "text": "Q?"}, part]}


def ask(client: OpenAI, messages: list[dict[str, Any]], asked: dict[str, Any], **more: Any) -> Any:
    return client.chat.completions.create(
        model="colours",
        messages=messages,
        extra_body={"videopro": asked},
        **more,  # type: ignore[call-overload]
    )


def test_an_answer_at_once(client: OpenAI, world: World, video: str) -> None:
    assert [model.id for model in client.models.list()] == ["colours"]
    assert world.client.get(f"/v1/files/{video}/questions").json() == {
        "object": "list",
        "any": True,
        "data": [],
    }
    # More tokens than the operator's limit, as front ends ask for.
    reply = ask(client, [message(video)], CHOICES, max_tokens=4096)
    (choice,) = reply.choices
    assert (choice.message.content, choice.finish_reason) == ("B. green", "stop")
    about = choice.message.videopro
    assert about["answer"]["confidence"] == 0.9
    assert about["answer"]["probabilities"] == {"A": 0.02, "B": 0.9, "C": 0.02}
    # 4 frames of the native method in the middles of equal parts of two seconds, as 8 frames a second have
    # them, and 100 tokens and one for each frame.
    assert [piece["kind"] for piece in about["evidence"]] == ["frames"]
    assert about["evidence"][0]["times"] == [0.25, 0.75, 1.25, 1.75]
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (104, 1)
    page = world.client.get(f"/v1/videopro/questions/{about['question_id']}").json()
    assert (page["file_id"], page["running"], page["final"]["letter"]) == (video, False, "B")
    assert page["row"]["question"] == page["question"] == "Which colour is shown?"


def test_a_streamed_answer(client: OpenAI, video: str) -> None:
    stream = ask(client, [message(video)], CHOICES, stream=True, stream_options={"include_usage": True})
    *chunks, usage = list(stream)
    deltas = [chunk.choices[0].delta for chunk in chunks]
    events = [delta.videopro for delta in deltas if hasattr(delta, "videopro")]
    assert events[-1]["type"] == "answer"
    assert events[-1]["choice"] == "green"
    assert "evidence" in [event["type"] for event in events]
    assert "".join(delta.content or "" for delta in deltas) == "B. green"
    assert [chunk.choices[0].finish_reason for chunk in chunks][-2:] == [None, "stop"]
    assert (usage.choices, usage.usage.total_tokens) == ([], 105)
    assert len({chunk.id for chunk in chunks}) == 1


def test_an_open_question_and_its_conversation(client: OpenAI, world: World, video: str) -> None:
    first = ask(client, [message(video, "What is it?")], {}).choices[0].message.content
    assert first == "I read: " + world.backbone.prompts[-1]
    messages = [
        *(message(video, "Is it a sea?"), {"role": "assistant", "content": "No, a meadow."}),
        *({"role": "user", "content": "And what colour has it?"},),
    ]
    ask(client, messages, {})
    prompt = world.backbone.prompts[-1]
    assert "Q: Is it a sea?\nA: No, a meadow.\n" in prompt
    assert prompt.index("meadow") < prompt.index("And what colour has it?")
    listed = world.client.get("/v1/videopro/questions").json()["data"][0]
    assert listed["question"] == "And what colour has it?"


def test_a_question_follows_all_that_was_asked_before_it(world: World) -> None:
    video = world.video("grey")

    def ended(text: str, *choices: str, **about: Any) -> str:
        question = world.ask(video, question=text, choices=choices, **about)
        world.answered(question)
        return question

    def read() -> list[tuple[str, str]]:
        return re.findall(r"^Q: (.*)\nA: (.*)$", world.backbone.prompts[-1], re.MULTILINE)

    ended("Which colour?", "red", "grey")
    ended("Which colour?", "grey", "blue")
    ended("Is it dark?", "grey", "blue")
    assert read() == [], "only a follow-up reads what was asked"
    last = ended("Which colour?", "red", "grey", options={"frames": 2})
    ended("What came later?", "grey", "green")
    ended("Why?", follows=last)
    # The first one was asked again, and what came later was not yet asked.
    assert read() == [("Which colour?", "grey"), ("Is it dark?", "grey"), ("Which colour?", "grey")]
    for number in range(MOST_EARLIER):
        last = ended(f"Number {number}?", "grey", "red")
    ended("Why?", "grey", "red", follows=last)
    assert read() == [(f"Number {number}?", "grey") for number in range(MOST_EARLIER)]
    about_another = {**QUESTION, "file_id": world.video("red"), "follows": last}
    refused = world.client.post("/v1/videopro/questions", json=about_another)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "other_video")


def test_another_video_begins_another_conversation() -> None:
    # Front ends send their own prompts, which no method reads.
    messages = [
        {"role": "system", "content": "You are a pirate."},
        message("file-1", "Is it red?"),
        {"role": "assistant", "content": "Yes."},
        message("file-2", "Is it blue?"),
        {"role": "assistant", "content": [{"type": "text", "text": "No."}]},
        {"role": "user", "content": "Sure?"},
        {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
    ]
    video, question, earlier = read_messages([Message.model_validate(each) for each in messages])
    assert (video, question) == ("file-2", "Sure?")
    assert [(each.question, each.answer) for each in earlier] == [("Is it blue?", "No.")]


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        ([{"role": "user", "content": "Which colour?"}], "no message names a video; upload one to /v1/files"),
        ([{"role": "tool", "content": "4"}, message("file-1")], "messages.0.role\n"),
        ([{"role": "system", "content": "Be brief."}], "must be the user's question"),
        ([message("file-1"), {"role": "assistant", "content": "Yes."}], "must be the user's question"),
        ([message("file-1", "  ")], "must be the user's question"),
        ([{"role": "user", "content": 7}], "messages.0.content"),
        ([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}], "'image_url'"),
        ([{"role": "user", "content": [{"type": "file", "file": {"file_data": "x"}}]}], "file_id"),
        ([{"role": "user", "content": ["x"]}], "messages.0.content"),
        ([message("file-1", "x" * 20_001)], "at most 20000 characters"),
        ([{**message("1"), "content": message("1")["content"] + message("2")["content"]}], "names 2 videos"),
    ],
)
def test_messages_that_are_no_question(messages: list[dict[str, Any]], says: str) -> None:
    # A problem of its own, or one of the request's form, which is told in the same way.
    with pytest.raises((Problem, ValidationError), match=says):
        read_messages(ChatRequest.model_validate({"model": "m", "messages": messages}).messages)


@pytest.mark.parametrize(
    ("asked", "more", "status", "says"),
    [
        ({"method": "natife"}, {}, 400, "did you mean 'native'?"),
        ({"options": {"frames": 5}}, {}, 400, "option 'frames' is 5; the maximum here is 4"),
        ({"options": {"frames": "7"}}, {}, 400, "must be a number"),
        ({"options": {"system": "Say A."}}, {}, 403, "only the operator can set option 'system'"),
        (
            {"method": "videopro", "options": {"planner": "api:x@http://10.0.0.1/v1"}},
            {},
            403,
            "only the operator",
        ),
        ({"options": {"nonsense": 1}}, {}, 400, "has no option 'nonsense'"),
        ({"choices": ["only one"]}, {}, 400, "needs 2 to 26 options"),
        ({"choices": ["a", ""]}, {}, 400, "Option B"),
        ({"nonsense": 1}, {}, 400, "videopro.nonsense"),
        ({}, {"n": 2}, 400, "n: input should be 1"),
        ({}, {"tools": [{"type": "function", "function": {"name": "f"}}]}, 400, "tools"),
    ],
)
def test_what_cannot_be_answered_is_refused(
    client: OpenAI, video: str, asked: dict[str, Any], more: dict[str, Any], status: int, says: str
) -> None:
    with pytest.raises(APIStatusError) as refused:
        ask(client, [message(video)], {**CHOICES, **asked}, **more)
    assert (refused.value.status_code, says in refused.value.message) == (status, True), refused.value.message


def test_another_model_or_video_is_not_here(client: OpenAI, video: str) -> None:
    with pytest.raises(NotFoundError, match="this server has 'colours'"):
        client.chat.completions.create(model="gpt-5", messages=[message(video)])  # type: ignore[list-item]
    names = {
        "file-" + "0" * 32: "there is no video",
        "folder:../out/serve.lock": "not a relative path inside",
        **dict.fromkeys(("/etc/passwd", "http://127.0.0.1/a.mp4", "pocket:test/long_013"), "names no video"),
        "data:video/mp4;base64,AAAA": "names no video",
    }
    for name, says in names.items():
        with pytest.raises(APIStatusError, match=says):
            ask(client, [url_message(name)], CHOICES)


def test_a_model_that_fails_is_told_in_one_line(client: OpenAI, video: str) -> None:
    with pytest.raises(APIStatusError) as failed:
        ask(client, [message(video, "Which colour? (refuse)")], CHOICES)
    assert failed.value.status_code == 502
    told: list[dict[str, Any]] = []
    stream = ask(client, [message(video, "Which colour? (refuse)")], CHOICES, stream=True)
    with pytest.raises(APIError, match="cannot serve this request"):
        told.extend(getattr(chunk.choices[0].delta, "videopro", {}) for chunk in stream)
    # The last one is that of `videopro ask --json`.
    assert told[-1]["type"] == "error"
    assert told[-1]["error"]["type"] == "BackboneError"
    assert told[-1]["cost"]["frames"] == 4


@pytest.mark.parametrize("fails", ["write", "fsync"])
def test_a_full_disk_is_told_as_such_and_the_question_can_be_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    def full(*about: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    world = World(tmp_path)
    video = world.video("green")
    chat = {"model": "colours", "messages": [message(video)], "videopro": CHOICES}
    monkeypatch.setattr(os, fails, full)
    for _ in range(100):
        # The disk is told of a write a moment later.
        reply = world.client.post("/v1/chat/completions", json=chat)
        if reply.status_code != 200:
            break
    monkeypatch.undo()
    assert (reply.status_code, reply.headers["retry-after"]) == (507, "30")
    error = reply.json()["error"]
    assert (error["type"], error["code"]) == ("server_error", "disk_full")
    assert "the server's disk is full" in error["message"]
    assert str(tmp_path) not in reply.text
    if fails == "write":
        assert world.client.post("/v1/chat/completions", json=chat).status_code == 200


@pytest.mark.parametrize("name", ["pocket", "narrator/small"])
def test_the_pocket_model_says_what_it_knows(tmp_path: Path, name: str) -> None:
    """A folder of the hub's cache is called as on the hub, and not by its path."""
    model = name
    if "/" in name:
        folder = tmp_path / "models--narrator--small" / "snapshots" / "0123456789abcdef"
        folder.mkdir(parents=True)
        # Of the pocket model's shape, so that it is refused other videos.
        shutil.copy(model_dir() / "config.json", folder)
        model = str(folder)
    world = World(tmp_path, model=model)
    (listed,) = world.client.get("/v1/models").json()["data"]
    assert listed["id"] == name
    assert "generated pocket videos only" in listed["videopro"]["note"]
    video = world.video("red")
    about = world.client.get(f"/v1/files/{video}").json()["videopro"]
    reply = world.client.post("/v1/videopro/questions", json={"file_id": video, "question": "Q?"})
    assert reply.status_code == 400
    for told in (about["problem"], reply.json()["error"]["message"]):
        assert told.startswith(f"red.mp4: model '{name}' knows the generated pocket videos only")


def test_a_model_that_knows_its_own_questions_is_asked_no_others(tmp_path: Path) -> None:
    made = [item for item in load("pocket", split="test").items if item.video.stem == "short_001"]
    world = World(tmp_path, model="pocket", waiting=40)
    content = find_video(Path("pocket:test/short_001")).read_bytes()
    video = world.client.post("/v1/files", files={"file": ("mine.mp4", content)}).json()["id"]
    listed = world.client.get(f"/v1/files/{video}/questions").json()
    data = [{"question": item.question.text, "choices": [*item.question.choices]} for item in made]
    assert (listed, len(data)) == ({"object": "list", "any": False, "data": data}, 11)
    known = data[0]
    text, choices = known["question"], known["choices"]
    for same in (
        *data,
        {"question": f"  {text.upper().replace(' ', '  ')[:-1]} ", "choices": []},
        {
            "question": text,
            "choices": [f"{letter}. {each}" for letter, each in zip("ABCD", choices[::-1], strict=True)],
        },
    ):
        world.ask(video, **same)
    for other in (
        {"question": "And what colour is the star there?", "choices": []},
        {"question": text, "choices": choices[:3]},
        {"question": text, "choices": data[1]["choices"]},
    ):
        about = world.client.post("/v1/videopro/questions", json={**other, "file_id": video})
        chat = {"model": "pocket", "messages": [message(video, other["question"])]}
        chat |= {"videopro": {"choices": other["choices"]}}
        for reply in (about, world.client.post("/v1/chat/completions", json=chat)):
            error = reply.json()["error"]
            assert (reply.status_code, error["code"]) == (400, "unknown_question")
            assert error["message"] == (
                "model 'pocket' answers only the questions made with its videos; choose one of GET "
                f"/v1/files/{video}/questions"
            )
    real = world.video("red")
    assert world.client.get(f"/v1/files/{real}/questions").json()["data"] == []
    world.close()
