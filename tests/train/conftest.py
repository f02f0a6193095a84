"""Trainings here leave garbage to Python: accelerate looks through all objects around each one, which was a
tenth of the time of these tests, and only frees the memory of GPUs."""

from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from accelerate.utils import memory


@pytest.fixture(scope="package", autouse=True)
def garbage_waits() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "gc", SimpleNamespace(collect=lambda: 0))
        yield
