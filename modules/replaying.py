"""A program's calls made again from memory, one of them with another result: no model is asked, and no frame
is decoded."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, cast

from videopro.modules.alternatives import as_sure_as_others, first_values
from videopro.modules.calls import AnswerHandle, CallContext, Module
from videopro.modules.errors import ModuleError
from videopro.modules.library import CachedResult, ModuleLibrary, call_key
from videopro.question import Question


class NeverMade(Exception):
    """A call that the program never made, of a module whose kind of result is not known."""


class ReplayLibrary(ModuleLibrary):
    """The modules of a program's run, for replays of it. A call gives what it gave in the run, or what
    `changed` has for it.

    A call that the run never made, with a program on another path, gives what the module gave at the same
    place in the order of its calls: a change shows by what it does to the program itself, while what a later
    call makes of it is that call's own doing, and in its confidence. Beyond these calls it gives one of the
    values that the module can return, chosen by `guess`, and `is_guessed` is set: with another guess the
    program may end otherwise. Raises NeverMade where no value is known.

    Modules that are not cached look at nothing: they are run.
    """

    def __init__(
        self, run: ModuleLibrary, question: Question, changed: Mapping[Hashable, Any], guess: int = 0
    ) -> None:
        super().__init__(run.context, question=question)
        self.is_guessed = False
        self.repeated: list[Hashable] = []
        """The keys of the calls of cached modules so far."""
        self._recorded_calls = run.made
        self._changed = changed
        self._guess = guess
        self._texts: Sequence[str] = question.choices
        self._order: dict[str, dict[Hashable, int]] = {}
        """By module, the keys of its calls so far, each with its place among them."""
        self._modelless = copy.copy(run.context)
        for name in ("backbone", "index", "ocr", "detector", "tracker"):
            setattr(self._modelless, name, None)

    def _result(self, spec: Module, values: Mapping[str, Any]) -> tuple[CachedResult, bool]:
        if not spec.is_cached:
            return (self._calculated(spec, values), (), 0, None), False
        key = call_key(spec, values)
        self.repeated.append(key)
        positions = self._order.setdefault(spec.name, {})
        # Equal calls have equal results, also where these are made up.
        position = positions.setdefault(key, len(positions))
        if key in self._changed:
            return (self._changed[key], (), 0, None), True
        recorded = self._recorded_calls.get(key)
        if recorded is None:
            return (self._stand_in(spec, values, position), (), 0, None), True
        if recorded.error is not None:
            raise recorded.error
        return (recorded.result, (), 0, recorded.confidence), True

    def _calculated(self, spec: Module, values: Mapping[str, Any]) -> Any:
        try:
            return spec.run(CallContext(self._modelless), values)
        except ModuleError:
            raise
        except Exception as error:  # It looks at the video, or asks a model.
            raise NeverMade(spec.name) from error

    def _stand_in(self, spec: Module, values: Mapping[str, Any], position: int) -> Any:
        results = [
            recorded.result
            for recorded in self._recorded_calls.values()
            if recorded.module.name == spec.name and recorded.error is None
        ]
        if position < len(results):
            # A confidence that two calls share would show that this is no run.
            result = results[position]
            return as_sure_as_others(result, values) if isinstance(result, AnswerHandle) else result
        self.is_guessed = True
        possible = first_values(spec, values, self._texts, self.context)
        if not possible:
            raise NeverMade(spec.name)
        return cast(Any, possible[self._guess % len(possible)])
