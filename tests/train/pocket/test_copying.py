"""How the pocket model learns to copy: the reply is what was read, and rows are as requested."""

from __future__ import annotations

import re

import numpy as np
import pytest

from videopro.train.pocket import architecture as checkpoint
from videopro.train.pocket import qa_pairs as drills
from videopro.train.pocket.batches import BatchEncoder
from videopro.train.pocket.qa_pairs import PocketExample, pick_count


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def test_words_are_repeated_unchanged(rng: np.random.Generator) -> None:
    request, reply = drills.repeat_line(rng, 9)
    assert request == f"Write it again: {reply}"
    assert len(reply.split()) == 9
    request, reply = drills.repeat_code(rng)
    assert request == f"Write it again:\n{reply}"


def test_the_two_words_after_one_are_those(rng: np.random.Generator) -> None:
    for _ in range(50):
        request, reply = drills.name_item(rng)
        line, _, question = request.partition("\n")
        words = line.split()
        after = question.removeprefix("Write the two words after ").removesuffix(".")
        assert words.count(after) == 1
        at = words.index(after)
        assert reply.split() == words[at + 1 : at + 3]


def test_a_line_is_filled_in_with_the_given_values(rng: np.random.Generator) -> None:
    for _ in range(50):
        request, reply = drills.fill_template(rng)
        *lines, task = request.split("\n")
        values = dict(line.split(": ", 1) for line in lines)
        shown = task.removeprefix("Fill in: ")
        assert set(re.findall(r"<(\w+)>", shown)) == set(values)
        for name, value in values.items():
            shown = shown.replace(f"<{name}>", value)
        assert shown == reply


def test_rows_of_words_need_no_padding(rng: np.random.Generator) -> None:
    encoder = BatchEncoder(checkpoint.build_tokenizer())
    batch = encoder.batch(drills.copying_rows(rng, 6, mixed=0.0))
    # Every word of the drills is one token, or few; rows differ by no more than words of several tokens.
    assert int((batch.exchange >= 0).sum()) > 0.8 * batch.exchange.numel()
    kinds = {
        row.exchanges[0][0].split(":")[0].split("\n")[0] for row in drills.copying_rows(rng, 60, mixed=1.0)
    }
    assert len(kinds) > 10  # lines to look in and lists to fill from, besides code to write again


def test_a_row_keeps_what_it_sees_and_gets_two_exchanges_more(rng: np.random.Generator) -> None:
    picture = np.zeros((4, 4, 3), dtype=np.uint8)
    row = drills.with_copying(rng, PocketExample([("What is it?", " red")], picture=picture))
    assert row.picture is picture
    assert row.exchanges[0] == ("What is it?", " red")
    assert len(row.exchanges) == 3
    request, reply = row.exchanges[1]
    assert request.endswith(reply)


def test_a_number_is_picked_by_its_letter(rng: np.random.Generator) -> None:
    for _ in range(50):
        request, reply = pick_count(rng)
        if not request.startswith("Pick"):
            continue
        number = re.match(r"Pick (\d)\.", request)
        assert number is not None
        assert f"\n{reply}. {number[1]}\n" in request
