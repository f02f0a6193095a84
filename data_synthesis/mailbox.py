"""Requests to a teacher from workers on other machines: they wait in a mailbox, and the command answers them.

The teacher's key, its caps and the file of its replies stay in the command's process, which alone pays and
writes.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from videopro.data_synthesis.teacher import Refusal, Teacher
from videopro.data_synthesis.teacher_log import CapReached
from videopro.engine.cluster import Cluster
from videopro.errors import VideoProError, WorkerBug
from videopro.methods.planners import Planner, PlannerReply, PlanRequest

# How long one look into the mailbox waits for a letter.
_LOOK_SECONDS = 0.5
# An actor runs so many calls at once; with fewer, `fetch` would wait behind workers that wait for it.
# Calls of workers that wait at a time, each for the requests of one video.
_MOST_CALLS = 4096
_THREADS = 64

Replies = list[PlannerReply | Refusal | None]


class Mailbox:
    """A Ray actor without a model: it keeps requests until they are fetched, and callers until they are
    answered."""

    def __init__(self) -> None:
        self._new: asyncio.Queue[tuple[int, Sequence[PlanRequest]]] = asyncio.Queue()
        self._waiting: dict[int, asyncio.Future[Replies | Exception]] = {}
        self._count = 0

    async def ask(self, requests: Sequence[PlanRequest]) -> Replies | Exception:
        """The replies, as soon as they are there, or the error that came instead."""
        self._count += 1
        number = self._count
        self._waiting[number] = asyncio.get_running_loop().create_future()
        self._new.put_nowait((number, requests))
        try:
            return await self._waiting[number]
        finally:
            del self._waiting[number]

    async def fetch(self, seconds: float) -> list[tuple[int, Sequence[PlanRequest]]]:
        """The new requests; waits for the first one, but not longer than this."""
        letters = []
        # All that is there in one call: calls between processes are what is slow here.
        with suppress(TimeoutError):
            letters.append(await asyncio.wait_for(self._new.get(), seconds))
        while not self._new.empty():
            letters.append(self._new.get_nowait())
        return letters

    async def answer(self, number: int, replies: Replies | Exception) -> None:
        """Pass the replies on, unless the caller is gone."""
        future = self._waiting.get(number)
        if future is not None and not future.done():
            future.set_result(replies)


class RemoteTeacher:
    """A teacher as a worker has it. `planner`: the same, if it asks no model; None: it is asked by mail."""

    def __init__(self, planner: Planner | None, mailbox: Any) -> None:
        self._planner = planner
        self._mailbox = mailbox
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="letter")

    def send(self, requests: Sequence[PlanRequest]) -> list[Future[PlannerReply | Refusal]]:
        """As `Teacher.send`."""
        futures: list[Future[PlannerReply | Refusal]] = [Future() for _ in requests]
        self._threads.submit(self._ask, requests).add_done_callback(partial(_deliver, futures))
        return futures

    def _ask(self, requests: Sequence[PlanRequest]) -> Replies:
        import ray

        if self._planner is not None:
            return [self._planner.write([request])[0] for request in requests]
        replies: Any = ray.get(self._mailbox.ask.remote(requests))
        if isinstance(replies, Exception):
            raise replies
        return list(replies)


def _deliver(futures: Sequence[Future[PlannerReply | Refusal]], letter: Future[Replies]) -> None:
    """Pass the replies of a letter, or its error, to those who wait for them."""
    error = letter.exception()
    for number, future in enumerate(futures):
        if error is not None:
            future.set_exception(error)
        elif (reply := letter.result()[number]) is None:
            future.set_exception(CapReached())
        else:
            future.set_result(reply)


class TeacherDesk:
    """A mailbox, and the threads of this process that answer it."""

    def __init__(self, cluster: Cluster) -> None:
        self.mailbox = cluster.start_beside(Mailbox, calls=_MOST_CALLS)
        """For `RemoteTeacher`."""

    @contextmanager
    def serving(self, teacher: Teacher) -> Iterator[None]:
        """Let the teacher answer within the block, and close it."""
        ended = threading.Event()
        threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="desk")
        # A daemon, because a call to a cluster that is gone does not return.
        serving = threading.Thread(target=self._serve, args=(teacher, threads, ended), daemon=True)
        serving.start()
        try:
            yield
        finally:
            ended.set()
            # Ray must not be left while it is in use.
            serving.join(20 * _LOOK_SECONDS)
            threads.shutdown(wait=False, cancel_futures=True)
            teacher.close()

    def _serve(self, teacher: Teacher, threads: ThreadPoolExecutor, ended: threading.Event) -> None:
        import ray

        with suppress(ray.exceptions.RayError, RuntimeError):
            while not ended.is_set():
                letters: Any = ray.get(self.mailbox.fetch.remote(_LOOK_SECONDS))
                for number, requests in letters:
                    threads.submit(self._answer, teacher, number, requests)

    def _answer(self, teacher: Teacher, number: int, requests: Sequence[PlanRequest]) -> None:
        replies: Replies | Exception
        try:
            replies = teacher.ask(requests)
        except VideoProError as error:
            replies = error
        # The worker waits for an answer: without one, an internal error would leave it waiting forever.
        except Exception as error:
            replies = WorkerBug(f"{type(error).__name__}: {error}")
        self.mailbox.answer.remote(number, replies)
