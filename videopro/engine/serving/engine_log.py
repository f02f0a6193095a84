"""The log of an engine: what it printed, and what that says of an engine that does not serve."""

from __future__ import annotations

from pathlib import Path
from typing import IO

from videopro.errors import BackboneError, RunError, cannot_write

_SHOWN_LINES = 15
_ADVICE = (
    (("out of memory", "free memory on device", "no available memory for the cache"), "change --vllm memory"),
    (("no module named", "modulenotfounderror"), "see the packages of its environment"),
    (("max_model_len", "max seq len"), "give --vllm max_model_len=N"),
    (("max_lora_rank",), "give --vllm flags='--max-lora-rank N'"),
    (("unrecognized arguments",), "use vLLM 0.31 or newer, and flags that it has"),
)


def open_log(log: Path) -> IO[bytes]:
    """The log, to be written on. Raises RunError if it cannot be."""
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        return log.open("ab")
    except OSError as error:
        raise RunError(cannot_write(log, error)) from error


def printed_since(log: Path, size: int) -> str:
    """What was printed since the log had so many bytes; nothing if it cannot be read."""
    try:
        content = log.read_bytes()
    except OSError:
        return ""
    return content[size:].decode("utf-8", "replace")


def not_served(source: str, how: str, log: Path, printed: str) -> BackboneError:
    """The error of an engine that does not serve a model: how that shows, what to do, and the last lines that
    it printed."""
    advice = next(
        (text for signs, text in _ADVICE if any(sign in printed.lower() for sign in signs)),
        "see its log",
    )
    lines = [line for line in printed.splitlines() if line.strip()][-_SHOWN_LINES:]
    ends = "\n".join(f"  {line[:400]}" for line in lines)
    return BackboneError(
        f"vLLM does not serve {source}: {how}; {advice} ({log})"
        + (f", which ends so:\n{ends}" if ends else "")
    )
