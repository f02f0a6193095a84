"""Numbers as tests compare them."""

from __future__ import annotations

from typing import Any


def rounded(value: Any) -> Any:
    """The same content with floats of 12 digits: from Python 3.12 on, `sum` adds floats more exactly, so that
    the last digit differs between versions."""
    if isinstance(value, float):
        return float(f"{value:.12g}")
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    return [rounded(each) for each in value] if isinstance(value, list | tuple) else value
