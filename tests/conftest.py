"""Shared test settings: a temporary directory that goes with the run, no hub, default signals, two cores at
most, no test that changes its process, and workers that need not import."""

import gc
import os
import signal
import tempfile

import pytest

# Everything temporary goes into one directory: tmp_path, what the support modules make once a process, and
# what child processes leave. xdist's workers inherit it. Keep tmp_path for a look at a failure with
# --basetemp.
if "PYTEST_XDIST_WORKER" not in os.environ:
    _temporary = tempfile.TemporaryDirectory(prefix="videopro-tests-", ignore_cleanup_errors=True)
    os.environ["TMPDIR"] = tempfile.tempdir = _temporary.name

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

pytest_plugins = ["tests.support.process_state", "tests.support.watchdog"]

# A shell starts a background job with Ctrl-C (SIGINT) ignored, and its children inherit that: tests of
# interrupts would wait forever. nohup does the same to the signal of a closed terminal (SIGHUP).
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_configure(config: pytest.Config) -> None:
    """What a process that runs tests needs; the one that hands them out to others starts without PyTorch."""
    if config.getoption("numprocesses", None) and "PYTEST_XDIST_WORKER" not in os.environ:
        return
    from tests.support import forked_workers

    forked_workers.install(fork="PYTEST_XDIST_WORKER" in os.environ)
    import torch
    from torch.utils.data._utils.signal_handling import _set_SIGCHLD_handler

    # A data loader with workers sets it, once a process and for good: here before any test, which may not.
    _set_SIGCHLD_handler()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))


# Collecting imports and makes a million objects, and all of them stay: the collector would look through them
# again and again, for a fifth of a worker's start, and at every full collection later.
gc.disable()


def pytest_collection_finish() -> None:
    """From here on garbage is collected, and looked for among what tests make alone, and not after every 700
    objects: a tenth of the processor's time of tests went there."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()
