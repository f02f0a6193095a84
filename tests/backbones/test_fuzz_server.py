"""Fuzz tests of what reads a server's replies. Long run: see `tests.support.fuzzing`."""

import math
import time
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from tests.support.fuzzing import FUZZ, json_bytes, mutated
from tests.support.server_cases import COLOURS
from tests.support.stub_server import completion, entry
from videopro.backbones.server.replies import (
    Completion,
    InvalidReply,
    read_choice,
    read_completion,
    read_generation,
)
from videopro.errors import BackboneError

GOOD = completion(
    "A",
    [entry("A", -0.2, [("A", -0.2), ("B", -1.7)]), entry(".", -0.1), entry("<|im_end|>", -0.3)],
    message={"reasoning_content": None, "tool_calls": []},
    choice={"token_ids": [32, 13, 7], "stop_reason": None},
)
bodies = json_bytes(mutated(GOOD))


def check_choice(reply: Completion) -> None:
    answer = read_choice(reply, COLOURS.letters, "server")
    assert 0 <= answer.confidence <= 1
    assert all(0 <= p <= 1 for p in answer.letters.values())
    assert answer.letter in (*COLOURS.letters, None)
    assert 0 <= answer.tokens_in < 2**50
    answer.raw.encode()


def check_generation(reply: Completion) -> None:
    written = read_generation(reply, "server", 9)
    assert all(not math.isnan(logprob) and logprob <= 0 for logprob in written.logprobs)
    written.text.encode()


@FUZZ
@given(bodies, st.sampled_from((check_choice, check_generation)))
def test_a_body_is_an_error_or_a_reply_that_can_be_scored_and_written(
    body: bytes, check: Callable[[Completion], None]
) -> None:
    start = time.process_time()
    try:
        check(read_completion(body))
    except (InvalidReply, BackboneError) as error:
        str(error).encode()
    assert time.process_time() - start < 5
