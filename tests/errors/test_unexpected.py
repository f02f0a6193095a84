"""Exceptions that nobody foresaw: which are the machine's, and what a record says."""

import errno
import pickle
import sqlite3

import cv2
import numpy as np
import pytest
import torch
from safetensors import SafetensorError

from videopro.errors import (
    NativeError,
    VideoError,
    as_unexpected,
    is_machines,
    record_exception,
    unexpected_as,
)


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
        OSError(errno.ESTALE, "Stale file handle"),
        OSError(errno.ENOTCONN, "Transport endpoint is not connected"),
        OSError(errno.ENXIO, "No such device or address"),
        RuntimeError("No space left on device (os error 28)"),
        RuntimeError("Triton Error [CUDA]: an illegal memory access was encountered"),
        RuntimeError("CUDA driver error: unknown error"),
        RuntimeError("Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU"),
        sqlite3.OperationalError("database or disk is full"),
        SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
        # As torch says it of a tensor of ours.
        RuntimeError("'aten::add' failed: CUDA error: an illegal memory access was encountered"),
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
        RuntimeError("no class named 'CUDA error: out of memory'"),
        RuntimeError('cannot find "No space left on device (os error 28)" in the picture'),
        RuntimeError("unknown class: 'it is a CUDA error: x"),
        RuntimeError("No such file or directory (os error 2)"),
        sqlite3.OperationalError('near "database or disk is full": syntax error'),
        sqlite3.OperationalError("no such column: disk I/O error"),
        SafetensorError("Error while deserializing header: header too large"),
    ],
)
def test_errors_about_data(error: Exception) -> None:
    assert not is_machines(error)


def test_a_picture_too_large_for_the_memory_is_the_machines() -> None:
    with pytest.raises(cv2.error) as caught:
        cv2.resize(np.zeros((4, 4, 3), np.uint8), (1 << 20, 1 << 20))
    assert is_machines(caught.value)


def test_a_record_names_the_class_with_its_package_and_the_place() -> None:
    with pytest.raises(cv2.error) as caught:
        cv2.resize(np.zeros((0, 4, 3), np.uint8), (2, 2))
    record = record_exception(caught.value)
    assert record.type == "cv2.error"
    assert record.place.startswith("tests/errors/test_unexpected.py:")
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
