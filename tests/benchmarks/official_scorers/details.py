"""What official code shows of random videos: CG-Bench's frames of a clue, subtitle lines of CG-Bench and
LongVideoBench, and frames and words of Video-MME-v2. Ours are compared with them in
tests/methods/test_official_details.py."""

import json
import os
import random
import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np

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


def word_cases() -> list[dict[str, Any]]:
    """Words of a video of a minute with two frames a second, and how many frames are shown."""
    rng = random.Random(SEED)
    made = []
    for _ in range(CASES // 5):
        words, at = [], 0
        for number in range(rng.randint(0, 60)):
            at += rng.choice((0, 5, 10, 15, 49, 51, 60, 400))
            end = at + rng.randint(5, 120)
            if end >= 6000:
                break
            text = f"w{number}{rng.choice(('', '', '.', '?', ','))}"
            words.append({"text": text, "start_time": at / 100, "end_time": end / 100})
            at = end
        made.append({"words": words, "frames": rng.choice((1, 3, 7, 12, 64))})
    return made


def videomme_v2(repositories: Path) -> tuple[Any, list[Any]]:
    """The script of Video-MME-v2, and what it shows in each of its settings: frames by their numbers, and
    texts between them, which a chat template puts together."""
    from PIL import Image

    from tests.benchmarks.official_scorers.official.contributed import VIDEOMME_V2
    from tests.support.scenes import QUESTION

    video = MagicMock()
    video.__len__.return_value, video.get_avg_fps.return_value = 120, 2.0
    video.__getitem__.return_value.asnumpy.return_value = np.zeros((8, 8, 3), np.uint8)
    names = (
        *("extract_frames", "load_subtitle_jsonl", "subtitle_concat_all", "group_subtitle_segments"),
        *("segments_between_timestamps", "build_chat_messages", "WO_SUB_PROMPT", "WITH_SUB_PROMPT"),
        *("WITH_SUB_PROMPT_INTERLEAVE", "THINK_PROMPT", "INSTRUCT_PROMPT"),
    )
    script = VIDEOMME_V2.names(repositories, *names, os=os, osp=os.path, Image=Image)
    options = "\n".join(
        f"{letter}. {choice}" for letter, choice in zip(QUESTION.letters, QUESTION.choices, strict=True)
    )
    row = {"video": "001", "question": QUESTION.text, "options": options}
    sys.modules["decord"] = MagicMock(VideoReader=lambda path: video)
    made = []
    for case in word_cases():
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "001.jsonl").write_text(jsonl(case))
            paths, numbers, _ = script.extract_frames("001.mp4", nframe=case["frames"], cache_dir=folder)
            shown = {}
            for name, flags in (
                ("no_subtitles", (False, False)),
                ("subtitles", (True, False)),
                ("interleaved", (True, True)),
            ):
                given = (row, folder, folder, case["frames"], -1, *flags, False, folder)
                (message,) = script.build_chat_messages(*given)
                parts: list[int | str] = []
                for part in message["content"]:
                    if part["type"] == "image":
                        parts.append(numbers[paths.index(part["path"])])
                    elif parts and isinstance(parts[-1], str):
                        parts[-1] += part["text"]
                    else:
                        parts.append(part["text"])
                shown[name] = parts
            made.append(shown)
    del sys.modules["decord"]
    return VIDEOMME_V2, made


def jsonl(case: dict[str, Any]) -> str:
    """The words of a case as Video-MME-v2's file."""
    return "".join(json.dumps(word) + "\n" for word in case["words"])


def official(repositories: Path) -> dict[str, Any]:
    """What the official code makes of the cases."""
    import pysubs2

    from tests.benchmarks.official_scorers.official.judged import CG_BENCH
    from tests.benchmarks.official_scorers.official.script import Script

    script = Script("longvideobench/LongVideoBench", "longvideobench/longvideobench_dataset.py", "2aa4f91")
    loader = script.names(repositories, "timestamp_to_seconds", "insert_subtitles_into_frames")
    names = ("sample_frames_clue_average", "get_subtitles", "milliseconds_to_seconds")
    authors = CG_BENCH.names(repositories, *names, osp=os.path, pysubs2=pysubs2)
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
    words, shown = videomme_v2(repositories)
    return {
        "scripts": [vars(script), vars(CG_BENCH), vars(words)],
        "videomme_v2": shown,
        "clues": clues,
        "interleaved": interleaved,
        "inside": inside,
    }


def srt(case: dict[str, Any]) -> str:
    """The lines of a case as a SubRip file."""
    return "".join(
        f"{i}\n{_clock(start)} --> {_clock(end)}\n{text}\n\n"
        for i, (start, end, text) in enumerate(case["lines"], start=1)
    )


def _clock(milliseconds: int) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    return f"00:{seconds // 60:02}:{seconds % 60:02},{rest:03}"
