"""Names of signals."""

from __future__ import annotations

import signal


def signal_name(number: int) -> str:
    """A signal's name for a message: SIGKILL, SIGRTMIN+6, or "signal 32" for one that has none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        if signal.SIGRTMIN < number < signal.SIGRTMAX:
            return f"SIGRTMIN+{number - signal.SIGRTMIN}"
        return f"signal {number}"
