"""Fuzz tests of the host's half of a conversation: whatever a program's process sends, in whatever pieces,
the conversation has a typed ending. Long run: see `tests.support.fuzzing`.
"""

from __future__ import annotations

import json
import socket
import threading
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.fuzzing import FUZZ, odd_value
from videopro.executor.conversation import Conversation
from videopro.executor.inside import wire
from videopro.executor.outcome import Ending, Limits, outcome

LIMITS = Limits(wall_seconds=0.25, calls=5, frames=50, output_bytes=200, argument_bytes=5000, items=50)
READY = wire.frame(wire.READY, None)

packed = st.recursive(
    odd_value | st.builds(lambda n: {"h": n}, odd_value),
    lambda inner: (
        st.builds(lambda tag, parts: {tag: parts}, st.sampled_from("tszdq"), st.lists(inner, max_size=4))
        | st.builds(
            lambda pairs: {"d": [list(p) for p in pairs]}, st.lists(st.tuples(inner, inner), max_size=3)
        )
    ),
    max_leaves=8,
)
arguments = st.builds(
    lambda args, kwargs: {"t": [{"t": args}, {"d": [[k, v] for k, v in kwargs.items()]}]},
    st.lists(packed, max_size=3),
    st.dictionaries(st.text(max_size=4), packed, max_size=2),
)
call = st.builds(
    lambda name, given, line: [name, given, line],
    st.sampled_from(["look", "fail", "frames", "nothing", ""]) | odd_value,
    arguments | packed,
    st.integers(-5, 99) | odd_value,
)
error = st.lists(
    st.tuples(
        st.text(max_size=5) | odd_value, odd_value, st.lists(st.tuples(odd_value, odd_value), max_size=2)
    ),
    max_size=3,
)


def framed(kind: bytes, content: Any) -> bytes:
    body = json.dumps(content).encode("ascii")
    return wire.HEADER.pack(kind, len(body)) + body


messages = st.one_of(
    st.builds(framed, st.just(wire.CALL), call),
    st.builds(framed, st.just(wire.PRINT), st.text(max_size=150) | odd_value),
    st.builds(framed, st.just(wire.RESULT), packed),
    st.builds(framed, st.just(wire.ERROR), error | odd_value),
    st.builds(framed, st.sampled_from([b"y", b"w", b"s", b"v", b"r", b"x", b"S", b"F", b"\0"]), odd_value),
    st.binary(max_size=40),
    st.builds(
        lambda kind, size, body: wire.HEADER.pack(kind, size) + body,
        st.sampled_from([b"c", b"o", b"d"]),
        st.integers(0, 2**32 - 1),
        st.binary(max_size=20),
    ),
    st.just(b'Stack (most recent call first):\n  File "<program>", line 3 in f\n'),
)


def held(sent: bytes, pieces: int, ended: list[Any]) -> tuple[Ending, Conversation]:
    """A conversation with a process that sends this in so many pieces, and then has ended as `ended` says."""
    host, program = socket.socketpair()
    report, zygote = socket.socketpair()
    functions: dict[str, Any] = {
        "look": lambda *a, **k: list(a),
        "fail": lambda *a, **k: 1 / 0,
        "frames": object,
    }

    def play() -> None:
        with program:
            program.settimeout(5)
            for start in range(0, len(sent), max(len(sent) // pieces, 1)):
                try:
                    program.sendall(sent[start : start + max(len(sent) // pieces, 1)])
                except OSError:
                    return

    player = threading.Thread(target=play)
    with host, report, zygote:
        zygote.send(json.dumps(ended).encode("ascii"))
        player.start()
        conversation = Conversation(host, report, functions, LIMITS, ())
        ending = conversation.run_program("x", {"video": object()}, "")
    player.join(10)
    return ending, conversation


@FUZZ
@given(
    st.lists(messages, max_size=12),
    st.integers(1, 20),
    st.tuples(st.integers(-64, 255), st.floats(0, 9), st.integers(0, 2**40)),
)
@example([framed(b"o", "")] * 3, 1, (0, 0.0, 0))
@example([framed(b"o", "x" * 201), framed(b"c", ["look", {"t": [{"t": []}, {"d": []}]}, 1])], 3, (0, 0.0, 0))
@example([framed(b"d", {"s": [{"d": []}]})], 1, (-40, 0.0, 0))
def test_every_conversation_has_an_ending(
    sent: list[bytes], pieces: int, ended: tuple[int, float, int]
) -> None:
    ending, conversation = held(READY + b"".join(sent), pieces, list(ended))
    result = outcome("x", ending, LIMITS, 0.0, conversation.calls, conversation.output, conversation.use)
    assert result.status in ("ok", "failed", "empty")
    assert (result.error is None) == (result.status != "failed")
    assert len(result.calls) <= LIMITS.calls
    assert len(result.output) <= LIMITS.output_bytes
    assert len(result.log) <= LIMITS.log_chars
    # Whatever is kept of it can be written to a file.
    kept = [result.log, result.output, repr(result.error), repr(result.calls), str(result.value)]
    "".join(kept).encode("utf-8")
