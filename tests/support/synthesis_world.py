"""What tests of synthesis share: hand-made records, a backbone that is unsure or wrong on purpose, a
teacher's replies, and the command line with them (`python -m tests.support.synthesis_world ARGS`)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.support.fakes import ColourBackbone, make_benchmark
from videopro.backbones.base import ChoiceRequest
from videopro.question import Answer
from videopro.traces import SCHEMA, Execution, Failure, Round, Trace, VideoRef
from videopro.video import Frame

NO_MODELS = [
    word
    for part in ("encoder", "text-encoder", "ocr", "detector", "tracker")
    for word in (f"--{part}", "none")
]

# ---- hand-made records -------------------------------------------------------------------------------------

CHOICES = ("red", "green", "blue", "grey")


def code(number: int = 2, *, name: str = "query_mc") -> str:
    """A program of several steps; another number is another program."""
    return (
        "def execute_command(video, question):\n"
        f"    frames = extract_frames(video, num_frames={number})\n"
        f"    return {name}(frames, question, choices)"
    )


def written(program: str, planning: str = "Look at frames.") -> str:
    return f"<planning>\n{planning}\n</planning>\n<code>\n{program}\n</code>"


def answered(letter: str | None, confidence: float) -> Execution:
    status: Any = "ok" if letter is not None else "empty"
    return Execution(status, Answer(letter, confidence if letter is not None else 0.0, raw=letter or ""))


def crashed(log: str = "NameError: no frames (line 2)", type: str = "NameError") -> Execution:
    return Execution("failed", error=Failure(type, "no frames", 2, log))


def native(letter: str | None, confidence: float) -> Round:
    execution = answered(letter, confidence)
    return Round("native", execution.answer.raw, execution=execution, mode="native")


def program(
    execution: Execution | None,
    number: int = 2,
    *,
    kind: str = "plan_program",
    refines: int | None = None,
    raw: str | None = None,
    text: str | None = None,
    mode: Any = "program",
    **more: Any,
) -> Round:
    """A round of a program; `text` its code, `raw` the whole reply."""
    own = text if text is not None else code(number)
    return Round(
        kind, raw if raw is not None else written(own), own, execution, mode, refines=refines, **more
    )


def record(*rounds: Round, gold: str | None = "A", **changes: Any) -> Trace:
    trace = Trace(
        rounds,
        schema=SCHEMA,
        run_key="key",
        question_id="q1",
        video=VideoRef("/videos/v.mp4", "v", "content", 60.0),
        question="Which colour is shown?",
        choices=CHOICES,
        gold=gold,
        groups={"family": "attribute", "duration": "long"},
    )
    return replace(trace, **changes)


# ---- a world for whole runs -------------------------------------------------------------------------------


class MoodyBackbone(ColourBackbone):
    """Right with 0.9, but of a question with "(1)" in its text it is unsure (0.4) and of one with "(2)" wrong
    (0.8), when it looks at as many frames as it can: as natively."""

    def choose(self, request: ChoiceRequest, frames: Sequence[Frame]) -> Answer:
        answer = super().choose(request, frames)
        letter = answer.letter
        if letter is None or len(frames) < self.frames:
            return answer
        sure = 0.9
        if "(1)" in request.question.text:
            sure = 0.4
        if "(2)" in request.question.text:
            letters = request.question.letters
            letter, sure = letters[(letters.index(letter) + 1) % len(letters)], 0.8
        return replace(
            answer, letter=letter, confidence=sure, raw=letter, letters={**answer.letters, letter: sure}
        )


def load_moody(model: str, **settings: Any) -> MoodyBackbone:
    return MoodyBackbone(model, **settings)


def make_questions(root: Path, videos: int = 3, questions: int = 3) -> None:
    """`make_benchmark` with every stated answer right."""
    import json

    right = make_benchmark(root, videos=videos, questions=questions)
    path = root / "questions.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps({**line, "answer": right[line["id"]]}) + "\n" for line in lines))


BROKEN = written(code(2).replace("frames, question", "clips, question"))
"""NameError."""
LIKE_NATIVE = written(
    "def execute_command(video, question):\n"
    "    frames = trim_frames(video, 0, duration, num_frames=4)\n"
    "    return query_mc(frames, question, choices)"
)
"""As wrong and as unsure as the native answer."""
RIGHT = written(code(2))
NO_FORM = "I would look at the video, and then answer."


def teach(prompt: str, seed: int) -> str:
    """What the teacher of these tests writes: its refinements are right, of its first programs a part."""
    if "program:\n<code>" in prompt:
        return RIGHT
    return (BROKEN, LIKE_NATIVE, RIGHT, NO_FORM)[seed % 4]


if __name__ == "__main__":
    from videopro.data_synthesis.run import main

    sys.exit(main(load=load_moody))
