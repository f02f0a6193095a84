"""Qwen chat messages through the server backbone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from PIL import Image

from tests.support.server_cases import LN_05, Make, frames, reds
from tests.support.stub_server import StubFault, StubServer, letter, pictures_of, text_of, video_times
from videopro.errors import BackboneError, VideoError


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    """A video of 4 s at 10 frames a second whose brightness is 5 times the frame's number."""
    path = tmp_path / "clip with space.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=10)
        stream.width, stream.height, stream.pix_fmt = 96, 64, "yuv420p"
        for place in range(40):
            image = np.full((64, 96, 3), 5 * place, dtype=np.uint8)
            for packet in stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")):
                container.mux(packet)
        for packet in stream.encode():
            container.mux(packet)
    return path


def test_chat_reads_local_pictures_and_videos(
    stub: StubServer, make: Make, clip: Path, tmp_path: Path
) -> None:
    picture = tmp_path / "red.png"
    Image.fromarray(np.full((40, 50, 3), (200, 0, 0), np.uint8)).save(picture)
    messages = [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "image", "image": str(picture)},
                {"type": "video", "video": f"file://{clip}", "nframes": 4},
                {"type": "text", "text": "What is it?"},
            ],
        },
    ]
    make(stub, video="frames").chat(messages)
    system, user = stub.chats[0]["messages"]
    assert system == {"role": "system", "content": "Be brief."}
    # Midpoints of four seconds.
    assert [part["text"] for part in user["content"] if part["type"] == "text"] == [
        "<0.5 seconds>",
        "<1.5 seconds>",
        "<2.5 seconds>",
        "<3.5 seconds>",
        "What is it?",
    ]
    assert reds(pictures_of(stub.chats[0])) == pytest.approx([200, 25, 75, 125, 175], abs=4)


def test_chat_samples_by_rate_within_bounds_and_budget(stub: StubServer, make: Make, clip: Path) -> None:
    def times(**options: Any) -> list[str]:
        part = {"type": "video", "video": str(clip), **options}
        make(stub, video="frames", frames=6).chat([{"role": "user", "content": [part]}])
        return re.findall(r"<([\d.]+) seconds>", text_of(stub.chats[-1]))

    assert len(times(fps=1)) == 4
    assert len(times(fps=10)) == 6
    assert len(times(fps=10, max_frames=3)) == 3
    inside = [float(text) for text in times(nframes=2, video_start=2, video_end=3)]
    # Midpoints of 2.0-2.5 and 2.5-3.0; frames lie 0.1 s apart, each shown until the next.
    assert inside == pytest.approx([2.25, 2.75], abs=0.11)
    with pytest.raises(BackboneError, match="budget"):
        times(nframes=7)
    with pytest.raises(VideoError, match="lasts"):
        times(video_start=10)


def test_chat_takes_lists_of_pictures_and_hands_addresses_on(make: Make) -> None:
    listed = {"type": "video", "video": [frame.image for frame in frames([0, 0, 0])], "sample_fps": 0.5}
    linked = {"type": "video", "video": "https://example.org/a.mp4"}
    shown = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    with StubServer(takes_video="times") as stub:
        backbone = make(stub, video="video")
        backbone.chat([{"role": "user", "content": [listed, {"type": "text", "text": "?"}]}])
        assert video_times(stub.chats[0], "times") == [0.0, 2.0, 4.0]
        # One set of times a request: two videos go as pictures with their times.
        backbone.chat([{"role": "user", "content": [listed, listed]}])
        assert re.findall(r"<(.*?) seconds>", text_of(stub.chats[1])) == ["0.0", "2.0", "4.0"] * 2
    with StubServer() as stub:
        stub.faults = [letter_fault()]
        make(stub, video="frames").chat([{"role": "user", "content": [linked, shown]}])
        assert stub.chats[0]["messages"][0]["content"] == [
            {"type": "video_url", "video_url": {"url": "https://example.org/a.mp4"}},
            {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        ]


def letter_fault() -> StubFault:
    return StubFault(body=letter("A", [("A", LN_05)]))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([{"type": "audio", "audio": "x.wav"}], "'audio' is not known"),
        ([{"type": "image", "image": "no/such.png"}], "no/such.png"),
        ([{"type": "image", "image": 5}], "image must be"),
        ([{"type": "video", "video": []}], "empty list"),
        ([{"type": "video", "video": 5}], "video must be"),
        (None, "'role' and 'content'"),
    ],
)
def test_invalid_chat_messages_are_refused(content: Any, words: str, stub: StubServer, make: Make) -> None:
    with pytest.raises(BackboneError, match=words):
        make(stub, video="frames").chat([{"role": "user", "content": content}])
    assert not stub.chats
