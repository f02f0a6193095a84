"""The budget of code, which the first tier keeps."""

from __future__ import annotations

from launch import code_budget
from tests.support import ROOT


def test_every_room_is_within_its_budget() -> None:
    found, allowed = code_budget.rooms(ROOT), code_budget.budget(ROOT)
    assert {room: lines for room, lines in found.items() if lines > allowed.get(room, 0)} == {}
    assert allowed.keys() == found.keys(), "no budget for a room that went"
