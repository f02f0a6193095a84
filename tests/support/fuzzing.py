"""What the fuzz tests share: how long they run, and texts and JSON that were written to break a reader.

`pytest tests/*/test_fuzz_*.py` is the short run, with the same examples each time. In a long one that many
new examples a test are drawn:

    VIDEOPRO_FUZZ=2500 pytest tests/*/test_fuzz_*.py --hypothesis-seed=7

Several such runs with seeds of their own are better than one of many examples: Hypothesis keeps in memory
what it has tried.
"""

import copy
import json
import os
from collections.abc import Sequence
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

_LONG = int(os.environ.get("VIDEOPRO_FUZZ", "0"))

FUZZ = settings(
    max_examples=_LONG or 50,
    derandomize=not _LONG,
    database=None,
    deadline=20_000 if _LONG else None,
    suppress_health_check=list(HealthCheck),
)

# Characters of a piece of a text; Hypothesis keeps thousands of texts.
_LONGEST = 10_000

ODD_WORDS = (
    *("", " ", "\0", "\x0b", "\x85", "\u2028", "\ufeff", "\ud83d", "\udc00", "\U0001f600", "e\u0301"),
    *("\uff21", "null", "NaN", "-Infinity", "1e999", "-1", "0", "9" * 400, "9" * 5000, "n" * 300),
    *("\\", '"', "'", "../.."),
)
ODD_VALUES = (
    *(None, True, False, 0, -1, 1, 2**63, 10**300, 10**400, -0.0, 1e308, float("nan"), float("inf")),
    *(float("-inf"), "", [], {}, [[]], [None], {"": None}, [1, 2], ["A"], "A"),
)

odd_text = st.one_of(st.sampled_from(ODD_WORDS), st.text(max_size=8))
odd_tree = st.recursive(
    st.none() | st.booleans() | st.integers() | odd_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(odd_text, inner, max_size=3),
    max_leaves=5,
)
# Copied: what is drawn may be changed further.
odd_constant = st.sampled_from(ODD_VALUES).map(copy.deepcopy)
odd_value = st.one_of(odd_constant, odd_text, st.integers(), st.floats(), odd_tree)


def repeated(units: Sequence[str]) -> st.SearchStrategy[str]:
    """Texts out of units, some of them many times over."""
    unit, times = st.sampled_from(units), st.sampled_from((2, 30, 700))
    many = st.builds(lambda unit, times: (unit * times)[:_LONGEST], unit, times)
    piece = st.one_of(unit, odd_text, many)
    return st.lists(piece, max_size=12).map("".join)


def places(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths to all parts of a value, itself included."""
    found = [here]
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inner:
        found += places(part, (*here, key))
    return found


@st.composite
def mutated(draw: st.DrawFn, good: Any) -> Any:
    """A good value with up to three of its parts replaced, left out or given another name."""
    value = copy.deepcopy(good)
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.sampled_from(places(value)))
        if not place:
            value = draw(odd_value)
            continue
        holder = value
        for key in place[:-1]:
            holder = holder[key]
        kind = draw(st.sampled_from(("replace", "leave out", "rename", "repeat", "wrap")))
        part = holder[place[-1]]
        if kind == "replace":
            holder[place[-1]] = draw(odd_value)
        elif kind == "wrap":
            holder[place[-1]] = draw(st.sampled_from(([part], {"a": part}, str(part))))
        elif kind == "repeat" and isinstance(holder, list):
            holder += [part] * draw(st.sampled_from((1, 30)))
        else:
            del holder[place[-1]]
            if kind == "rename" and isinstance(holder, dict):
                holder[draw(odd_text)] = part
    return value


@st.composite
def json_bytes(draw: st.DrawFn, values: st.SearchStrategy[Any]) -> bytes:
    """A value as JSON, at times cut off, nested deep or with bytes that are not UTF-8."""
    text = json.dumps(draw(values), ensure_ascii=draw(st.booleans()))
    data = text.encode("utf-8", "surrogatepass")
    kind = draw(st.sampled_from(("whole",) * 6 + ("cut", "deep", "bytes", "twice", "digits")))
    if kind == "cut":
        return data[: draw(st.integers(0, len(data)))]
    if kind == "deep":
        return data.replace(b"null", b"[" * 5000, 1) if b"null" in data else b"[" * 3000 + data
    if kind == "bytes":
        at = draw(st.integers(0, len(data)))
        return data[:at] + draw(st.binary(max_size=3)) + data[at:]
    if kind == "twice":
        return data + data
    return data.replace(b"1", b"1" * draw(st.sampled_from((300, 400, 5000))), 1) if kind == "digits" else data
