"""What the prompts of rows say of the modules, as their columns record it.

Rows of `videopro synthesize --reference FORM` have `reference` (the form) and `modules` (the names of the
modules that the question had). Rows of other origin have neither: none of our references is in their prompts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from videopro.cli import did_you_mean
from videopro.errors import DatasetError
from videopro.traces import REFERENCE_FORMS, ReferenceForm


class ShowsModules(Protocol):
    """A row whose prompt may say something of the modules."""

    @property
    def reference(self) -> ReferenceForm: ...


@dataclass(frozen=True)
class RowReference:
    """What a row's prompt says of the modules, and of which."""

    reference: ReferenceForm = "none"
    modules: tuple[str, ...] = ()


def read_reference(record: Mapping[str, Any], where: str) -> RowReference:
    """The columns of a record. Raises DatasetError, which begins with `where`."""
    form, names = record.get("reference"), record.get("modules")
    if form is None:
        return RowReference()
    if form not in REFERENCE_FORMS:
        raise DatasetError(f"{where}: reference is {form!r}; {did_you_mean(str(form), REFERENCE_FORMS)}")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise DatasetError(f"{where}: modules is {names!r}; beside reference it must be a list of names")
    return RowReference(form, tuple(names))


def reference_of(rows: Iterable[ShowsModules]) -> ReferenceForm:
    """What all rows say of the modules. Raises DatasetError for rows that differ: a planner is asked in one
    way."""
    forms = Counter(row.reference for row in rows)
    if len(forms) > 1:
        counts = ", ".join(f"{count} with reference={form}" for form, count in forms.most_common())
        raise DatasetError(
            f"the rows say different things of the modules ({counts}), and a planner is asked in one way; "
            "train on one kind, such as that of videopro synthesize --assemble-only --reference FORM"
        )
    return next(iter(forms), "none")
