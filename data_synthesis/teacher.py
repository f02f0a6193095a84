"""Requests to a teacher: many in parallel, each paid for once, within the caps.

A reply is on disk before it is used. A request that is refused for its own sake (its form, or a reply
without text) fails alone; a server that serves no request stops the synthesis.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from videopro.data_synthesis.teacher_log import CapReached, ReplyLog, TeacherBudget
from videopro.errors import BackboneError, RunError, VideoProError
from videopro.methods.planners import EmptyReply, Planner, PlannerReply, PlanRequest

# This many consecutive refusals have a common cause.
REFUSALS_IN_A_ROW = 20


@dataclass(frozen=True)
class Refusal:
    """A request that returned no text, and why."""

    reason: str


def collect(futures: Sequence[Future[PlannerReply | Refusal]]) -> list[PlannerReply | Refusal | None]:
    """The replies of `Teacher.send`, in the order of the requests; None where a cap was reached.

    Raises RunError when the teacher serves no request at all, after every request in flight has ended.
    """
    replies: list[PlannerReply | Refusal | None] = []
    failure: BaseException | None = None
    for future in futures:
        try:
            replies.append(future.result())
        except CapReached:
            replies.append(None)
        except Exception as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return replies


class NoTeacher(Planner):
    """Stands in for a teacher where no question is asked with programs."""

    name = "none"
    asks_model = False

    def identity(self) -> dict[str, object]:
        return {"planner": self.name}

    def write(self, requests: Sequence[PlanRequest]) -> list[PlannerReply]:
        raise AssertionError(f"{len(requests)} programs were asked for without a teacher")


def no_teacher(*args: object, **settings: object) -> Planner:
    """As `load_planner`, for a synthesis without programs."""
    return NoTeacher()


class Teacher:
    """A planner behind a budget and a log, which one that asks no model does not need; thread safe.

    `concurrency`: at most this many requests in flight. `longest`: at most this many tokens a reply, to
    bound a request's cost before it is sent.
    """

    def __init__(
        self,
        planner: Planner,
        budget: TeacherBudget,
        log: ReplyLog | None = None,
        *,
        concurrency: int = 8,
        longest: int = 4096,
    ) -> None:
        self.planner = planner
        self.budget = budget
        self.log = log
        self._longest = longest
        self._identity = json.dumps(planner.identity(), sort_keys=True)
        self._threads = ThreadPoolExecutor(concurrency, thread_name_prefix="teacher")
        self._lock = threading.Lock()
        self._refusals = 0
        self._stopped: VideoProError | None = None

    def ask(self, requests: Sequence[PlanRequest]) -> list[PlannerReply | Refusal | None]:
        """`collect` of `send`."""
        return collect(self.send(requests))

    def send(self, requests: Sequence[PlanRequest]) -> list[Future[PlannerReply | Refusal]]:
        """Send requests, and return at once: what comes next may go on while they are in flight. `collect`
        gets the replies."""
        return [self._threads.submit(self.answer, request) for request in requests]

    def cancel(self) -> None:
        """Cancel the requests in flight."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self.planner.close()

    def close(self) -> None:
        """Cancel the requests in flight, and close the log."""
        self.cancel()
        if self.log is not None:
            self.log.close()

    def answer(self, request: PlanRequest) -> PlannerReply | Refusal:
        """Its reply to a request. Raises CapReached, and RunError when it serves none at all."""
        if not self.planner.asks_model:
            return self.planner.write([request])[0]
        assert self.log is not None
        key = self._key(request)
        recorded = self.log.find(key)
        if recorded is not None:
            return recorded
        # After the look into the log: recorded replies cost nothing, also once the teacher has stopped.
        if self._stopped is not None:
            raise self._stopped
        # A token is at least two bytes of a prompt, except in very rare text.
        with self.budget.reserved(len(request.prompt.encode()) // 2 + 64, self._longest):
            try:
                (written,) = self.planner.write([request])
            except RunError as error:
                self._stopped = error
                raise
            except BackboneError as error:
                return self._refusal(key, request, error)
            self.log.append(key, request.kind, written)
        # A reply ends the row of refusals.
        with self._lock:
            self._refusals = 0
        return written

    def _refusal(self, key: str, request: PlanRequest, error: BackboneError) -> Refusal:
        tokens = (error.tokens_in, error.tokens_out) if isinstance(error, EmptyReply) else (0, 0)
        assert self.log is not None
        self.log.append_refusal(key, request.kind, str(error), *tokens)
        with self._lock:
            self._refusals += 1
            if self._refusals >= REFUSALS_IN_A_ROW:
                self._stopped = RunError(
                    f"teacher {self.planner.name}: {REFUSALS_IN_A_ROW} requests in a row gave no text, the "
                    f"last one: {error}\nThe others are likely to fail as well, so the run stops. Replies so "
                    "far are saved; fix this and re-run the same command to resume."
                )
                raise self._stopped from error
        return Refusal(str(error))

    def _key(self, request: PlanRequest) -> str:
        identity = json.dumps([self._identity, request.kind, request.prompt, request.seed])
        return hashlib.sha256(identity.encode()).hexdigest()[:32]
