"""A running vLLM, as the live tests reach it."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# A CPU engine on busy cores is slow to start, and its first request compiles.
START_SECONDS = 900.0


@dataclass(frozen=True)
class Engine:
    """A running engine."""

    url: str
    """Of its OpenAI-compatible endpoint, as in http://HOST:PORT/v1."""
    pid_file: Path
    """Holds the leader of its process group. `launch/live.sh` starts an engine that dies again."""

    def post(self, path: str, content: Mapping[str, Any]) -> tuple[int, str]:
        """Status and body of a request."""
        data = json.dumps(content).encode()
        request = urllib.request.Request(f"{self.url}{path}", data, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=300) as reply:
                return int(reply.status), reply.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def models(self) -> list[str]:
        with urllib.request.urlopen(f"{self.url}/models", timeout=30) as reply:
            return [card["id"] for card in json.load(reply)["data"]]

    def load_adapter(self, name: str, folder: Path) -> None:
        """Serve an adapter under a name of its own, unless it is served."""
        if name not in self.models():
            status, said = self.post("/load_lora_adapter", {"lora_name": name, "lora_path": str(folder)})
            assert status == 200, said

    def wait(self) -> None:
        """Until it answers."""
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                self.models()
                return
            except OSError:
                assert time.monotonic() < end, "the engine was not started again"
                time.sleep(1)
