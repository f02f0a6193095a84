"""The budget of code and the limits of its form (docs/results/house.md), which the first tier keeps."""

from launch import code_budget
from perf.house import arrows, floors
from tests.support import ROOT

MOST_ROOMS = 22
MOST_FLOORS = 10
# python -m perf.house --arrows lists all. That there is no circle, lint-imports sees.
MOST_ARROWS = 148


def test_the_rooms_of_the_house_stay_few_and_in_order() -> None:
    counted = arrows(ROOT)
    assert 10 <= len({room for pair in counted for room in pair}) <= MOST_ROOMS
    assert 5 <= len(floors(counted)) <= MOST_FLOORS, floors(counted)
    assert 30 <= len(counted) <= MOST_ARROWS


def test_every_room_is_within_its_budget() -> None:
    found, allowed = code_budget.rooms(ROOT), code_budget.budget(ROOT)
    assert {room: lines for room, lines in found.items() if lines > allowed.get(room, 0)} == {}
    assert allowed.keys() == found.keys(), "no budget for a room that went"
