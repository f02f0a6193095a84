"""Which modules a question's programs may call: a group of them is left out of some questions, so that a
planner learns to read what is there.

The records say which modules each question had, and rows show these.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from videopro.methods.program import derive_seed
from videopro.modules import named_modules, reference_text
from videopro.modules.calls import REMOVABLE, ClipTimes
from videopro.traces import ReferenceForm, Trace

MODULES = "modules"
"""The note on the native round: the names of the modules that the question had, separated by blanks."""
WITHOUT = "without"
"""The note beside it: the group that was left out, if one was."""


@dataclass(frozen=True)
class ModuleDrops:
    """How often a group is left out. The draw depends on the seed and the question's id alone, so that a
    resumed or a larger synthesis makes the same."""

    share: float = 0.0
    seed: int = 0

    def group(self, question_id: str) -> str | None:
        """The group that a question does without; None: it has all modules."""
        draw = random.Random(derive_seed(self.seed, MODULES, question_id))
        return draw.choice(REMOVABLE) if draw.random() < self.share else None


NO_DROPS = ModuleDrops()


@dataclass(frozen=True)
class RowReference:
    """What the prompts of rows say of the modules."""

    form: ReferenceForm = "none"
    clip_times: ClipTimes = "video"

    def text(self, trace: Trace) -> str:
        """What the prompts about a trace's question say."""
        if self.form == "none":
            return ""
        return reference_text(self.form, named_modules(self._names(trace)), self.clip_times)

    def columns(self, trace: Trace) -> dict[str, object]:
        """What a row says of it; nothing without a reference."""
        if self.form == "none":
            return {}
        group = trace.rounds[0].notes.get(WITHOUT)
        dropped = {} if group is None else {WITHOUT: [group]}
        return {"reference": self.form, MODULES: self._names(trace), **dropped}

    def _names(self, trace: Trace) -> list[str]:
        return trace.rounds[0].notes[MODULES].split()


NO_REFERENCE = RowReference()
