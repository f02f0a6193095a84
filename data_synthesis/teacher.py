"""Requests to a teacher: many in parallel, each paid for once, within the caps.

A reply is on disk before it is used, and a resumed synthesis looks it up; several processes may write to the
file at the same time, and each finds the replies of the others. A request that is refused for its own sake
(its form, or a reply without text) fails alone; a server that serves no request stops the synthesis.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from videopro.errors import BackboneError, ConfigError, RunError, VideoProError
from videopro.methods.planners import EmptyReply, Planner, PlannerReply, PlanRequest
from videopro.storage import JsonLinesLog, SetAside, parse_json

ENOUGH_REPLIES = 30
"""Recorded replies from which mean tokens are taken."""
_OUTCOME = "replies without other lines are requested again"


class CapReached(Exception):
    """The next request would exceed a cap."""


@dataclass(frozen=True)
class Prices:
    """What a million tokens cost, in any currency."""

    tokens_in: float = 0.0
    tokens_out: float = 0.0

    def of(self, tokens_in: float, tokens_out: float) -> float:
        """The price of these tokens."""
        return (tokens_in * self.tokens_in + tokens_out * self.tokens_out) / 1e6


@dataclass
class TeacherUsage:
    """Requests that reached a model, and their tokens. Retries do not count:
    providers bill answers."""

    requests: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    refused: int = 0
    """Requests that gave no text: refused for their form or length, or empty replies."""

    def add(self, tokens_in: int, tokens_out: int, refused: bool) -> None:
        """Count one request."""
        self.requests += 1
        self.tokens_in += tokens_in
        self.tokens_out += tokens_out
        self.refused += refused


class TeacherBudget:
    """Caps on all requests of a synthesis, including those of earlier commands; thread-safe.

    Before it is sent, a request reserves the most that it can cost, so that a cap holds with any number of
    requests in flight. Of another process on the folder, the requests that ended count, and not those in
    flight: it may pass a cap by these. Raises ConfigError for invalid caps.
    """

    def __init__(
        self,
        prices: Prices | None = None,
        *,
        max_requests: int | None = None,
        max_cost: float | None = None,
    ) -> None:
        if max_requests is not None and max_requests < 0:
            raise ConfigError(f"max_requests is {max_requests}; it must be 0 or more")
        if max_cost is not None and max_cost < 0:
            raise ConfigError(f"max_cost is {max_cost}; it must be 0 or more")
        if max_cost is not None and prices is None:
            raise ConfigError("max_cost: needs --price-in and --price-out, per million tokens")
        self.prices = prices
        self.spent = TeacherUsage()
        self._requests, self._cost = max_requests, max_cost
        self._pending: list[float] = []
        self._changed = threading.Condition()

    @property
    def cost(self) -> float | None:
        """The cost so far; None without prices."""
        if self.prices is None:
            return None
        return self.prices.of(self.spent.tokens_in, self.spent.tokens_out)

    def text(self) -> str:
        """What was spent so far, for a line of progress; empty before the first request."""
        cost = self.cost
        if not self.spent.requests:
            return ""
        return f"{self.spent.requests} requests" + (f", cost {cost:.2f}" if cost is not None else "")

    @contextmanager
    def reserved(self, most_in: int, most_out: int) -> Iterator[None]:
        """Reserve one request of at most this many tokens. Waits while requests in flight may still leave
        room; raises CapReached when there is none."""
        most = self.prices.of(most_in, most_out) if self.prices is not None else 0.0
        with self._changed:
            while not self._fits(most, self._pending):
                # It does not fit even when nothing is in flight: waiting would not help.
                if not self._fits(most, []):
                    raise CapReached
                self._changed.wait()
            self._pending.append(most)
        try:
            yield
        finally:
            with self._changed:
                # Any one of equal amounts: their number and their sum are what counts.
                self._pending.remove(most)
                self._changed.notify_all()

    def exclusive(self) -> AbstractContextManager[bool]:
        """A block in which no other thread reserves."""
        return self._changed

    def charge(self, tokens_in: int, tokens_out: int, *, refused: bool = False) -> None:
        """Count a request that ended."""
        with self._changed:
            self.spent.add(tokens_in, tokens_out, refused)

    def _fits(self, most: float, pending: list[float]) -> bool:
        if self._requests is not None and self.spent.requests + len(pending) + 1 > self._requests:
            return False
        return self._cost is None or (self.cost or 0.0) + sum(pending) + most <= self._cost


class ReplyLog:
    """The file of replies, appended durably. Other processes may append to it too. `budget` is charged for
    every request that the file records, from any process. Thread-safe."""

    def __init__(self, path: Path, budget: TeacherBudget) -> None:
        self.path = path
        self._budget = budget
        self._lock = threading.Lock()
        self._replies: dict[str, PlannerReply] = {}
        self._read = 0
        self._file = JsonLinesLog(path)
        self._set_aside = SetAside(path, _OUTCOME)
        self._lines = 0

    def load(self) -> None:
        """Read the recorded replies and charge them; an incomplete last line of a killed writer is cut."""
        self.refresh()
        self._file.cut_torn_tail()

    def refresh(self) -> None:
        """Read what was appended since the last call, and charge it. A line that is not a reply is set
        aside."""
        # At once, for the thread that reserves: what one thread has read, another does not find in the file
        # again.
        with self._budget.exclusive(), self._lock:
            lines = self._file.read(self._read)
            self._read += len(lines)
            records = _records(lines, self._set_aside, self._lines + 1)
            self._lines += lines.count(b"\n")
            for record in records:
                if "refused" not in record:
                    self._replies[record["key"]] = PlannerReply(
                        record["text"], record["tokens_in"], record["tokens_out"], 1, record["notes"]
                    )
            for record in records:
                self._budget.charge(record["tokens_in"], record["tokens_out"], refused="refused" in record)

    def find(self, key: str) -> PlannerReply | None:
        """The recorded reply under this key, by any process, or None."""
        if key not in self._replies:
            self.refresh()
        return self._replies.get(key)

    def append(self, key: str, kind: str, written: PlannerReply) -> None:
        """Append a reply, and charge it. Raises RunError if it cannot be written."""
        tokens = {"tokens_in": written.tokens_in, "tokens_out": written.tokens_out}
        self._file.append(
            {"key": key, "kind": kind, **tokens, "notes": dict(written.notes), "text": written.text}
        )
        self.refresh()

    def append_refusal(self, key: str, kind: str, reason: str, tokens_in: int, tokens_out: int) -> None:
        """Record that a request returned no text, and charge it; it is sent again when its question is asked
        again."""
        tokens = {"tokens_in": tokens_in, "tokens_out": tokens_out}
        self._file.append({"key": key, "kind": kind, **tokens, "refused": reason})
        self.refresh()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_teacher_usage(path: Path) -> TeacherUsage:
    """The usage that a file records; zero for a missing file."""
    spent = TeacherUsage()
    for record in _recorded(path):
        spent.add(record["tokens_in"], record["tokens_out"], "refused" in record)
    return spent


@dataclass(frozen=True)
class ReplyTokens:
    """Tokens of recorded replies: those to first prompts, and those to refinements."""

    first: tuple[int, int, int] = (0, 0, 0)
    """Replies, their prompts' tokens, their own."""
    refining: tuple[int, int, int] = (0, 0, 0)

    @property
    def count(self) -> int:
        """Replies."""
        return self.first[0] + self.refining[0]

    def mean(self, *, refining: bool) -> tuple[float, float] | None:
        """Mean tokens of a prompt and of its reply; None below ENOUGH_REPLIES."""
        count, tokens_in, tokens_out = self.refining if refining else self.first
        return None if count < ENOUGH_REPLIES else (tokens_in / count, tokens_out / count)


def read_reply_tokens(path: Path) -> ReplyTokens:
    """The tokens that a file records; none for a missing file."""
    sums = {False: (0, 0, 0), True: (0, 0, 0)}
    for record in _recorded(path):
        refining = record["kind"] != "plan_program"
        count, tokens_in, tokens_out = sums[refining]
        sums[refining] = (count + 1, tokens_in + record["tokens_in"], tokens_out + record["tokens_out"])
    return ReplyTokens(sums[False], sums[True])


def read_reply(line: bytes) -> dict[str, Any]:
    """One line of the file. Raises ValueError, KeyError or TypeError for a broken one."""
    record = parse_json(line)
    record["key"], record["tokens_in"], record["tokens_out"]
    if "refused" not in record:
        record["text"], record["notes"]
    return dict(record)


def _recorded(path: Path) -> list[dict[str, Any]]:
    """The records of a whole file; none of a missing one."""
    if not path.exists():
        return []
    with JsonLinesLog(path, writable=False) as file:
        return _records(file.read(), SetAside(path, _OUTCOME))


def _records(lines: bytes, set_aside: SetAside, first: int = 1) -> list[dict[str, Any]]:
    """The records of complete lines, of which the first has this number."""
    records = []
    for number, line in enumerate(lines.split(b"\n")[:-1], start=first):
        try:
            records.append(read_reply(line))
        except (ValueError, KeyError, TypeError) as error:
            set_aside.add(number, f"no reply: {error}")
    set_aside.tell()
    return records


# This many consecutive refusals have a common cause.
REFUSALS_IN_A_ROW = 20


@dataclass(frozen=True)
class Refusal:
    """The error of a request that returned no text."""

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
        raise AssertionError(f"{len(requests)} programs were requested without a teacher")


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
        """Send requests and return at once; `collect` gets the replies."""
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
            # It costs nothing and writes the same again: nothing is kept.
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
                    f"teacher {self.planner.name}: {REFUSALS_IN_A_ROW} requests in a row returned no text, "
                    f"the last one: {error}\nThe rest would likely fail too, so the run stops. Replies so "
                    "far are saved; fix this and re-run the same command to resume."
                )
                raise self._stopped from error
        return Refusal(str(error))

    def _key(self, request: PlanRequest) -> str:
        # All that a reply depends on: by another temperature or prompt it is another request.
        identity = json.dumps([self._identity, request.kind, request.prompt, request.seed])
        return hashlib.sha256(identity.encode()).hexdigest()[:32]
