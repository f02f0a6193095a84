"""A test that leaves its process other than it was fails, and the failure says what it changed.

A pytest plugin. The later tests of the process, and every child that they start, inherit its scheduling,
limits, signals and working folder: a change that stays makes other tests slow, hang or fail.
"""

import contextlib
import os
import resource
import signal
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, NamedTuple

import pytest


class _Property(NamedTuple):
    read: Callable[[], Any]
    restore: Callable[[Any], object]


def _set_scheduling(policy: tuple[int, int]) -> None:
    os.sched_setscheduler(0, policy[0], os.sched_param(policy[1]))


def _set_handler(number: int, handler: Any) -> None:
    if handler is not None:  # None: set from outside Python, which cannot set it again
        signal.signal(number, handler)


_PROPERTIES = {
    "scheduling policy and priority": _Property(
        lambda: (int(os.sched_getscheduler(0)), os.sched_getparam(0).sched_priority), _set_scheduling
    ),
    "niceness": _Property(
        partial(os.getpriority, os.PRIO_PROCESS, 0), partial(os.setpriority, os.PRIO_PROCESS, 0)
    ),
    "affinity": _Property(partial(os.sched_getaffinity, 0), partial(os.sched_setaffinity, 0)),
    "blocked signals": _Property(
        partial(signal.pthread_sigmask, signal.SIG_BLOCK, ()),
        partial(signal.pthread_sigmask, signal.SIG_SETMASK),
    ),
    "working folder": _Property(os.getcwd, os.chdir),
} | {
    name: _Property(partial(resource.getrlimit, number), partial(resource.setrlimit, number))
    for name, number in sorted(vars(resource).items())
    if name.startswith("RLIMIT_")
}
_PROPERTIES |= {
    f"handler of {getattr(number, 'name', number)}": _Property(
        partial(signal.getsignal, number), partial(_set_handler, number)
    )
    for number in sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})
}
_BEFORE = pytest.StashKey[dict[str, Any]]()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    item.stash[_BEFORE] = {name: prop.read() for name, prop in _PROPERTIES.items()}
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """After every fixture has put back what it changed. What a test left is undone, so that no later one is
    blamed."""
    try:
        return (yield)
    finally:
        changes = []
        for name, before in item.stash[_BEFORE].items():
            after = _PROPERTIES[name].read()
            if after != before:
                changes.append(f"{name}: {before!r} became {after!r}")
                with contextlib.suppress(PermissionError):  # only root lowers a niceness
                    _PROPERTIES[name].restore(before)
        if changes:
            pytest.fail(f"{item.nodeid} changed its process: " + "; ".join(changes), pytrace=False)
