"""What official code shows of random videos: CG-Bench's frames of a clue, and subtitle lines of CG-Bench and
LongVideoBench. Ours are compared with them in tests/methods/test_official_details.py."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

from tests.benchmarks.official_scorers.replies import SEED

CASES = 150
_FPS = (23.976, 25.0, 29.97, 30.0)


def clue_cases() -> list[dict[str, Any]]:
    """Clues of one to four intervals, apart from each other, as CG-Bench lists them."""
    rng = random.Random(SEED)
    made = []
    for _ in range(CASES):
        end, clue = rng.uniform(0, 60), []
        for _ in range(rng.randint(1, 4)):
            start = round(end + rng.uniform(1, 200))
            end = start + rng.choice((1, 2, 5, 10, 40))
            clue.append([start, end])
        made.append({"clue": clue, "fps": rng.choice(_FPS), "frames": rng.choice((8, 32))})
    return made


def line_cases() -> list[dict[str, Any]]:
    """Subtitle lines in milliseconds, some short, some overlapping, and the times (s) of frames."""
    rng = random.Random(SEED)
    made = []
    for _ in range(CASES):
        duration = rng.randint(5, 60)
        # No two begin together: the official loaders keep the file's order, ours sorts such lines by end.
        starts = sorted(rng.sample(range(0, duration * 1000 - 200, 50), rng.randint(1, 12)))
        ends = [min(duration * 1000, start + rng.choice((200, 900, 1000, 2500, 4000))) for start in starts]
        n = rng.randint(1, duration)
        made.append(
            {
                "lines": [
                    [start, end, f"line {i}"] for i, (start, end) in enumerate(zip(starts, ends, strict=True))
                ],
                "times": [i * duration / n for i in range(n)],
                "duration": duration,
            }
        )
    return made


def official(repositories: Path) -> dict[str, Any]:
    """What the official code makes of the cases."""
    import pysubs2

    from tests.benchmarks.official_scorers.official.cg_bench import CG_BENCH
    from tests.benchmarks.official_scorers.official.script import Script

    script = Script("longvideobench/LongVideoBench", "longvideobench/longvideobench_dataset.py", "2aa4f91")
    loader = script.names(repositories, "timestamp_to_seconds", "insert_subtitles_into_frames")
    names = ("sample_frames_clue_average", "get_subtitles", "milliseconds_to_seconds")
    authors = CG_BENCH.names(repositories, *names, osp=_PATHS, pysubs2=pysubs2)
    clues = [
        list(map(int, authors.sample_frames_clue_average(case["clue"], case["frames"], case["fps"])))
        for case in clue_cases()
    ]
    interleaved, inside = [], []
    for case in line_cases():
        said = [{"timestamp": [start / 1000, end / 1000], "text": text} for start, end, text in case["lines"]]
        frames = [f"frame {i}" for i in range(len(case["times"]))]
        interleaved.append(
            loader.insert_subtitles_into_frames(frames, case["times"], said, 0, float(case["duration"]))
        )
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "v.srt").write_text(srt(case))
            # At 1,000 frames a second a frame's number is its millisecond.
            numbers = [round(time * 1000) for time in case["times"]]
            inside.append(authors.get_subtitles(folder, "v", 1000.0, numbers, True))
    return {
        "scripts": [vars(script), vars(CG_BENCH)],
        "clues": clues,
        "interleaved": interleaved,
        "inside": inside,
    }


class _PATHS:
    exists = staticmethod(lambda path: Path(path).exists())
    join = staticmethod(lambda *parts: str(Path(*parts)))


def srt(case: dict[str, Any]) -> str:
    """The lines of a case as a SubRip file."""
    return "".join(
        f"{i}\n{_clock(start)} --> {_clock(end)}\n{text}\n\n"
        for i, (start, end, text) in enumerate(case["lines"], start=1)
    )


def _clock(milliseconds: int) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    return f"00:{seconds // 60:02}:{seconds % 60:02},{rest:03}"
