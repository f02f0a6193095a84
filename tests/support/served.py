"""A server of questions about videos of one colour, in this process, whose model is `ColourBackbone`.

`World` is one with starlette's test client (`video` uploads, `ask` asks, `answered` waits for the answer);
"(slow)" questions wait for `world.backbone.go_on`. `served` and `listening` give it, or any app, a real
address, for clients that hang up.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from tests.support.colours import ColourBackbone, make_video
from videopro.backbones import Backbone
from videopro.serve import Answerer, ServeLimits, ServerState, create_app, listen
from videopro.serve.app import StoppableServer


def message(video: str, text: str = "Which colour is shown?") -> dict[str, Any]:
    """A question about a video as OpenAI's chat has it."""
    content = [{"type": "text", "text": text}, {"type": "file", "file": {"file_id": video}}]
    return {"role": "user", "content": content}


QUESTION = {"question": "Which colour is shown?", "choices": ["red", "green", "blue"]}


class World:
    """A server with videos of one colour each; `client` calls it."""

    def __init__(
        self, folder: Path, *, model: str = "colours", answerer: Answerer | None = None, **limits: Any
    ) -> None:
        """`answerer`: one that answers in the place of the model of colours."""
        self.folder = folder
        self.backbone = ColourBackbone(model, is_concurrent=True)
        self.answerer = Answerer(model, load=self._load) if answerer is None else answerer
        self.answerer.load()
        limits = {"at_once": 2, "waiting": 4, **limits}
        self.state = ServerState(ServeLimits(**limits), self.answerer, folder / "out")
        self.app = create_app(self.state)
        self.client = TestClient(self.app, base_url="http://localhost", raise_server_exceptions=False)

    def _load(self, model: str, **settings: Any) -> Backbone:
        return self.backbone

    def video(self, colour: str = "green", **about: Any) -> str:
        """The id of an uploaded video."""
        path = self.folder / f"{colour}.mp4"
        if not path.exists():
            make_video(path, colour)
        reply = self.client.post("/v1/files", files={"file": (f"{colour}.mp4", path.read_bytes())}, **about)
        assert reply.status_code == 200, reply.text
        return str(reply.json()["id"])

    def ask(self, video: str, **about: Any) -> str:
        """The id of a question that was asked."""
        reply = self.client.post("/v1/videopro/questions", json={**QUESTION, "file_id": video, **about})
        assert reply.status_code == 202, reply.text
        return str(reply.json()["id"])

    def answered(self, question: str) -> dict[str, Any]:
        """The page of a question when it has ended."""
        self.client.get(f"/v1/videopro/questions/{question}/events")
        page: dict[str, Any] = self.client.get(f"/v1/videopro/questions/{question}").json()
        return page

    def close(self) -> None:
        """Stop what is running."""
        self.state.questions.stop_all("the test ends")
        self.state.line.wait_until_idle(5)
        self.state.questions.close()


def served(world: World) -> AbstractContextManager[str]:
    """The address of a world's server that listens for real."""
    return listening(world.app, world.state.stop)


@contextmanager
def listening(app: Any, stop: Callable[[], None] = lambda: None, port: int = 0) -> Iterator[str]:
    """The address of a server that listens on a thread of this process."""
    is_up = threading.Event()
    with listen("127.0.0.1", port) as sock:
        server = StoppableServer(app, is_up.set, stop)
        thread = threading.Thread(target=server.run, args=([sock],), daemon=True)
        thread.start()
        try:
            assert is_up.wait(20)
            yield f"http://127.0.0.1:{sock.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(20)
            assert not thread.is_alive()
