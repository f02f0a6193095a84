"""Exceptions that nobody foresaw: which are the machine's, what a record says, and when a run should end."""

from __future__ import annotations

import errno
import pickle

import cv2
import numpy as np
import pytest
import torch

from videopro.errors import ExceptionRecord, NativeError, VideoError
from videopro.unexpected import as_unexpected, is_machines, record_exception, unexpected_as
from videopro.work import Streaks


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EMFILE, "Too many open files"),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("CUDA error: device-side assert triggered"),
        RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory"),
        RuntimeError("can't start new thread"),
    ],
)
def test_errors_of_the_machine(error: Exception) -> None:
    assert is_machines(error)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("absolute aspect ratio must be smaller than 200, got 320.0"),
        RuntimeError("shape mismatch: [0, 4]"),
        OverflowError("int too large to convert to float"),
        FileNotFoundError(errno.ENOENT, "No such file"),
        # What a program wrote, in the message of an exception about it.
        ValueError("no class named 'CUDA error: out of memory'"),
        KeyError("CUDA error"),
    ],
)
def test_errors_about_data(error: Exception) -> None:
    assert not is_machines(error)


def test_a_record_names_the_class_with_its_package_and_the_place() -> None:
    with pytest.raises(cv2.error) as caught:
        cv2.resize(np.zeros((0, 4, 3), np.uint8), (2, 2))
    record = record_exception(caught.value)
    assert record.type == "cv2.error"
    assert record.place.startswith("tests/test_unexpected.py:")
    assert "\n" not in record.message
    assert "cv2.resize(" in record.traceback
    with pytest.raises(ValueError, match="invalid literal") as plain:
        int("x" * 5000)
    assert len(record_exception(plain.value).message) <= 500


def test_it_is_the_errors_of_a_block_that_nobody_foresaw() -> None:
    with (
        pytest.raises(NativeError, match="ZeroDivisionError: division by zero") as caught,
        unexpected_as(NativeError),
    ):
        print(1 / 0)
    # Workers send it to their supervisor.
    sent = pickle.loads(pickle.dumps(caught.value))
    assert (str(sent), sent.record) == (str(caught.value), caught.value.record)
    for error in (VideoError("cannot be read"), MemoryError()):
        with pytest.raises(type(error)), unexpected_as():
            raise error
    assert str(as_unexpected(ValueError("no"))) == "ValueError: no (?)"


def test_a_run_ends_for_one_exception_about_most_questions_of_several_videos() -> None:
    one, other = (ExceptionRecord("ValueError", place, "", "") for place in ("a.py:1", "a.py:2"))
    # About two videos only; at two places.
    assert not any(Streaks().add([one], video) for video in "aabb")
    streaks = Streaks()
    assert not any(streaks.add([found], video) for found, video in ((one, "a"), (other, "b"), (one, "c")))
    # About three, and about most of the questions since the first.
    streaks = Streaks()
    assert not any(
        streaks.add(found, video) for found, video in (([one], "a"), ([], "b"), ([one, other], "b"))
    )
    assert streaks.add([one], "c") is one
    # Rare ones never do, however many; a new streak begins after them.
    streaks = Streaks()
    assert not any(streaks.add([one] if number % 3 == 0 else [], str(number)) for number in range(99))
    assert [streaks.add([one], video) for video in "xyz"] == [None, None, one]
