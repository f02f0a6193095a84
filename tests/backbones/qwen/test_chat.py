"""Ordinary Qwen chat messages: the same prompt as qwen-vl-utils and the official processor make of them."""

from __future__ import annotations

import base64
import io
import threading
from fractions import Fraction
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch
from PIL import Image
from qwen_vl_utils import process_vision_info

from tests.support.qwen_models import PIXELS, backbone, pictures, reference
from videopro.backbones.base import Sampling
from videopro.backbones.qwen.chat import read_messages
from videopro.errors import BackboneError, VideoError
from videopro.video import Video


def user(*parts: Any) -> list[dict[str, Any]]:
    """One user turn; a plain string is a text part."""
    content = [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
    return [{"role": "user", "content": content}]


def clip(path: Path, seconds: int = 8, fps: int = 4) -> Path:
    """An H.264 file whose grey tells the time: frame i is 4 * i."""
    with av.open(str(path), "w") as file:
        stream = file.add_stream("libx264", rate=fps)
        stream.width, stream.height, stream.pix_fmt = 64, 64, "yuv420p"
        stream.time_base = Fraction(1, fps)
        for i in range(seconds * fps):
            frame = av.VideoFrame.from_ndarray(np.full((64, 64, 3), 4 * i, np.uint8), format="rgb24")
            frame.pts = i
            file.mux(stream.encode(frame))
        file.mux(stream.encode())
    return path


@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3_vl"])
def test_images_are_read_as_qwen_vl_utils_reads_them(family: str, tmp_path: Path) -> None:
    picture = Image.fromarray(pictures(1, 70, 90)[0].image)
    picture.save(tmp_path / "a.png")
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    coded = "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
    own = backbone(family)
    _, processor = reference(family)
    patch = processor.image_processor.patch_size
    bounds = {"min_pixels": (2 * patch) ** 2, "max_pixels": PIXELS}
    for image in (picture, str(tmp_path / "a.png"), f"file://{tmp_path}/a.png", coded):
        messages = user("Look:", {"type": "image", "image": image, **bounds}, "Which?")
        images, _ = process_vision_info(messages, image_patch_size=patch)
        prompt = processor.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        expected = processor(
            text=[prompt], images=images, images_kwargs={"do_resize": False}, return_tensors="pt"
        )
        made = read_messages(own._inputs, messages)
        assert list(made.ids) == expected["input_ids"][0].tolist()
        assert torch.equal(made.tensors["image_grid_thw"], expected["image_grid_thw"])
        assert torch.equal(made.tensors["pixel_values"], expected["pixel_values"])
        # A part without a budget of its own has the backbone's.
        bare = read_messages(own._inputs, user("Look:", {"type": "image", "image": image}, "Which?"))
        assert bare.ids == made.ids


def test_a_strip_from_the_network_gets_its_margin(tmp_path: Path) -> None:
    Image.new("RGB", (320, 1), "red").save(tmp_path / "strip.png")
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            address = f"http://127.0.0.1:{server.server_port}"
            own = backbone("qwen3_vl")
            made, local = (
                read_messages(own._inputs, user({"type": "image", "image": f"{where}/strip.png"}))
                for where in (address, tmp_path)
            )
            assert torch.equal(made.tensors["pixel_values"], local.tensors["pixel_values"])
            with pytest.raises(BackboneError, match=r"cannot be read \(404 .*; check its path or URL"):
                read_messages(own._inputs, user({"type": "image", "image": f"{address}/none.png"}))
        finally:
            server.shutdown()
            thread.join()


def test_text_messages_are_a_text_prompt() -> None:
    own = backbone("qwen3_vl")
    expected = own.generate(None, "Which?", Sampling(max_new_tokens=4))
    assert own.chat(user("Which?"), Sampling(max_new_tokens=4)) == expected
    assert own.chat([{"role": "user", "content": "Which?"}], Sampling(max_new_tokens=4)) == expected


def test_several_turns_and_a_system_prompt_are_kept() -> None:
    own = backbone("qwen3_vl")
    messages = [
        {"role": "system", "content": "Reply with a letter."},
        {"role": "user", "content": "Which?"},
        {"role": "assistant", "content": "B"},
        {"role": "user", "content": "How many?"},
    ]
    _, processor = reference("qwen3_vl")
    prompt = processor.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    assert list(read_messages(own._inputs, messages).ids) == processor.tokenizer(prompt)["input_ids"]


def test_frames_in_a_message_are_a_video_with_their_times() -> None:
    own = backbone("qwen3_vl")
    frames = pictures(4, times=[0.5, 2.0, 9.0, 30.0])
    expected = own.generate(frames, "Which?", Sampling(max_new_tokens=4))
    assert (
        own.chat(user({"type": "video", "video": frames}, "Which?"), Sampling(max_new_tokens=4)) == expected
    )


@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3_vl"])
def test_a_video_file_gives_the_frames_that_qwen_vl_utils_would_take(family: str, tmp_path: Path) -> None:
    path = clip(tmp_path / "clip.mp4")
    own = backbone(family)
    made = read_messages(own._inputs, user({"type": "video", "video": str(path), "nframes": 4}, "Which?"))
    text = own._tokenizer.decode(made.ids)
    # Four of 32 frames from first to last: torch.linspace(0, 31, 4) is 0, 10.3, 20.7, 31 at 4 fps.
    # The decoder takes what is on display at 0, 2.583, 5.167 and 7.75 s: frames 0, 10, 20 and 31.
    if family == "qwen3_vl":
        assert "<1.2 seconds>" in text  # (0 + 2.5) / 2
        assert "<6.4 seconds>" in text  # (5.0 + 7.75) / 2
    else:
        assert made.intervals[0] == pytest.approx(2 * 7.75 / 3)
    assert int(made.tensors["video_grid_thw"][0, 0]) == 2
    side = own._inputs.patch // 2
    greys = made.tensors["pixel_values_videos"].reshape(2, -1, 3, 2, side, side)
    mean = torch.tensor(backbone(family)._inputs.processor.video_processor.image_mean)[:, None]
    std = torch.tensor(backbone(family)._inputs.processor.video_processor.image_std)[:, None]
    shown = greys.mean(dim=(1, 4, 5)) * std + mean  # (patch in time, colour, frame)
    assert (shown.mean(1).flatten() * 255).tolist() == pytest.approx([0, 40, 80, 124], abs=4)


def test_part_of_a_video_file_and_frames_a_second(tmp_path: Path) -> None:
    path = clip(tmp_path / "clip.mp4")
    own = backbone("qwen3_vl")
    part = {"type": "video", "video": f"file://{path}", "fps": 1.0, "video_start": 2.0, "video_end": 6.0}
    text = own._tokenizer.decode(read_messages(own._inputs, user(part, "Which?")).ids)
    # Four seconds at one frame a second: at 2.0, 3.25, 4.5 and 5.75 s.
    assert [shown in text for shown in ("<2.6 seconds>", "<5.1 seconds>")] == [True, True]
    # The budget also bounds a video without settings.
    whole = read_messages(own._inputs, user({"type": "video", "video": str(path)}, "Which?"))
    assert int(whole.tensors["video_grid_thw"][0, 0]) * 2 == own.frames == 8
    assert Video.open(path).duration == pytest.approx(8.0, abs=0.3)


def test_several_videos_of_different_lengths_keep_their_budget() -> None:
    own = backbone("qwen3_vl")
    shots = [pictures(2, 200, 200), pictures(6, 200, 200, seed=1)]
    messages = user(
        {"type": "video", "video": shots[0]}, "then", {"type": "video", "video": shots[1]}, "Which?"
    )
    grids = read_messages(own._inputs, messages).tensors["video_grid_thw"]
    assert grids.tolist() == [[1, 4, 4], [3, 4, 4]]  # 64 x 64 = the budget
    assert own.chat(messages, Sampling(max_new_tokens=2)).token_ids


def test_images_as_a_video() -> None:
    own = backbone("qwen3_vl")
    images = [Image.fromarray(frame.image) for frame in pictures(4)]
    made = own.chat(
        user({"type": "video", "video": images, "sample_fps": 0.5}, "Which?"), Sampling(max_new_tokens=4)
    )
    frames = pictures(4, times=[0.0, 2.0, 4.0, 6.0])
    assert made == own.generate(frames, "Which?", Sampling(max_new_tokens=4))


def test_parts_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    own = backbone("qwen3_vl")
    with pytest.raises(BackboneError, match=r"nowhere\.png"):
        own.chat(user({"type": "image", "image": str(tmp_path / "nowhere.png")}, "Which?"))
    with pytest.raises(VideoError, match=r"nowhere\.mp4"):
        own.chat(user({"type": "video", "video": str(tmp_path / "nowhere.mp4")}, "Which?"))
    with pytest.raises(BackboneError, match="1 frames"):
        own.chat(user({"type": "video", "video": pictures(1)}, "Which?"))
    with pytest.raises(BackboneError, match="'video' has neither an image nor a video"):
        own.chat(user({"type": "video"}, "Which?"))
    with pytest.raises(BackboneError, match="nframes should in interval"):
        own.chat(user({"type": "video", "video": str(clip(tmp_path / "a.mp4")), "nframes": 400}, "Which?"))
    with pytest.raises(BackboneError, match="no chat messages"):
        own.chat([])
