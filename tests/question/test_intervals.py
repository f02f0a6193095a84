"""Intervals in replies; what each says was written down by hand."""

import time
from pathlib import Path

import pytest

from videopro.question import extract_intervals


def test_intervals() -> None:
    lines = Path(__file__).with_name("intervals.txt").read_text(encoding="utf-8").split("\n")[:-1]
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    assert len(rows) > 50
    read = [
        (
            ";".join(f"{start:g}-{end:g}" for start, end in extract_intervals(reply.replace("\\n", "\n")))
            or "-",
            reply,
        )
        for _, reply in rows
    ]
    assert read == [(expected, reply) for expected, reply in rows]


@pytest.mark.parametrize("reply", ["", "9" * 400 + " - 5"])
def test_no_interval(reply: str) -> None:
    assert extract_intervals(reply) == ()


@pytest.mark.parametrize("part", ["1 ", "1-", "[1,", "start ", "from 1 for ", "1 minute ", "begin at 1 \n"])
def test_any_reply_is_read_in_time(part: str) -> None:
    start = time.process_time()
    extract_intervals(part * (100_000 // len(part)))
    assert time.process_time() - start < 5
