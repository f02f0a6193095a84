"""The rounds of a question while it is being answered, so that its page can be shown before its trace is
there."""

from __future__ import annotations

import threading
from dataclasses import replace

from videopro.methods import EventObserver
from videopro.traces import AGENT, Call, Execution, Result, Round, Step

_DIRECT = "native"


class RoundsSoFar:
    """An observer that keeps what it is told, and tells it on. Thread-safe."""

    def __init__(self, observer: EventObserver) -> None:
        self._observer = observer
        self._lock = threading.Lock()
        self._rounds: list[Round] = []
        self._is_open = False
        """Whether the last round's program or agent is at work."""

    def result(self) -> Result:
        """The result as far as it is known: no answer counts yet."""
        with self._lock:
            return Result(rounds=tuple(self._rounds))

    def on_wait(self, doing: str) -> None:
        """Something begins."""
        self._observer.on_wait(doing)

    def on_reply(self, round: Round) -> None:
        """A round begins."""
        with self._lock:
            self._rounds.append(round)
            self._is_open = True
        self._observer.on_reply(round)

    def on_call(self, call: Call) -> None:
        """A call of the last round; one of no program is the model's direct answer."""
        with self._lock:
            execution = self._begun(_DIRECT)
            self._put(replace(execution, calls=(*execution.calls, call)))
        self._observer.on_call(call)

    def on_execution(self, execution: Execution) -> None:
        """The last round ended."""
        with self._lock:
            self._begun(_DIRECT)
            self._put(execution)
            self._is_open = False
        self._observer.on_execution(execution)

    def on_step(self, step: Step) -> None:
        """A step of an agent, all of whose steps are one round."""
        with self._lock:
            execution = self._begun(AGENT)
            self._put(replace(execution, steps=(*execution.steps, step)))
        self._observer.on_step(step)

    def _begun(self, kind: str) -> Execution:
        if not self._is_open:
            self._rounds.append(Round(kind, ""))
            self._is_open = True
        execution = self._rounds[-1].execution
        return execution if execution is not None else Execution("empty")

    def _put(self, execution: Execution) -> None:
        self._rounds[-1] = replace(self._rounds[-1], execution=execution)
