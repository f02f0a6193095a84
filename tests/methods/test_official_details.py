"""The frames and subtitle lines that official loaders show of random videos, and ours
(tests/benchmarks/official_scorers/recorded/details.json, with repository, file and commit)."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.official_scorers.details import clue_cases, jsonl, line_cases, srt, word_cases
from tests.support import ROOT
from tests.support import scenes as world
from tests.support.adapting import adapted
from tests.support.scenes import SceneBackbone, item
from videopro.backbones import Interleaved
from videopro.backbones.wrappers import Meter
from videopro.benchmarks import Protocol
from videopro.benchmarks.cg_bench import LONG_PROMPT
from videopro.benchmarks.contributed.videomme_v2 import PROTOCOLS
from videopro.methods import MethodContext, create
from videopro.methods.native import lines_before, shown_lines
from videopro.video import Subtitles, clue_times, load_subtitles

RECORDED: dict[str, Any] = json.loads(
    (ROOT / "tests/benchmarks/official_scorers/recorded/details.json").read_text(encoding="utf-8")
)


def test_clues_are_shown_by_cg_benchs_frames() -> None:
    for case, frames in zip(clue_cases(), RECORDED["clues"], strict=True):
        times = clue_times(list(map(tuple, case["clue"])), 1e6, case["fps"], case["frames"])
        own = [math.floor(time * case["fps"]) for time in times]
        # Where every interval has at least one frame, the script may show more than it was asked for.
        assert own == frames[: case["frames"]], case


def subtitles(case: dict[str, Any], folder: Path) -> Subtitles:
    path = folder / "v.srt"
    path.write_text(srt(case))
    return load_subtitles(path, duration=float(case["duration"]))


def test_lines_stand_between_the_frames_as_longvideobench_puts_them(tmp_path: Path) -> None:
    for case, expected in zip(line_cases(), RECORDED["interleaved"], strict=True):
        lines = shown_lines(subtitles(case, tmp_path), "interleaved", case["times"])
        *before, after = lines_before(lines, case["times"])
        own = [
            text for i, said in enumerate(before) for text in (*(line.text for line in said), f"frame {i}")
        ]
        assert [*own, *(line.text for line in after)] == expected, case


def test_lines_at_the_frames_are_cg_benchs(tmp_path: Path) -> None:
    for case, expected in zip(line_cases(), RECORDED["inside"], strict=True):
        times = [round(time * 1000) / 1000 for time in case["times"]]
        lines = shown_lines(subtitles(case, tmp_path), "frames_inside", times)
        said = list(dict.fromkeys(LONG_PROMPT.subtitle_line(line) for line in lines))
        own = LONG_PROMPT.subtitles.replace("{lines}", "\n".join(said)) if said else ""
        assert own == expected, case


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.name)
def test_frames_and_words_are_video_mme_v2s(protocol: Protocol, tmp_path: Path) -> None:
    for number, (case, shown) in enumerate(zip(word_cases(), RECORDED["videomme_v2"], strict=True)):
        path = tmp_path / f"{number}.jsonl"
        path.write_text(jsonl(case))
        backbone = SceneBackbone(lambda request: "B")
        context = MethodContext(world.video(), backbone, protocol, meter=Meter())
        options = adapted("native", {"frames": case["frames"]}, protocol=protocol).options
        asked = item(subtitles=None if protocol.subtitles == "none" else path)
        create("native", options).run(asked, context)
        (request, *_), (frames,) = backbone.written[0], backbone.shown
        texts = request.visual.texts if isinstance(request.visual, Interleaved) else [""] * len(frames)
        pairs = zip(texts, frames, strict=True)
        # Two frames a second.
        parts = [part for text, frame in pairs for part in (text, round(frame.time * 2)) if part != ""]
        assert [*parts, request.text] == shown[protocol.name], case


def test_the_record_is_not_empty() -> None:
    counts = {name: sum(map(bool, RECORDED[name])) for name in ("clues", "interleaved", "inside")}
    assert all(50 < count <= len(RECORDED[name]) == 150 for name, count in counts.items())
