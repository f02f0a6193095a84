"""A server that takes requests and never replies, and sees when a client hangs up."""

import socket
import threading
from typing import Self


class SilentServer:
    """Listens on 127.0.0.1 while its context lasts."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        """A request has come in whole."""
        self.hung_up = threading.Event()
        """The client of a request closed its connection."""
        self._listening = socket.create_server(("127.0.0.1", 0))

    @property
    def url(self) -> str:
        """Its address, as of OpenAI's protocol."""
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}/v1"

    def __enter__(self) -> Self:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._listening.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._keep_waiting, args=(client,), daemon=True).start()

    def _keep_waiting(self, client: socket.socket) -> None:
        with client:
            content = b""
            while part := client.recv(1 << 16):
                content += part
                head, _, body = content.partition(b"\r\n\r\n")
                lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")]
                length = int(lengths[0].split(b":")[1]) if lengths else 0
                if b"\r\n\r\n" in content and len(body) >= length:
                    self.asked.set()
            if self.asked.is_set():
                self.hung_up.set()
