"""The stories of simlib and their questions, the libraries that rows draw, and the oracle's routes against
what the real executor gets."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from videopro.executor import parse_program
from videopro.simlib import (
    KINDS,
    MEASURED,
    OPERATIONS,
    TESTS,
    Channel,
    Library,
    Oracle,
    Row,
    Story,
    adaptive_row,
    answer,
    draw_rows,
    make_story,
    shortcuts,
)
from videopro.simlib.asking import is_right
from videopro.simlib.operations import HELD_OUT_NAMES, HELD_OUT_WORDINGS, UNSEEN
from videopro.simlib.routes import ROUTES, expected
from videopro.simlib.story import Asked
from videopro.simlib.training import ARMS, training_row

STORIES = [make_story("val", number) for number in range(30)]


def asked_of(kind: str) -> Iterator[tuple[Story, Asked]]:
    return ((story, each) for story in STORIES for each in story.questions if each.kind == kind)


def option(asked: Asked) -> str:
    return asked.question.choices["ABCD".index(asked.answer)]


def test_answers_are_what_the_script_shows() -> None:
    for kind in ("color", "shape", "move"):
        for story, asked in asked_of(kind):
            (place,) = re.findall(r"at the (\w+)|At the (\w+)", asked.question.text)
            (scene,) = [scene for scene in story.script.scenes if scene.place in place]
            assert option(asked) == getattr(scene.actor, kind)
    for story, asked in asked_of("after"):
        at = [scene.place for scene in story.script.scenes].index(asked.slot)
        assert story.script.scenes[at + 1].place == option(asked)
    for story, asked in asked_of("count"):
        assert Counter(scene.place for scene in story.script.scenes)[asked.slot] == int(option(asked))
    for story, asked in asked_of("narration"):
        assert f"{asked.slot} a {option(asked)}." in [line.text for line in story.script.lines]


def test_every_kind_is_asked_with_four_options_of_which_one_is_right() -> None:
    kinds = Counter(asked.kind for story in STORIES for asked in story.questions)
    assert set(kinds) == set(KINDS)
    assert min(kinds.values()) >= len(STORIES) * 0.6
    for story in STORIES:
        assert len(story.by_text) == len(story.questions)
        for asked in story.questions:
            assert len({*asked.question.choices}) == 4


def test_counting_solves_no_question_that_needs_a_place() -> None:
    """The share that each shortcut gets, over 150 stories; 3 standard errors of chance are 0.11."""
    table = shortcuts("val", 150)
    # The main place, the first and the last are what the whole video shows.
    located = set(KINDS) - {"weather", "main_place", "first", "last"}
    worst = {kind: max(table[kind].values()) for kind in located}
    assert {kind: share for kind, share in worst.items() if share > 0.36} == {}


@pytest.mark.parametrize("arm", ARMS)
def test_training_has_nothing_that_is_held_out(arm: str) -> None:
    for number in range(12):
        for progress in (0.0, 0.5, 1.0):
            row = training_row(arm, 3, number, progress)
            names = row.library.names
            assert not {*names} & {*UNSEEN}
            assert not {*names.values()} & {*HELD_OUT_NAMES}
            assert not {offer.wording for offer in row.library.offers} & {*HELD_OUT_WORDINGS}


def test_tests_have_what_they_are_about() -> None:
    rows = {test: list(draw_rows(test, "val", 8)) for test in TESTS}
    offers = {test: [offer for row in rows[test] for offer in row.library.offers] for test in TESTS}
    assert all(offer.name == offer.key for test in ("fixed", "dropped") for offer in offers[test])
    assert all(offer.name in HELD_OUT_NAMES for test in ("renamed", "both") for offer in offers[test])
    assert all(offer.wording in HELD_OUT_WORDINGS for offer in offers["wordings"])
    assert len(offers["both"]) < 0.8 * len(offers["renamed"])
    for test in ("new", "new_only"):
        for row in rows[test]:
            assert row.asked
            assert {f"get_{asked.kind}" for asked in row.asked} <= {*UNSEEN} <= {*row.library.names}
    # Nothing else gives more than a guess or a chance look.
    for row in rows["new_only"]:
        keys = {*row.library.names} - {*UNSEEN}
        for asked in row.asked:
            others = [c.accuracy for c in expected(MEASURED)[asked.kind] if c.route.needs <= keys]
            assert max(others, default=0.0) < 0.5


@pytest.mark.parametrize("kind", KINDS)
def test_a_routes_expected_accuracy_is_what_the_executor_gets(kind: str) -> None:
    """Each route of a kind, in the real sandbox, over stories and over the errors of several channels."""
    errors = Channel(scale=2.0)
    got: dict[str, list[bool]] = defaultdict(list)
    told: dict[str, list[float]] = defaultdict(list)
    for story, asked in list(asked_of(kind))[:10]:
        for choice in expected(errors)[kind]:
            row = Row(story, Library.fixed(sorted(choice.route.needs)), (asked,), (choice,))
            for seed in range(4):
                channel = replace(errors, seed=seed)
                (result,) = answer(row, Oracle(row), channel)
                assert result.rounds[0].execution.status == "ok", result.rounds[0].execution.error
                got[choice.route.body] += is_right(row, [result])
                told[choice.route.body].append(choice.route.accuracy(story, asked, channel))
    assert set(got) == {route.body for route in ROUTES[kind]}
    for body, right in got.items():
        mean = sum(told[body]) / len(right)
        # Four standard errors.
        spread = 4 * (sum(p * (1 - p) for p in told[body]) ** 0.5) / len(right)
        assert sum(right) / len(right) == pytest.approx(mean, abs=spread + 1e-9), body


def test_worlds_and_seeds_share_neither_stories_nor_libraries() -> None:
    drawn = [
        [(row.story.name, row.library.offers) for row in draw_rows("both", world, 3, seed=seed)]
        for world in ("val", "test")
        for seed in (0, 1)
    ]
    adaptive = [
        [(row.story.name, row.library.offers) for row in (adaptive_row(world, seed, at) for at in range(3))]
        for world in ("train", "val", "test")
        for seed in (0, 1)
    ]
    for rows in (drawn, adaptive):
        for which in (0, 1):
            assert len({each[which] for row in rows for each in row}) == 3 * len(rows)


def test_nothing_is_worse_than_a_guess_and_nothing_is_certain() -> None:
    # Half of the unread signs are wrong, so three times as many would be one and a half.
    assert Channel(scale=3.0).error("sign", read=False) == 0.75
    assert Channel(scale=3.0).error("topic") == pytest.approx(0.63)
    (asked, *_) = STORIES[0].questions
    replies = [
        Channel().reply(np.random.default_rng(number), asked, asked.question.choices, 0.0)
        for number in range(300)
    ]
    assert max(each.confidence for each in replies) == 0.999


def test_confidences_say_something_unless_they_are_told_not_to() -> None:
    """Calibrated, and higher for right answers; in the other arm the same for both."""
    means = {}
    for tells in (True, False):
        channel = Channel(tells=tells)
        right, sure = [], []
        for row in draw_rows("both", "val", 60 if tells else 30, channel=channel):
            results = answer(row, Oracle(row), channel)
            right += is_right(row, results)
            sure += [result.final.confidence for result in results]
        means[tells] = [
            sum(c for c, ok in zip(sure, right, strict=True) if ok == which) / right.count(which)
            for which in (True, False)
        ]
        if tells:
            assert sum(sure) / len(sure) == pytest.approx(sum(right) / len(right), abs=0.05)
    assert means[True][0] - means[True][1] > 0.2
    assert means[False][0] == pytest.approx(means[False][1], abs=0.08)


def test_modules_are_pure_and_know_their_library() -> None:
    """The same call gives the same answer, and one name is another operation in another library."""
    story, asked = next(asked_of("color"))
    channel = Channel(scale=3.0)
    best = expected(channel)["color"][:1]
    row = Row(story, Library.fixed(), (asked,), best)
    assert answer(row, Oracle(row), channel)[0].final == answer(row, Oracle(row), channel)[0].final
    offers = [replace(offer, name="grab_moss") for offer in Library.fixed(("get_color",)).offers]
    first = Row(story, Library(tuple(offers)), (asked,), best)
    other = next(each for each in story.questions if each.kind == "move" and each.slot)
    offers = [replace(offer, name="grab_moss") for offer in Library.fixed(("get_move",)).offers]
    second = Row(story, Library(tuple(offers)), (other,), expected(channel)["move"][:1])
    perfect = Channel(scale=0.0)
    for each in (first, second):
        assert is_right(each, answer(each, Oracle(each), perfect)) == [True]


def test_a_program_that_calls_what_is_absent_fails_readably() -> None:
    story, asked = next(asked_of("color"))
    whole = Row(story, Library.fixed(), (asked,), expected(MEASURED)["color"][1:2])
    (result,) = answer(replace(whole, library=Library.fixed(("get_color",))), Oracle(whole))
    execution = result.rounds[0].execution
    assert execution is not None
    assert execution.error is not None
    assert execution.error.type == "NameError"


def test_replies_are_programs() -> None:
    story = STORIES[0]
    for asked in story.questions:
        for route in ROUTES[asked.kind]:
            program = parse_program(route.reply(asked, Library.fixed()))
            assert program.faults == ()
            called = re.findall(r"(get_\w+|query_\w+|extract_frames|trim_frames|run_ocr)\(", program.code)
            assert re.findall(r"\w+_\w+", program.planning) == called
    assert {key for routes in ROUTES.values() for route in routes for key in route.needs} == {*OPERATIONS}
