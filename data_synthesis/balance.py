"""How many rows of a kind a dataset gets, and which of them.

Rows beyond a cap or a total are left out evenly: among the rules R1 to R4 (of prompts: among their kinds),
and within each among the families of questions. What one of them lacks goes to the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from videopro.data_synthesis.datasets import Datasets
from videopro.data_synthesis.rules import RULES
from videopro.data_synthesis.split import drawn
from videopro.errors import ConfigError

Row = Mapping[str, Any]

SFT_KINDS = ("native", "program", "plan_program", "bug_fix", "native_refinement", "program_refinement")
GRPO_KINDS = ("plan", "bug_fix", "native_refinement", "program_refinement")
MODES = {"mode_native": "native", "mode_program": "program"}
"""The names under which a cap is put on the rows of a mode: of an SFT row that of its reply, of a GRPO row
the oracle mode of its question."""


@dataclass(frozen=True)
class RowLimits:
    """The limits of one dataset."""

    rows: int | None = None
    """Of the whole dataset; None: all."""
    caps: Mapping[str, int] = field(default_factory=dict)
    """By kind, by rule (R1 to R4) or by mode (MODES)."""

    def check(self, name: str, kinds: Sequence[str]) -> None:
        """Raise ConfigError, naming the settings `{name}_rows` and `{name}_caps`, for invalid limits."""
        if self.rows is not None and self.rows < 1:
            raise ConfigError(
                f"{name}_rows is {self.rows}; it must be at least 1 (leave it out for all rows)"
            )
        names = (*kinds, *RULES, *MODES)
        for key, cap in self.caps.items():
            if key not in names:
                raise ConfigError(f"{name}_caps: unknown kind {key!r}; it must be one of {', '.join(names)}")
            if isinstance(cap, bool) or not isinstance(cap, int) or cap < 0:
                raise ConfigError(f"{name}_caps: {key} is {cap!r}; it must be a whole number, 0 or more")


def limited(datasets: Datasets, sft: RowLimits, grpo: RowLimits, *, seed: int) -> Datasets:
    """The datasets within these limits, in the same order; rows that are left out are counted as
    rejected."""
    rejected = Counter(datasets.rejected)
    kept_sft = _limited(datasets.sft, sft, "sft", seed, rejected)
    kept_grpo = _limited(datasets.grpo, grpo, "grpo", seed, rejected)
    return Datasets(kept_sft, kept_grpo, rejected)


def _limited(
    rows: Sequence[dict[str, Any]], limits: RowLimits, name: str, seed: int, rejected: Counter[str]
) -> list[dict[str, Any]]:
    accepted = list(rows)
    for key, cap in limits.caps.items():
        chosen = even([row for row in accepted if _counts_for(row, key)], cap, [_family], seed)
        ids = {row["id"] for row in chosen}
        left = [row for row in accepted if not _counts_for(row, key) or row["id"] in ids]
        _count(rejected, f"{name}: beyond the cap of {key}", len(accepted) - len(left))
        accepted = left
    if limits.rows is not None:
        ids = {row["id"] for row in even(accepted, limits.rows, [rule_of, _family], seed)}
        left = [row for row in accepted if row["id"] in ids]
        _count(rejected, f"{name}: beyond {name}_rows", len(accepted) - len(left))
        accepted = left
    return accepted


def even(
    rows: Sequence[Row], count: int, levels: Sequence[Callable[[Row], Hashable]], seed: int
) -> list[Row]:
    """`count` of the rows, as evenly as there are rows over the groups of the first level, and within each
    over those of the next. Within the last, by a draw from the row's id. All rows, if there are no more."""
    if len(rows) <= count:
        return list(rows)
    if not levels:
        return sorted(rows, key=lambda row: (drawn(row["id"], f"{seed} rows"), row["id"]))[:count]
    groups: dict[Hashable, list[Row]] = {}
    for row in rows:
        groups.setdefault(levels[0](row), []).append(row)
    # From the smallest: what it lacks of its share is shared by those after it.
    smallest_first = sorted(groups.items(), key=lambda group: (len(group[1]), str(group[0])))
    chosen: list[Row] = []
    for position, (_, group) in enumerate(smallest_first):
        share = (count - len(chosen)) // (len(smallest_first) - position)
        chosen += even(group, share, levels[1:], seed)
    return chosen


def rule_of(row: Row) -> str:
    """The rule that gave an SFT row (R1 to R4), or the kind of a prompt for GRPO."""
    if "oracle_mode" in row:
        return str(row["kind"])
    return next(rule for rule, kinds in RULES.items() if row["kind"] in kinds)


def _family(row: Row) -> str:
    return row["family"] or ""


def _counts_for(row: Row, key: str) -> bool:
    if key in MODES:
        return bool(row.get("mode", row.get("oracle_mode")) == MODES[key])
    return bool(row["kind"] == key or row["kind"] in RULES.get(key, ()))


def _count(rejected: Counter[str], reason: str, number: int) -> None:
    if number:
        rejected[reason] += number
