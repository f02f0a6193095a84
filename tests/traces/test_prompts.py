"""What prompts begin with is stored once beside a run's traces, and no trace names what is not there."""

import json
import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest

from tests.support.traces import BLOCK, HEAD, QUESTION, asking, make
from videopro.errors import RunError
from videopro.traces import (
    Prompt,
    Trace,
    TraceLog,
    read_heads,
    read_traces,
    recorded_prompt,
    remove_traces,
)
from videopro.traces import log as log_module


def stored(traces: Path) -> list[str]:
    """The heads in the file beside these traces, line by line."""
    lines = (traces.parent / "prompts.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["text"] for line in lines]


def whole_prompts(traces: Path) -> list[str]:
    heads = read_heads(traces)
    return [
        heads[round.prompt.key] + round.prompt.text
        for trace in read_traces(traces)
        for round in trace.rounds
        if round.prompt is not None
    ]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (HEAD + BLOCK, Prompt(BLOCK, HEAD)),
        (HEAD + BLOCK + "\n\nLog:\nno", Prompt(BLOCK + "\n\nLog:\nno", HEAD)),
        # A user's own form of the question.
        (HEAD + "Which?\n(A) a", Prompt("Which?\n(A) a", HEAD)),
        # Little before the question, and a prompt that does not show it.
        ("Write.\n" + BLOCK, Prompt("Write.\n" + BLOCK)),
        (HEAD, Prompt(HEAD)),
    ],
)
def test_a_prompt_is_divided_where_its_question_begins(text: str, wanted: Prompt) -> None:
    assert recorded_prompt(text, QUESTION) == wanted


def test_a_head_is_written_once_and_its_traces_name_it(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    log, other = TraceLog(path), TraceLog(path)
    assert log.append(make("without"))
    assert not (tmp_path / "prompts.jsonl").exists()
    assert log.append_all([asking("a"), asking("b")]) == 2
    assert other.append(asking("c"))
    assert other.append(asking("d", HEAD.replace("Write", "Speak")))
    assert not log.append(asking("d", "never " * 99)), "a question that is done writes nothing"
    assert stored(path) == [HEAD, HEAD.replace("Write", "Speak")]
    assert b"Write." not in path.read_bytes()
    assert whole_prompts(path) == [HEAD + BLOCK] * 3 + [HEAD.replace("Write", "Speak") + BLOCK]


def test_a_torn_head_is_written_again(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    TraceLog(path).append(asking("a"))
    with (tmp_path / "prompts.jsonl").open("ab") as file:
        file.write(b'{"key": "0')
    assert read_heads(path).keys() == {read_traces(path)[0].rounds[0].prompt.key}  # type: ignore[union-attr]
    TraceLog(path).append(asking("b", "Say. " * 99))
    assert stored(path) == [HEAD, "Say. " * 99]


def _write_many(path: Path, ids: list[str], heads: int) -> None:
    log = TraceLog(path)
    for question_id in ids:
        log.append(asking(question_id, f"{int(question_id) % heads} {HEAD}"))


CONTEXT = multiprocessing.get_context("fork")


def test_many_writers_store_a_question_and_a_head_once(tmp_path: Path) -> None:
    """Four processes write the same 40 questions, with three heads, in different orders."""
    path, ids = tmp_path / "traces.jsonl", [str(number) for number in range(40)]
    orders = [ids[k:] + ids[:k] for k in (0, 7, 20, 33)]
    writers = [CONTEXT.Process(target=_write_many, args=(path, order, 3)) for order in orders]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0, 0, 0]
    written = [Trace.from_line(line).question_id for line in path.read_bytes().splitlines()]
    assert sorted(written) == sorted(ids)
    assert sorted(stored(path)) == [f"{n} {HEAD}" for n in range(3)]
    assert whole_prompts(path) == [f"{int(number) % 3} {HEAD}{BLOCK}" for number in written]


def test_a_killed_writer_leaves_a_log_that_can_be_continued(tmp_path: Path) -> None:
    """kill -9 at arbitrary moments, with a head for each trace: whole lines and prompts stay, none twice."""
    path, done = tmp_path / "traces.jsonl", 0
    for turn in range(4):
        ids = [str(number) for number in range(done, done + 100_000)]
        enough = 5_000 + (path.stat().st_size if turn else 0)
        writer = CONTEXT.Process(target=_write_many, args=(path, ids, 10**6))
        writer.start()
        while not path.exists() or path.stat().st_size < enough:
            time.sleep(0.001)
        os.kill(writer.pid or 0, signal.SIGKILL)
        writer.join()
        log = TraceLog(path)
        written = [int(trace.question_id) for trace in log.refresh()]
        log.close()
        assert written == list(range(len(written)))
        assert len(written) > done
        done = len(written)
    assert TraceLog(path).append(asking(str(done), f"{done} {HEAD}"))
    assert whole_prompts(path) == [f"{number} {HEAD}{BLOCK}" for number in range(done + 1)]
    assert len(stored(path)) == len(set(stored(path)))


def test_a_head_that_does_not_fit_keeps_its_trace_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "traces.jsonl"
    log, write = TraceLog(path), os.write
    log.append(asking("a"))
    # Room for a trace, but not for so long a head.
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:5000]))
    with pytest.raises(RunError, match=r"prompts\.jsonl: cannot be written \(No space left on device\)"):
        log.append(asking("b", HEAD * 40))
    monkeypatch.undo()
    assert whole_prompts(path) == [HEAD + BLOCK]
    assert TraceLog(path).append(asking("b", HEAD * 40))
    assert whole_prompts(path)[-1] == HEAD * 40 + BLOCK


def test_removed_traces_leave_nothing_and_whoever_had_the_file_open_writes_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "traces.jsonl"
    log = TraceLog(path)
    log.append_all([asking("a"), asking("b", "Secret. " + HEAD), asking("c", "Secret. " + HEAD), make("d")])
    lines = path.read_bytes().splitlines(keepends=True)
    foreign = b"no trace\n"
    path.write_bytes(b"".join([*lines[:2], foreign, *lines[2:]]) + lines[0][:9])
    remove_traces(path, ["b", "none"])
    assert path.read_bytes() == b"".join([lines[0], foreign, *lines[2:]])
    assert stored(path) == [HEAD, "Secret. " + HEAD], "another question has it"

    def killed(*about: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(log_module, "write_atomically", killed)
        with pytest.raises(KeyboardInterrupt):
            remove_traces(path, ["c"])
    assert path.read_bytes() == b"".join([lines[0], foreign, *lines[2:]]), "to be removed again"
    remove_traces(path, ["c"])
    assert b"Secret" not in path.read_bytes() + (tmp_path / "prompts.jsonl").read_bytes()
    assert whole_prompts(path) == [HEAD + BLOCK]
    with pytest.raises(RunError, match="was replaced or removed while in use; run the same command again"):
        log.append(make("e"))
    remove_traces(path, ["a", "d"])
    assert path.exists(), "a line that cannot be read is not ours to remove"
    path.write_bytes(lines[0])
    remove_traces(path, ["a"])
    assert not path.exists(), "no run is left"
    assert TraceLog(path).append_all([make("e"), asking("b", HEAD), asking("c", "Secret. " + HEAD)]) == 3
    assert stored(path) == [HEAD, "Secret. " + HEAD]
