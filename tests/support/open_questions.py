"""A folder of open questions about colours, and a backbone that writes programs and answers in words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.fakes import ColourBackbone, make_video
from tests.support.reason_world import colour_of, reply
from videopro.backbones import Backbone, GenerateRequest
from videopro.video import Frame

PROGRAM = reply("return query_frames(extract_frames(video, num_frames=4), question)")
COLOURS = ("red", "green", "blue", "grey", "red", "green")
"""The colour of each video."""


class WritingBackbone(ColourBackbone):
    """Writes PROGRAM if it is asked for a function, otherwise the colour of the frames with an article."""

    def write(self, request: GenerateRequest, frames: Sequence[Frame]) -> str:
        return PROGRAM if "Python function" in request.text else f"The {colour_of(frames[0])} one."


def load_writing(model: str, **settings: Any) -> Backbone:
    """Stands for `videopro.backbones.load_backbone`."""
    return WritingBackbone(model, **settings)


def make_open_folder(root: Path) -> None:
    """Six videos with one open question each, and one question with options. The references of three open
    questions are "the COLOUR one", of two "a COLOUR car" (one word of two), of one another word."""
    lines: list[dict[str, Any]] = []
    for place, colour in enumerate(COLOURS):
        make_video(root / f"v{place}.mp4", colour, 1.0)
        reference = f"the {colour} one" if place < 3 else f"a {colour} car" if place < 5 else "something"
        lines.append(
            {
                "id": f"q{place}",
                "video": f"v{place}.mp4",
                "question": f"Which car is it ({place})?",
                "answer" if place % 2 else "reference": reference,
                "family": "car",
            }
        )
    lines.append(
        {
            "id": "mc",
            "video": "v0.mp4",
            "question": "Which colour?",
            "choices": ["red", "green", "blue"],
            "answer": "A",
        }
    )
    (root / "questions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
