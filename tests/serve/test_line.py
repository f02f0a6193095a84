"""The line in front of the model: at most so many at a time, client after client, and everybody knows their
place."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from tests.support.colours import wait_for
from videopro.serve.line import FairLine, Ticket
from videopro.serve.problems import Problem


class Turns:
    """Tickets that stay where they are until they are told to end."""

    def __init__(self, line: FairLine) -> None:
        self.line = line
        self.began: list[str] = []
        self.places: dict[str, list[int]] = {}
        self.tickets: dict[str, Ticket] = {}
        self._ends: dict[str, threading.Event] = {}

    def enter(self, client: str, name: str) -> None:
        self._ends[name] = threading.Event()
        self.places[name] = []

        def start() -> None:
            self.began.append(name)
            assert self._ends[name].wait(20)

        self.tickets[name] = self.line.enter(client, start, self.places[name].append)

    def end(self, name: str, then: Callable[[], bool]) -> None:
        self._ends[name].set()
        wait_for(then)


def test_from_client_to_client_the_first_question_goes_next() -> None:
    turns = Turns(FairLine(1, 100))
    turns.enter("many", "m1")
    wait_for(lambda: turns.began == ["m1"])
    for name in ("m2", "m3", "m4"):
        turns.enter("many", name)
    turns.enter("one", "o1")
    turns.enter("two", "t1")
    turns.enter("two", "t2")
    # By hand: the clients' turns are many, one, two; then many and two again; then many.
    order = ["m1", "m2", "o1", "t1", "m3", "t2", "m4"]
    places = {name: told[-1] for name, told in turns.places.items() if told}
    assert places == {name: place for place, name in enumerate(order) if place}
    assert turns.places["m4"] == [3, 4, 5, 6]  # moved back by those who had not had their turn

    for number, name in enumerate(order[:-1], start=2):
        turns.end(name, lambda number=number: len(turns.began) == number)  # type: ignore[misc]
    assert turns.began == order
    assert turns.places["t2"] == [5, 4, 3, 2, 1]
    turns.end("m4", lambda: turns.line.running == 0)


def test_who_leaves_makes_room_and_too_many_are_refused() -> None:
    turns = Turns(FairLine(2, 2))
    for name in "abcd":
        turns.enter("client", name)
    wait_for(lambda: sorted(turns.began) == ["a", "b"])
    with pytest.raises(Problem, match="2 questions are waiting already; try again") as refused:
        turns.enter("client", "e")
    assert (refused.value.status, refused.value.headers) == (429, {"Retry-After": "10"})
    # Who has none in the line is let in, within bounds.
    for name in "fg":
        turns.enter(name, name)
    for client in ("f", "h"):
        with pytest.raises(Problem, match="4 questions are waiting already"):
            turns.enter(client, "i")
    for name in "fg":
        assert turns.line.leave(turns.tickets[name])
    assert turns.line.leave(turns.tickets["c"])
    assert not turns.line.leave(turns.tickets["c"]), "gone"
    assert not turns.line.leave(turns.tickets["a"]), "its turn has come"
    # Behind the first of each other client while these were there.
    assert turns.places["d"] == [2, 3, 4, 3, 2, 1]
    assert (turns.line.running, turns.line.waiting) == (2, 1)
    turns.end("a", lambda: turns.began[-1] == "d")
    turns.end("b", lambda: turns.line.running == 1)
    turns.end("d", lambda: turns.line.wait_until_idle(20))


def test_a_question_that_breaks_frees_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = threading.Event()
    monkeypatch.setattr(threading, "excepthook", lambda about: shown.set())
    line, is_done = FairLine(1, 0), threading.Event()

    def broken() -> None:
        raise SystemExit

    line.enter("a", broken)
    assert line.wait_until_idle(20)
    assert shown.wait(20)
    line.enter("a", is_done.set)
    assert is_done.wait(20)
