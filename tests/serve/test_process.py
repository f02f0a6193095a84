"""The server as a process of its own, with the openai client: its one line, its end, and a restart."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from openai import APIError, NotFoundError, OpenAI

from tests.support import ROOT
from tests.support.colours import make_video, wait_for
from tests.support.served import World, message
from tests.support.stub_server import StubFault, StubServer, letter
from videopro.commands import mcp
from videopro.commands.serve import main
from videopro.serve import Answerer

COMMAND = """
import sys
from tests.support.colours import load_fake
from videopro.commands.serve import main
sys.exit(main(load=lambda *words, **settings: load_fake(*words, is_concurrent=True, **settings)))
"""
WORDS = ("--model", "colours", "--method", "native", "--port", "0")


@contextmanager
def server(output: Path, *more: str) -> Iterator[tuple[subprocess.Popen[str], OpenAI]]:
    with subprocess.Popen(
        [sys.executable, "-c", COMMAND, *WORDS, "--output", str(output), *more],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            match = re.fullmatch(
                r"serving colours at (http://127\.0\.0\.1:\d+) \(press Ctrl-C to stop\)\n", line
            )
            assert match is not None, line
            with OpenAI(base_url=f"{match[1]}/v1", api_key="none", max_retries=0) as client:
                yield process, client
        finally:
            process.kill()


def ask(client: OpenAI, video: str, text: str, **more: Any) -> Any:
    return client.chat.completions.create(  # type: ignore[call-overload]
        model="colours",
        messages=[message(video, text)],
        extra_body={"videopro": {"choices": ["red", "blue"]}},
        **more,
    )


@pytest.mark.kills
def test_a_signal_ends_it_at_once_and_a_restart_goes_on(tmp_path: Path) -> None:
    make_video(tmp_path / "blue.mp4", "blue")
    output = tmp_path / "out"
    with server(output) as (process, client):
        video = client.files.create(file=tmp_path / "blue.mp4", purpose="user_data").id
        assert ask(client, video, "Which?").choices[0].message.content == "B. blue"
        stream = iter(ask(client, video, "Which? (slow)", stream=True))
        next(stream)
        process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        with pytest.raises(APIError, match=r"stopped after \d+\.\d s: the server is shutting down"):
            list(stream)
        assert process.wait(30) == 143
        assert time.monotonic() - began < 10
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read() == "", "one line is all"
        *log, empty, last = process.stderr.read().splitlines()
        assert (empty, last) == ("", "stopped; videos and answers are kept")
        time_of = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} INFO "
        for line, says in zip(
            log,
            (
                r"loading the model \.\.\.",
                r"POST /v1/files: 200 in \d+ ms \(127\.0\.0\.1\)",
                r"question-\w+: answered \(\d+\.\d s, 127\.0\.0\.1\)",
                r"POST /v1/chat/completions: 200 in \d+ ms \(127\.0\.0\.1\)",
                r"question-\w+: stopped after .*: the server is shutting down \(.*\)",
                r"POST /v1/chat/completions: 200 in \d+ ms \(127\.0\.0\.1\)",
            ),
            strict=True,
        ):
            assert re.fullmatch(time_of + says, line), line
    with server(output) as (process, client):
        assert [each.id for each in client.files.list()] == [video]
        listed: Any = client.get("/videopro/questions", cast_to=object)
        assert [each["state"] for each in listed["data"]] == ["stopped", "answered"]
        second = subprocess.run(
            [sys.executable, "-c", COMMAND, *WORDS, "--output", str(output)],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        assert second.returncode == 2
        assert f"error: {output}: another command is writing there; wait for it" in second.stderr
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130


@pytest.mark.kills
def test_a_question_that_was_under_way_is_there_after_a_kill(tmp_path: Path) -> None:
    make_video(tmp_path / "blue.mp4", "blue")
    output = tmp_path / "out"
    with server(output, "--in-flight", "2") as (process, client):
        video = client.files.create(file=tmp_path / "blue.mp4", purpose="user_data").id

        def begun(text: str) -> str:
            asked = {"question": text, "choices": ["red", "blue"], "file_id": video}
            return str(client.post("/videopro/questions", body=asked, cast_to=dict[str, str])["id"])

        # Two are answered at a time: the last one waits.
        slow = [begun(f"Which? (slow) {number}") for number in range(3)]
        stopped = begun("Which, after all?")
        client.post(f"/videopro/questions/{stopped}/stop", cast_to=object)
        process.kill()
        assert process.wait(30) == -9
    for _ in range(2):  # A second restart knows them as the first one does.
        with server(output) as (process, client):

            def read(path: str, **headers: str) -> str:
                return client.get(f"/videopro/questions{path}", cast_to=str, options={"headers": headers})

            rows = json.loads(read(""))["data"]
            assert [(each["id"], each["state"]) for each in rows] == [(id, "stopped") for id in slow[::-1]]
            assert rows[0]["question"] == "Which? (slow) 2"
            says = "the server was restarted before this question was answered; ask again"
            for id in (slow[0], slow[2]):
                page = json.loads(read(f"/{id}"))
                assert (page["running"], page["state"], page["file_id"]) == (False, "stopped", video)
                assert (page["error"]["type"], page["error"]["message"]) == ("Cancelled", says)
                # Whoever was following it, and comes back, is told too.
                for last in ("", "0", "7"):
                    (event,) = re.findall(r"data: (.*)", read(f"/{id}/events", **{"Last-Event-ID": last}))
                    assert json.loads(event)["error"] == {"type": "Cancelled", "message": says}
            with pytest.raises(NotFoundError, match="no such question"):
                read(f"/{stopped}")
            process.kill()


@pytest.mark.parametrize("command", [main, mcp.main])
@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_where_others_can_reach_it_a_server_needs_a_key_or_a_word(
    command: Callable[[list[str]], int],
    host: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Started(Exception):
        """It got beyond its doors."""

    def start(*about: Any) -> None:
        raise Started

    monkeypatch.setattr("videopro.serve.Answerer.load", start)
    monkeypatch.setattr("videopro.serve.mcp.run_http", start)
    words = ["--host", host, "--port", "0", "--model", "pocket"]
    if command is mcp.main:
        words += [str(tmp_path), "--transport", "http"]
    assert command(words) == 2
    assert f"--host {host}: other machines can reach this address" in capsys.readouterr().err
    for key, more in (("", ["--no-key"]), ("sesame", [])):
        monkeypatch.setenv("VIDEOPRO_SERVE_KEYS", key)
        with pytest.raises(Started):
            command([*words, *more])


def test_where_it_cannot_listen_or_be_called_nothing_is_loaded(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(model: str, **settings: Any) -> Any:
        raise AssertionError("nothing is loaded")

    native = ["--model", "colours", "--method", "native"]
    assert main([*native, "--host", "no.such.host.invalid"], load=load) == 2
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main([*native, "--port", str(taken.getsockname()[1])], load=load) == 2
    assert "choose another --host or --port" in capsys.readouterr().err
    monkeypatch.setenv("VIDEOPRO_SERVE_KEYS", "good bäd")
    assert main([*native, "--port", "0"], load=load) == 2
    error = capsys.readouterr().err
    assert "VIDEOPRO_SERVE_KEYS: clients cannot send key 2" in error
    assert "bäd" not in error


def test_a_served_model_answers_and_is_let_go(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    make_video(tmp_path / "red.mp4", "red")
    with StubServer(lambda body: letter("A", [("A", -0.1), ("B", -3.0)])) as stub:
        world = World(tmp_path, answerer=Answerer(f"server:served@{stub.url}", backbone={"retries": 1}))
        assert world.client.get("/v1/models").json()["data"][0]["id"] == "served", "without its address"
        video = world.video("red")
        question = world.ask(video, choices=["red", "blue"])
        page = world.answered(question)
        assert (page["final"]["letter"], page["state"]) == ("A", "unscored")
        stub.faults = [StubFault(delay=30.0)] * 4
        slow = world.ask(video, question="Which?", choices=["red", "blue"])
        wait_for(lambda: stub.in_flight > 0)
        began = time.monotonic()
        world.client.post(f"/v1/videopro/questions/{slow}/stop")
        assert world.state.line.wait_until_idle(20)
        assert time.monotonic() - began < 10, "the stub would have taken thirty seconds"
        assert world.answered(slow)["state"] == "stopped"
        stub.faults = []
        stub.is_down = True
        lost = world.ask(video, question="Which, then?", choices=["red", "blue"])
        says = "the model's server does not answer; try again later, or ask the operator"
        assert world.answered(lost)["error"]["message"] == says
        assert world.client.get(f"/v1/videopro/questions/{lost}/trace").json()["error"]["message"] == says
        # The operator reads where it is, and how to start it.
        (detail,) = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
        assert detail.startswith(f"{lost}: server {stub.url} cannot be reached (")
        assert "start it (such as vllm serve served)" in detail
        assert f"{lost}: failed: {says} (" in caplog.text
        # Nothing is kept of that: the next question finds the server again.
        stub.is_down = False
        again = world.answered(world.ask(video, question="And now?", choices=["red", "blue"]))
        assert again["final"]["letter"] == "A"
        world.close()
        world.answerer.close()


def test_a_model_server_that_is_down_is_a_warning_at_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with StubServer() as stub:
        stub.is_down = True
        words = ["--model", f"server:m@{stub.url}", "--backbone", "retries=0", "--method", "native"]
        monkeypatch.setattr("videopro.serve.run", lambda *_: wait_for(lambda: caplog.text.count(stub.url)))
        assert main([*words, "--port", "0", "--output", str(tmp_path)]) == 0
    (warning,) = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert warning.startswith(f"server {stub.url} cannot be reached (")
