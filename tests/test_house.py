"""How the code is built stays within limits (docs/architecture.md), and perf/house.py counts it right."""

from __future__ import annotations

from perf.house import arrows, floors
from tests.support import ROOT

MOST_ROOMS = 21
MOST_FLOORS = 10
# python -m perf.house --arrows lists all. That there is no circle, lint-imports sees.
MOST_ARROWS = 137


def test_the_rooms_of_the_house_stay_few_and_in_order() -> None:
    counted = arrows(ROOT)
    assert 10 <= len({room for pair in counted for room in pair}) <= MOST_ROOMS
    assert 5 <= len(floors(counted)) <= MOST_FLOORS, floors(counted)
    assert 30 <= len(counted) <= MOST_ARROWS
