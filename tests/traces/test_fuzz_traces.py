"""Fuzz tests of what reads trace lines. Long run: see `tests.support.fuzzing`."""

import dataclasses
import json
from collections.abc import Mapping
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from hypothesis import given

from tests.support.fuzzing import FUZZ, json_bytes, mutated
from videopro.errors import RunError
from videopro.traces import SCHEMA, Trace, evidence
from videopro.traces.scoring import GROUP_SEPARATOR

VALUES: dict[Any, Any] = {str: "ö", int: 1, float: 0.5, bool: True, object: "any", Any: "any"}


def filled(kind: Any) -> Any:
    """A value of a type in which no field is empty."""
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(**{field.name: filled(hints[field.name]) for field in dataclasses.fields(kind)})
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return filled(parts[0])
    if origin is Literal:
        return parts[0]
    if origin is tuple:
        return tuple(filled(part) for part in parts if part is not ...)
    if origin in (Mapping, dict):
        return {filled(parts[0]): filled(parts[1])}
    return VALUES[kind]


TRACE = dataclasses.replace(
    filled(Trace), schema=SCHEMA, selected=0, groups={"family": f"count{GROUP_SEPARATOR}order"}
)
GOOD = json.loads(TRACE.to_line())


def test_the_trace_that_is_changed_has_every_field() -> None:
    line = TRACE.to_line()
    assert Trace.from_line(line) == TRACE
    assert line.isascii()
    assert line.index(b"\n") == len(line) - 1
    assert all(GOOD[field.name] for field in dataclasses.fields(Trace) if field.name != "selected")


@FUZZ
@given(json_bytes(mutated(GOOD)))
def test_a_line_is_a_trace_or_a_run_error(line: bytes) -> None:
    try:
        trace = Trace.from_line(line)
    except RunError as error:
        message = str(error)
        assert len(message) < 2000
        return
    assert Trace.from_line(trace.to_line()) == trace
    # What every report does.
    assert trace.frames_seen >= 0
    assert all(piece["round"] == trace.selected for piece in evidence(trace, (64, 64)))
    trace.is_right(trace.official)
    assert trace.selected is None or trace.rounds[trace.selected].raw is not None
    sum(trace.cost.stages.values())
    for round in trace.rounds:
        if round.execution is not None:
            assert all(isinstance(p, float) for p in round.execution.answer.letters.values())
