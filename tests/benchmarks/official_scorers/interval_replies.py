"""Replies that name intervals: JSON and sentences as CG-Bench asks for, and times as Charades-STA does."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.benchmarks.official_scorers.replies import COUNT


def interval_replies(rng: random.Random, count: int = COUNT) -> list[tuple[str, list[list[float]]]]:
    """Replies that name intervals (CG-Bench), each with the clue of its question."""
    made = []
    for number in range(count):
        clue = _intervals(rng, rng.randint(1, 3))
        named = _near(rng, clue) if rng.random() < 0.7 else _intervals(rng, rng.randint(1, 4))
        made.append((_INTERVAL_FORMS[number % len(_INTERVAL_FORMS)](named), clue))
    return made


def _intervals(rng: random.Random, count: int) -> list[list[float]]:
    starts = [round(rng.uniform(0, 900), 1) for _ in range(count)]
    return [[start, round(start + rng.uniform(1, 40), 1)] for start in starts]


def _near(rng: random.Random, clue: Sequence[Sequence[float]]) -> list[list[float]]:
    moved = [[max(0.0, round(end + rng.uniform(-8, 8), 1)) for end in interval] for interval in clue]
    # Sometimes the clue itself, and a reversed or touching interval as it comes.
    return [list(interval) for interval in clue] if rng.random() < 0.2 else moved


_INTERVAL_FORMS: tuple[Callable[[list[list[float]]], str], ...] = (
    lambda own: f'```json\n{{"result": {own}}}\n```',
    lambda own: f'```json\n{{"result": {own}}}\n```\nThe clue is there.',
    lambda own: f'```json\n{{"result": {own[0]}}}\n```',
    lambda own: '```json\n{"result": []}\n```',
    lambda own: f'{{"result": {own}}}',
    lambda own: " and ".join(f"from {start} to {end} s" for start, end in own),
    lambda own: " and ".join(f"{start} - {end}" for start, end in own),
    lambda own: f"The clue begins at {own[0][0]} s.",
    lambda own: f'```json\n{{"result": "{own}"}}\n```',
    lambda own: f'```json\n{{"result": [{{"start": {own[0][0]}, "end": {own[0][1]}}}]}}\n```',
    lambda own: "I cannot tell.",
    lambda own: "",
    lambda own: f'```json\n{{"result": {[[int(start), int(end)] for start, end in own]}}}\n```',
    lambda own: f'```json\n{{"result": {own * 3}}}\n```',
    lambda own: f"```json\n{{broken {own}\n```",
)


def time_replies(rng: random.Random, count: int = COUNT) -> list[tuple[str, tuple[float, float]]]:
    """Replies that say when an event of a short video happens (Charades-STA), each with the annotated times.

    Three in four are about the annotated times, some of them reversed, and the others anywhere in the video.
    """
    made = []
    for number in range(count):
        start = round(rng.uniform(0, 60), 1)
        times = (start, round(start + rng.uniform(1, 20), 1))
        draw = rng.random()
        away = rng.uniform(0, 80) - start if draw > 0.75 else 0.0
        named = [max(0.0, round(time + away + rng.uniform(-3, 3), 1)) for time in times]
        own = _Times(*(reversed(named) if draw < 0.05 else named), *(round(time + 31.5, 1) for time in named))
        made.append((_TIME_FORMS[number % len(_TIME_FORMS)].format(**own.slots()), times))
    return made


@dataclass(frozen=True)
class _Times:
    """The times (s) of a reply, and of another event in it."""

    start: float
    end: float
    later: float
    last: float

    def slots(self) -> dict[str, object]:
        """The times as numbers (`start`), without digits (`start_s`), and as clocks, long and short."""
        own = vars(self)
        return {
            **own,
            **{f"{name}_s": int(time) for name, time in own.items()},
            **{f"{name}_clock": f"{int(time) // 60}:{int(time) % 60:02}" for name, time in own.items()},
            **{f"{name}_long": f"00:{int(time) // 60:02}:{int(time) % 60:02}" for name, time in own.items()},
        }


_TIME_FORMS = (
    "{start} - {end}", "{start}-{end}", "{start} – {end}", "{start} to {end}", "{start}to{end}",
    "{start_s}-{end_s}", "{start} — {end}", "{start} ~ {end}", "[{start}, {end}]", "({start}, {end})",
    "{start}, {end}", "{start} {end}", "{start}s - {end}s", "{start} s - {end} s", "{start_s}s - {end_s}s",
    "{start_s}-{end_s}s", "{start_s}s to {end_s}s.", "{start} seconds to {end} seconds",
    "{start} seconds - {end} seconds", "{start_s} seconds – {end_s} seconds", "From {start} to {end}.",
    "from {start_s} seconds to {end_s} seconds.", "Between {start} and {end} seconds.",
    "The event happens in the {start} - {end} seconds.", "The event happens in the {start}s - {end}s.",
    "The event 'person turns on 2 lights' happens in the {start} - {end} seonds.",
    "The event happens in the start time - end time. {start} - {end}",
    "A specific example is : 20.8 - 30.0 seconds. The event happens in {start} - {end} seconds.",
    "The event starts at {start} and ends at {end}.",
    "The event starts at {start_s} seconds and ends at {end_s} seconds.",
    "The event starts at {start} seconds.\nIt ends at {end} seconds.",
    "It starts at {start}s! It ends at {end}s!", "Start time: {start}\nEnd time: {end}",
    "Start time: {start} seconds\nEnd time: {end} seconds\n", "start time: {start_s}s, end time: {end_s}s",
    "**Start time:** {start_s}s\n**End time:** {end_s}s", '{{"start": {start}, "end": {end}}}',
    '```json\n{{\n  "start": {start},\n  "end": {end}\n}}\n```', "ends at {end} and starts at {start}",
    "The end time is {end}.\nThe start time is {start}.", "{start_clock} - {end_clock}",
    "{start_clock}-{end_clock}", "{start_clock} to {end_clock}", "{start_long} - {end_long}",
    "It happens from {start_clock} to {end_clock}, near the window.",
    "Start: {start_clock}\nEnd: {end_clock}", "It starts at {start_long} and ends at {end_long}.",
    "{start_clock} and {end_clock}", "At {start_clock}.", "{start_clock} - {end}", "From 1:02:03 to 1:02:10",
    "{start} - {end} and {later} - {last}",
    "First {later_s} - {last_s}.\nThe event happens at {start} - {end}.",
    "The clip shows 2 people.\nThey start at {start}.\nThey end at {end}.",
    "There are 3 scenes.\n{start} - {end}", "In 1995 a man starts a car at {start} - {end} s",
    "<think>{later} - {last}, or not?</think>\n{start} - {end}",
    "The event does not happen before {start}.\nIt is over at {end}.", "It happens tomorrow, 3 - 4 hours on",
    "at {start}", "{start}", "about {start} seconds", "The event starts at {start} seconds.",
    "after {start_s}s", "{start} - {start}", "0 - 0", "0.0 - 0.0 seconds", "-{start} - {end}",
    "{start}.{end}", ".5 - {end}", "1e1 - 2e1", "１２ - １５", "{start_s}:5 - {end_s}:7",
    "00:{start_s}:{end_s}",
    "frame 10 to frame 200", "1,000 - 2,000", "", "I cannot tell.", "The event never happens.",
    "It starts soon and ends late.", "...", "</s>", "No event - none", "The whole video",
)  # fmt: skip
