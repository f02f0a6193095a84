"""Made-up videos and questions about them, for perf/flow.py."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
from PIL import Image

from perf.battery.world import question, write_lines

HEIGHT, WIDTH, RATE, SECONDS = 240, 320, 4, 40


def make_video(path: Path, seed: int) -> None:
    """Write an H.264 file in which a blurred pattern moves sideways. A frame of 49,152 pixels takes
    36 KB as a JPEG of quality 99, and 18 KB of 95."""
    draw = np.random.default_rng(seed)
    coarse = Image.fromarray(draw.integers(64, 192, (HEIGHT // 20, WIDTH // 20, 3), dtype=np.uint8))
    picture = np.asarray(coarse.resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC))
    with av.open(str(path), "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=RATE)
        stream.height, stream.width, stream.pix_fmt = HEIGHT, WIDTH, "yuv420p"
        stream.options = {"preset": "veryfast"}
        for i in range(SECONDS * RATE):
            moved = av.VideoFrame.from_ndarray(np.roll(picture, 3 * i, 1), format="rgb24")
            container.mux(stream.encode(moved))
        container.mux(stream.encode())


def make_questions(folder: Path, videos: int, each: int) -> None:
    """A folder of videos and `each` questions about each, for `--benchmark jsonl`."""
    rows = []
    for number in range(videos):
        make_video(folder / f"{number}.mp4", number)
        for index in range(each):
            drawn = question(each * number + index)
            rows.append(
                {
                    "id": f"{number}-{index}",
                    "video": f"{number}.mp4",
                    "question": drawn.text,
                    "choices": list(drawn.choices),
                    "answer": "A",
                    "subtitles": None,
                }
            )
    write_lines(folder / "questions.jsonl", rows)
