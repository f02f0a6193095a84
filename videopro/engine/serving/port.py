"""The port of an engine, which stays its own while it is started, and started again."""

from __future__ import annotations

import socket

from videopro.engine.serving.local_http import HOST

_CONNECT_SECONDS = 5.0


class HeldPort:
    """A port of this machine at which an engine can listen, and that no other program gets meanwhile."""

    def __init__(self) -> None:
        self.number = 0
        self._held: socket.socket | None = None

    def renew(self) -> None:
        """Hold a free one, in place of the one before."""
        self.release()
        # A socket that does not listen. With this option, which servers set too, it lets one of them bind the
        # same port; others are refused it, and nobody is given it as a free one.
        self._held = socket.socket()
        self._held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._held.bind((HOST, 0))
        self.number = self._held.getsockname()[1]

    def is_served(self) -> bool:
        """Whether a server listens there, busy or not."""
        try:
            socket.create_connection((HOST, self.number), _CONNECT_SECONDS).close()
        except ConnectionRefusedError:
            return False
        except OSError:
            return True
        return True

    def release(self) -> None:
        """Let others have it. Calling it again does nothing."""
        if self._held is not None:
            self._held.close()
            self._held = None
