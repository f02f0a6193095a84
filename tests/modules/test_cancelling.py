"""Cancelled work on what several questions share: the others get it all the same."""

import fcntl
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.support.cancelling import SOON, CancelledWork, until
from tests.support.making_videos import make
from tests.support.number_encoder import NumberEncoder
from tests.support.tiny_encoders import clip, languagebind_folder
from videopro.errors import Cancellation, Cancelled, cancellable, check_cancelled
from videopro.modules.calls import CallCache
from videopro.modules.models.encoders.languagebind import LanguageBindEncoder
from videopro.modules.search import build_index, index_path
from videopro.storage import JsonLinesLog
from videopro.video import Frame, Video


def test_a_call_that_another_waits_for_is_computed_by_the_other() -> None:
    cache: CallCache[str] = CallCache()
    begun = threading.Event()

    def compute() -> str:
        begun.set()
        until(lambda: check_cancelled() or False)
        return "never"

    first = CancelledWork(lambda: cache.get("key", compute))
    assert begun.wait(SOON)
    second = CancelledWork(lambda: cache.get("key", lambda: "computed"))
    gone = CancelledWork(lambda: cache.get("key", lambda: "computed"))
    gone.cancel()
    first.cancel()
    second.join()
    assert second.result == ("computed", False)


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Video:
    """40 clips: a build has parts of 32, in batches of 16."""
    path = tmp_path_factory.mktemp("videos") / "a.mp4"
    make(path, list(range(0, 800, 2)), rate=2, options={"g": "20", "preset": "ultrafast"})
    return Video.open(path)


def test_one_that_waits_for_the_file_of_another_process_leaves(video: Video, tmp_path: Path) -> None:
    encoder = NumberEncoder()
    path = index_path(video, encoder, root=tmp_path)
    path.parent.mkdir()
    with path.with_suffix(".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        CancelledWork(lambda: build_index(video, encoder, root=tmp_path)).cancel()
    with JsonLinesLog(tmp_path / "a.jsonl") as ours, JsonLinesLog(tmp_path / "a.jsonl") as theirs:
        with theirs.locked():
            CancelledWork(lambda: ours.append({"a": 1})).cancel()
        ours.append({"a": 2})
    assert (tmp_path / "a.jsonl").read_text() == '{"a": 2}\n'


class BlockedEncoder(NumberEncoder):
    """Its model is at work on a batch until it may go on."""

    def __init__(self) -> None:
        super().__init__()
        self.is_at_work, self.may_go_on = threading.Event(), threading.Event()
        self.calls = threading.Semaphore(0)

    def encode_clips(self, clips: Sequence[Sequence[Frame]]) -> np.ndarray:
        self.calls.release()
        return self._begin(self._embed_clips, [[frame.image for frame in frames] for frames in clips], 16)()

    def _embed_clips(self, clips: Sequence[Sequence[np.ndarray]]) -> torch.Tensor:
        self.is_at_work.set()
        assert self.may_go_on.wait(SOON)
        return torch.eye(len(clips), 32)


def test_one_that_waits_for_a_batch_of_another_leaves(video: Video, tmp_path: Path) -> None:
    """Both index with one model: whoever is cancelled does not wait until the other's batch is done."""
    encoder = BlockedEncoder()
    other = threading.Thread(target=encoder.encode_clips, args=([clip(0)],))
    other.start()
    assert encoder.is_at_work.wait(SOON)
    before = threading.active_count()
    work = CancelledWork(lambda: build_index(video, encoder, root=tmp_path))
    # The other's call, and its own.
    assert encoder.calls.acquire(timeout=SOON)
    assert encoder.calls.acquire(timeout=SOON)
    work.cancel()
    assert not encoder.may_go_on.is_set()
    until(lambda: threading.active_count() <= before)
    encoder.may_go_on.set()
    other.join()


def test_a_pass_of_an_encoder_ends_between_two_layers(tmp_path: Path) -> None:
    encoder = LanguageBindEncoder(str(languagebind_folder(tmp_path)), device="cpu")
    layers = encoder.model.vision_model.encoder.layers
    assert len(layers) > 1
    expected = encoder.encode_clips([clip(0)])
    cancellation, ran = Cancellation(), list[int]()
    for number, layer in enumerate(layers):
        layer.register_forward_hook(lambda *_, number=number: (ran.append(number), cancellation.cancel())[0])
    with cancellable(cancellation), pytest.raises(Cancelled):
        encoder.encode_clips([clip(0)])
    assert ran == [0]
    # Of what was given up nothing is left.
    assert np.array_equal(encoder.encode_clips([clip(0)]), expected)
