"""Which frames a direct question shows. Expected values: worked out by hand from the official scripts that
are named."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from qwen_vl_utils.vision_process import smart_nframes

from tests.support.making_videos import make, read_number
from videopro.video import Video, clue_times, frame_times


def video(duration: float, fps: float) -> Video:
    facts: Any = SimpleNamespace(duration=duration, fps=fps)
    return cast(Video, facts)


@pytest.mark.parametrize(
    ("duration", "where", "budget", "fps", "times"),
    [
        # LongVideoBench: n = min(256, int(duration)) frames at i * duration / n.
        (8.5, "starts", 256, 1.0, [i * 8.5 / 8 for i in range(8)]),
        (3000.0, "starts", 256, 1.0, [i * 3000 / 256 for i in range(256)]),
        (0.4, "starts", 256, 1.0, [0.0]),
        # qwen_vl_utils, torch.linspace(0, 99, 4).round(): 0, 33, 66, 99 of 100 frames, each in its middle.
        (10.0, "ends", 4, None, [0.05, 3.35, 6.65, 9.95]),
        # Never a frame twice.
        (0.3, "ends", 8, None, [0.05, 0.15, 0.25]),
        (10.0, "ends", 1, None, [0.05]),
        # Where it refuses, because a pair of frames is more than there is, one is shown.
        (0.1, "ends", 64, 2.0, [0.05]),
        (10.0, "ends", 1, 2.0, [0.05]),
        # lmms-eval's own loaders, numpy.linspace(0, 98, 4, dtype=int): 0, 32, 65, 98; rounded 0, 33, 65, 98.
        (9.9, "ends_floor", 4, None, [0.05, 3.25, 6.55, 9.85]),
        (9.9, "ends", 4, None, [0.05, 3.35, 6.55, 9.85]),
        # Video-MME-v2 (extract_frames): int(i * 100 / 5), i from 1 to 4, of 100 frames; int(i * 99 / 4).
        (10.0, "between", 4, None, [2.05, 4.05, 6.05, 8.05]),
        (9.9, "between", 3, None, [2.45, 4.95, 7.45]),
        # At a rate: int(10 s * 0.3) frames, numbered int(i * 10 / 0.3); above the budget as without.
        (10.0, "between", 64, 0.3, [0.05, 3.35, 6.65]),
        (10.0, "between", 4, 1.0, [2.05, 4.05, 6.05, 8.05]),
        (10.0, "between", 4, 0.01, [5.05]),
        (10.0, "midpoints", 2, None, [2.5, 7.5]),
        (10.0, "midpoints", 64, 0.2, [2.5, 7.5]),
    ],
)
def test_times_of_frames(
    duration: float, where: Any, budget: int, fps: float | None, times: list[float]
) -> None:
    """Of videos of 10 frames a second."""
    assert frame_times(video(duration, 10.0), where, budget, fps) == pytest.approx(times)


@pytest.mark.parametrize("rate", [10.0, 24.0, 30000 / 1001, 60.0])
def test_ends_at_a_rate_are_the_frames_of_qwen_vl_utils(rate: float) -> None:
    """Its own count, and the numbers that its readers take with it."""
    for total in (4, 5, 37, 240, 1001, 17_999, 107_892):
        sampled = video(total / rate, rate)
        for fps in (0.1, 0.5, 1.0, 1.7, 2.0, 4.0, 29.97, 120.0):
            for budget in (2, 4, 7, 32, 64, 500, 768):
                n = smart_nframes(
                    {"fps": fps, "max_frames": budget, "min_frames": min(4, budget)}, total, rate
                )
                numbers = torch.linspace(0, total - 1, n).round().long().tolist()
                times = frame_times(sampled, "ends", budget, fps)
                assert [int(time * rate) for time in times] == numbers, (total, rate, fps, budget)


def test_clue_frames_lie_in_the_clues() -> None:
    # 8 frames over 10 and 30 s at 10 frames a second: 2 and 6, at the middles of equal parts.
    times = clue_times([(100, 130), (10, 20)], 200.0, 10.0, 8)
    assert times == pytest.approx([12.55, 17.55, 102.55, 107.55, 112.55, 117.55, 122.55, 127.55])
    # All frames of a clue that has no more than the budget.
    assert clue_times([(1.0, 1.3)], 200.0, 10.0, 8) == pytest.approx([1.05, 1.15, 1.25])
    assert len(clue_times([(0, 100)], 200.0, 25.0, 32)) == 32
    # An interval beyond the end of the video gives its last moment, and one without length its frame.
    assert clue_times([(300, 310)], 200.0, 10.0, 4) == [200.0]
    assert clue_times([(5, 5)], 200.0, 10.0, 4) == pytest.approx([5.05])


@pytest.fixture(scope="module")
def slides(tmp_path_factory: pytest.TempPathFactory) -> Video:
    """Three pictures, shown from 0, 20 and 50 s on; the last one for a second."""
    path = tmp_path_factory.mktemp("slides") / "slides.mkv"
    make(path, [0, 20, 50], rate=1)
    return Video.open(path)


def test_fewer_pictures_than_frames_are_each_shown_once(slides: Video) -> None:
    frames = slides.sample(64)
    assert [read_number(frame.image) for frame in frames] == [0, 1, 2]
    assert [frame.time for frame in frames] == pytest.approx([0.0, 20.0, 50.0])
    # Of a part: what is on display in it.
    assert [frame.time for frame in slides.sample(8, start=10.0, end=30.0)] == pytest.approx([0.0, 20.0])
    # Whoever names times gets a frame for each.
    assert len(slides.frames([1.0, 2.0, 3.0])) == 3
