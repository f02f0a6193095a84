"""(l) `videopro` with every module that needs no download: prepared programs search by an encoder with random
weights, read signs, and look for boxes."""

from __future__ import annotations

from functools import partial

from perf.battery.cases import Bench, Case, Figures
from perf.battery.encoding import make_encoder
from perf.battery.inference import run

TITLE = "All modules: videopro with prepared programs over generated videos"
PROGRAM = """
def execute_command(video, question, choices):
    intervals, clips = get_informative_clips(video, "a red ring", 2)
    for clip in clips:
        frames = extract_frames(clip, 2)
        print(run_ocr(frames[0]), detect_object(frames[0], "ring"), query_yn(frames, "Is a ring shown?"))
    tracks = track_object(frames, "ring")
    return query_mc(trim_frames(video, 0, video.duration, num_frames=16), question, choices)
"""


def cases(bench: Bench) -> list[Case]:
    return [Case("videopro, all modules", partial(ask, bench))]


def ask(bench: Bench) -> Figures:
    """One run, whose program is the same for each question."""
    program = bench.path("program.py")
    program.write_text(PROGRAM)
    options = [f"planner=file:{program}", f"encoder=languagebind:{make_encoder(bench)}"]
    return run(bench, "videopro", [*options, "text_encoder=none", "detector=backbone", "tracker=detector"])
