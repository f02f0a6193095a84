"""The clock that ends a test that hangs: set seldom, but always running."""

from __future__ import annotations

import faulthandler
import time
from types import SimpleNamespace
from typing import Any

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key

from tests.support import watchdog


def test_the_clock_of_every_test_runs_and_few_set_it(monkeypatch: pytest.MonkeyPatch) -> None:
    now, started = [1000.0], []

    def start(seconds: float, *, file: int, exit: bool) -> None:
        assert (file, exit) == (7, True)
        started.append((now[0], seconds))

    monkeypatch.setattr(faulthandler, "dump_traceback_later", start)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    stash = pytest.Stash()
    stash[fault_handler_stderr_fd_key] = 7
    config = SimpleNamespace(stash=stash)

    def begin(at: float, marker: Any = None) -> None:
        now[0] = at
        item: Any = SimpleNamespace(config=config, get_closest_marker=lambda name: marker)
        watchdog.pytest_runtest_setup(item)

    begin(1000.0)
    begin(1001.0)
    begin(1015.0)
    assert started == [(1000.0, 320.0)], "one clock for tests that begin soon after one another"
    begin(1021.0)
    assert started[1:] == [(1021.0, 320.0)]
    # pytest stops the clock after a failure.
    node: Any = SimpleNamespace(config=config)
    watchdog.pytest_exception_interact(node)
    begin(1022.0)
    assert started[2:] == [(1022.0, 320.0)]
    begin(1023.0, marker=SimpleNamespace(args=(600,)))
    begin(1024.0)
    assert started[3:] == [(1023.0, 920.0), (1024.0, 320.0)]
