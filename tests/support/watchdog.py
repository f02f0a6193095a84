"""A test that hangs, even outside Python, shows the stacks of its process and ends it; xdist replaces it.

A pytest plugin, in the place of `faulthandler_timeout` and of pytest-timeout's `timeout`. Each of these
starts and ends a thread for every test, and on busy cores most tests would wait for the two longer than they
run. This one sets faulthandler's clock again when it has run for a while, so that a test has a little less
than SECONDS. A test with the marker `timeout` has the seconds of the marker, as pytest-timeout measures them.
"""

import faulthandler
import time

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key

SECONDS = 320.0
RENEWED_AFTER = 20.0
_CLOCK = pytest.StashKey[float]()
"""When the clock was set; absent while it is not running."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Set the clock for this test, and for those that begin soon."""
    marker = item.get_closest_marker("timeout")
    if marker is not None:
        # pytest-timeout's clock runs too, and is the shorter one.
        _start(item.config, float(marker.args[0]) + SECONDS)
        item.config.stash[_CLOCK] = 0.0
    elif time.monotonic() - item.config.stash.get(_CLOCK, 0.0) > RENEWED_AFTER:
        _start(item.config, SECONDS)


def _start(config: pytest.Config, seconds: float) -> None:
    faulthandler.dump_traceback_later(seconds, file=config.stash[fault_handler_stderr_fd_key], exit=True)
    config.stash[_CLOCK] = time.monotonic()


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    """pytest has stopped the clock, so that a debugger may take its time."""
    node.config.stash[_CLOCK] = 0.0


def pytest_unconfigure() -> None:
    """No test runs any more."""
    faulthandler.cancel_dump_traceback_later()
