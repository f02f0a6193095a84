"""What VideoAgent's adapter is trained on: the teacher says only what captions say, in the method's forms."""

import re
from dataclasses import replace

import numpy as np
import pytest

from tests.support.drawn_world import AFTER, BALL, COLOR, FACT, MOVE, asked, drawn
from videopro.backbones import GenerateRequest, Sampling, load_backbone
from videopro.methods.agents import parse_reply
from videopro.methods.videoagent import Timeline, descriptions_of, prediction_of
from videopro.methods.videoagent.prompts import Confidence
from videopro.pocket.drawing import Actor
from videopro.question import Question, prompts
from videopro.train.pocket.agents.captions import RIGHT, Caption, drawn_caption
from videopro.train.pocket.agents.videoagent import (
    CaptionSearch,
    evidence_of,
    query_of,
    segments_to_search,
    state_rows,
)
from videopro.train.pocket.agents.views import DrawnVideo
from videopro.train.pocket.agents.witness import Witness
from videopro.video import Frame

BEFORE = asked("before", "Which place comes right before the market?", ("cave", "beach"), "B", (0, 33))
SIGN = asked("sign", "What does the sign at the market say?", ("OPEN", "EXIT"), "A", (15, 33))
COUNT = asked("count", "How many times is the beach shown?", ("2", "3"), "A", (0, 15), (47, 70))
WEATHER = asked("weather", "What is the weather in the video?", ("rainy", "sunny"), "B", (0, 70))
MAIN = asked("main_place", "Which place is shown most of the time?", ("lake", "beach"), "B", (0, 70))


def caption(time: float, place: str, actor: Actor | None = None, weather: str = "sunny") -> Caption:
    return Caption(time, place, weather, actor)


def market(time: float, **words: str) -> Caption:
    return caption(time, "market", replace(BALL, **words))


BEACH, LAKE, LATER = caption(8.5, "beach"), caption(43.5, "lake"), caption(61.5, "beach")
SEEN = [BEACH, market(26.5), LAKE, LATER]
"""Four frames spread over 70 s: the midpoints of its quarters, 8.75, 26.25, 43.75 and 61.25 s, are in these
seconds."""

MARKETS = [market(24.5), market(28.5)]


# ---- what captions tell ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("witness", "captions", "reason", "option", "confidence"),
    [
        (COLOR, SEEN, "The market shows a red ball that slides.", "red", 3),
        (COLOR, [BEACH, LAKE, LATER], "The market is not shown.", "", 1),
        # Mistaken captions are believed, unless they say what is no option, or most say something else.
        (COLOR, [market(26.5, color="blue")], "The market shows a blue ball that slides.", "blue", 3),
        (COLOR, [market(26.5, color="green")], "The market shows a green ball that slides.", "", 2),
        (COLOR, [market(20.5, color="blue"), *MARKETS], "The market shows a red ball that slides.", "red", 3),
        (MOVE, SEEN, "The market shows a red ball that slides.", "slides", 3),
        # 17 s lie between the market and the lake, in which there may be another scene; 7 s are too few.
        (AFTER, SEEN, "The market, after it the lake.", "lake", 2),
        (AFTER, [market(30.5), caption(37.5, "lake")], "The market, right after it the lake.", "lake", 3),
        (AFTER, [BEACH, market(26.5)], "The market is shown.", "", 2),
        (BEFORE, SEEN, "The market, before it the beach.", "beach", 2),
        (SIGN, SEEN, "The market is shown.", "", 2),
        (COUNT, SEEN, "The beach is shown 2 times or more.", "2", 2),
        # Every 7 s, the beach until 14 s and from 49 s: no visit can be missed.
        (
            COUNT,
            [caption(7.0 * n, "beach" if n in (1, 2, 7, 8, 9) else "lake") for n in range(1, 10)],
            "The beach is shown 2 times.",
            "2",
            3,
        ),
        (WEATHER, SEEN, "It is sunny.", "sunny", 3),
        (MAIN, SEEN, "Most frames show the beach.", "beach", 3),
        (FACT, SEEN, "No frame shows it.", "", 1),
    ],
)  # fmt: skip
def test_the_teacher_says_what_captions_say(
    witness: Witness, captions: list[Caption], reason: str, option: str, confidence: int
) -> None:
    says = evidence_of(witness, captions, 70.0)
    assert (says.reason, says.option, says.confidence) == (reason, option, confidence)


@pytest.mark.parametrize(
    ("witness", "captions", "numbers", "query"),
    [
        # Frames split the video at 8.5, 26.5, 43.5 and 61.5 s; the market is between parts 2 and 3.
        (BEFORE, SEEN, [2], "the market"),
        (AFTER, SEEN, [3], "the market"),
        (SIGN, SEEN, [2, 3], "the sign at the market"),
        # The middle parts have 17, 16 and 17 unseen seconds, the first and the last eight.
        (COUNT, SEEN, [2, 3, 4], "the beach"),
        # Part 2, from 8.5 to 43.5 s, is the widest; that it holds the market is not known.
        (COLOR, [BEACH, LAKE, LATER], [2], "the ball at the market"),
        (COLOR, [LATER], [1], "the ball at the market"),
        (FACT, SEEN, [2, 3, 4], "the whole video"),
    ],
)
def test_the_teacher_looks_where_captions_leave_room(
    witness: Witness, captions: list[Caption], numbers: list[int], query: str
) -> None:
    segments = Timeline(70.0, 1.0).segments([int(each.time) for each in captions])
    assert segments_to_search(witness, captions, segments) == numbers
    assert query_of(witness) == query


def test_a_search_begins_with_the_methods_frames_and_finds_the_place() -> None:
    """Of 16 frames the first eight, every 8.75 s. Those at 21.5 and 30.5 s show the market; the sign is
    looked for beside them, in the parts before 21.5 s and after 30.5 s."""
    search = CaptionSearch(np.random.default_rng(0), drawn(), 16, miss=0.0)
    assert [each.time for each in search.captions] == [4.5, 13.5, 21.5, 30.5, 39.5, 48.5, 56.5, 65.5]
    search.look(SIGN)
    found = {each.time for each in search.captions} - {4.5, 13.5, 21.5, 30.5, 39.5, 48.5, 56.5, 65.5}
    assert all(15 < time < 33 for time in found)
    full = CaptionSearch(np.random.default_rng(0), drawn(), 4, miss=0.0)
    for _ in range(4):
        if full.segments:
            full.look(COUNT)
    assert len(full.seen) == 4
    assert full.segments == []


# ---- rows ------------------------------------------------------------------------------------------------


def test_rows_are_in_the_methods_forms() -> None:
    """Segment numbers are offered ones: the schema refuses others."""
    forms = {"predict": 0, "reflect": 0, "search": 0, "known": 0}
    for seed in range(12):
        (row,) = state_rows(np.random.default_rng(seed))
        assert row.frames is None
        for said, reply in row.exchanges:
            assert said.startswith("A video lasts ")
            options = dict(re.findall(r"^([A-Z])\. (.*)$", said, re.MULTILINE))
            if "Too little is known to answer." in said:
                forms["search"] += 1
                parts = said.partition("Parts of the video")[2]
                numbers = [int(n) for n in re.findall(r"^(\d+): ", parts, re.MULTILINE)]
                found = parse_reply(reply, descriptions_of(numbers)).frame_descriptions
                assert 1 <= len(found) <= 4
            elif "Your answer: " in said:
                forms["reflect"] += 1
                parse_reply(reply, Confidence)
            elif "JSON" not in said:
                forms["known"] += 1
                assert reply in options if options else reply.startswith(" ")
            else:
                forms["predict"] += 1
                parse_reply(reply, prediction_of(Question("Which?", tuple(options.values()))))
    assert min(forms.values()) >= 10


def test_rows_are_a_pure_function_of_the_seed() -> None:
    first, again, other = (state_rows(np.random.default_rng(seed))[0].exchanges for seed in (3, 3, 4))
    assert first == again
    assert first != other


# ---- captions --------------------------------------------------------------------------------------------


def test_captions_are_as_mistaken_as_their_rates_say() -> None:
    """The drawn video is sunny, and a red ball slides at its market."""
    rng = np.random.default_rng(0)
    captions = [drawn_caption(rng, drawn(), 20.5) for _ in range(2000)]
    actors = [each.actor for each in captions if each.actor is not None]
    assert len(actors) == 2000
    assert {each.place for each in captions} == {"market"}
    rates = {
        "weather": np.mean([each.weather == "sunny" for each in captions]),
        "color": np.mean([actor.color == "red" for actor in actors]),
        "shape": np.mean([actor.shape == "ball" for actor in actors]),
        "move": np.mean([actor.move == "slides" for actor in actors]),
    }
    # Three standard errors of the mean of 2,000 are at most 0.034.
    assert rates == pytest.approx(dict(RIGHT), abs=0.034)
    assert drawn_caption(rng, drawn(), 5.0).text.startswith("Nothing moves at the beach. It is ")


def test_the_pocket_model_writes_such_captions() -> None:
    """A few of the frames that `RIGHT` was measured on: the form holds, and the places are right."""
    requests, places = [], []
    for number in range(900_000, 900_006):
        video = DrawnVideo(number)
        for time in (10.5, 30.5):
            requests.append(GenerateRequest([Frame(video.frames([time])[0], time)], prompts.caption()))
            places.append(video.scene_at(time).place)
    model = load_backbone("pocket")
    replies = [reply.text.strip() for reply in model.generate_batch(requests, Sampling(64))]
    model.close()
    form = re.compile(r"(?:A \w+ \w+ \w+|Nothing moves) at the (\w+)\. It is \w+\.")
    read = [form.fullmatch(reply) for reply in replies]
    right = sum(match is not None and match[1] == place for match, place in zip(read, places, strict=True))
    assert right >= 11
