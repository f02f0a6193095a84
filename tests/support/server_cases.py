"""What the tests of the server backbone share: frames, a question, probabilities worked out by hand."""

from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image

from videopro.backbones.server import ServerBackbone
from videopro.question import Question
from videopro.video import Frame

# An entry of Ray Serve LLM's list of models (Ray 2.60).
RAY_CARD = {
    "id": "served",
    "object": "model",
    "owned_by": "organization-owner",
    "permission": [],
    "metadata": {"model_id": "served", "input_modality": "text", "max_request_context_length": 8192},
}
KEY = "sk-test-0123456789abcdef"
KEY_ENV = "VIDEOPRO_TEST_KEY"
COLOURS = Question("Which colour is the car?", ("red", "green", "blue"))
# ln 0.8, ln 0.5, ln 0.2, ln 0.1 and ln 0.05.
LN_08, LN_05, LN_02, LN_01, LN_005 = -0.22314355, -0.69314718, -1.60943791, -2.30258509, -2.99573227

Make = Callable[..., ServerBackbone]


def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two tries."""
    monkeypatch.setattr("videopro.backbones.server.endpoint._PAUSE_SECONDS", 0.001)
    monkeypatch.setattr("openai._base_client.MAX_RETRY_DELAY", 0.001)


def frames(times: list[float], size: tuple[int, int] = (64, 96)) -> list[Frame]:
    """Plain frames whose red channel tells their place."""
    pictures = [np.full((*size, 3), (40 * place, 90, 160), dtype=np.uint8) for place in range(len(times))]
    return [Frame(picture, time) for picture, time in zip(pictures, times, strict=True)]


def reds(pictures: list[Image.Image]) -> list[int]:
    return [int(np.asarray(picture.convert("RGB"))[:, :, 0].mean().round()) for picture in pictures]
