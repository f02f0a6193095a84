"""Measures the pocket model on a split of the pocket world.

    python -m videopro.train.pocket.evaluate --model pocket --split test \\
        --output videopro/pocket/model/figures.json

The output has one entry per split; measuring a split again replaces its entry.

It measures accuracy on whole videos from 16 uniform frames, on the evidence intervals, with the relevant
subtitles or a cropped sign, and from the question text only; also boxes, captions, and the calibration of
confidence. It reads the world's scripts to know where things are: it is part of making the model, and
nothing that answers questions uses it.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from videopro import prompts
from videopro.backbones import Backbone, ChoiceRequest, GenerateRequest, Sampling, load_backbone
from videopro.cli import exit_status
from videopro.command_line import CommandLine
from videopro.pocket import world
from videopro.pocket.drawing import HEIGHT, WIDTH
from videopro.pocket.questions import PocketQuestion, generate_questions
from videopro.pocket.script import Script, make_script
from videopro.question import Question
from videopro.scoring import Accuracy, QuestionScore, accuracy, group_accuracy, reliability
from videopro.settings import setting
from videopro.storage import parse_json
from videopro.train.pocket.tasks import describe
from videopro.video import Frame, Video
from videopro.work import counted


@dataclass(frozen=True)
class EvaluateSettings:
    """What is measured."""

    model: str = field(default="pocket", metadata=setting("model as in --model of videopro infer"))
    split: str = field(default="val", metadata=setting("split of the pocket world"))
    output: Path | None = field(
        default=None, metadata=setting("JSON file with one entry per split; this split's is replaced")
    )


COMMAND = CommandLine(
    "videopro.train.pocket.evaluate",
    EvaluateSettings,
    summary="Measure the pocket model on a split of the pocket world.",
)


WAYS = {
    "whole": "16 frames over the whole video",
    "evidence": "16 frames from the evidence",
    "found": "the lines or the sign that hold the answer",
    "text": "the question alone",
}


def measure(backbone: Backbone, split: str) -> dict[str, Any]:
    """All figures of a split, as plain data."""
    folder = world.ensure(split)
    scored: dict[str, list[QuestionScore]] = defaultdict(list)
    boxes: dict[str, list[float]] = defaultdict(list)
    captions: list[bool] = []
    for name, length, seed in counted(world.video_names(split), f"measuring on {split}"):
        plan = make_script(length, seed)
        phrasing = "heldout" if split.endswith(world.HELDOUT) else "usual"
        pocket_questions = generate_questions(plan, phrasing=phrasing)
        video = Video.open(folder / "videos" / f"{name}.mp4")
        size = backbone.frame_size(video.height, video.width, backbone.frames)
        _whole(backbone, video, name, length, pocket_questions, size, scored)
        for question in pocket_questions:
            key = f"{name}_{question.kind}"
            requests = {"text": ChoiceRequest(None, _question(question))}
            if question.kind not in ("narration", "story", "weather", "main_place"):
                frames = video.frames(_spread(question.evidence, backbone.frames), size=size)
                requests["evidence"] = ChoiceRequest(frames, _question(question))
            found = _found(plan, question, video)
            if found is not None:
                requests["found"] = found
            for way, request in requests.items():
                _note(scored[way], key, name, length, question, backbone.answer_batch([request])[0])
        _stills(backbone, plan, video, boxes, captions)
    return {
        "split": split,
        "world": world.fingerprint(),
        "ways": {way: _accuracies(rows) for way, rows in scored.items()},
        "confidence": [asdict(b) for b in reliability(scored["whole"])],
        "sure": _confident(scored["whole"]),
        "boxes": {
            kind: {"n": len(ious), "recall_at_0.5": round(float(np.mean(np.array(ious) >= 0.5)), 4)}
            for kind, ious in boxes.items()
        },
        "captions": {"n": len(captions), "exact": round(float(np.mean(captions)), 4)},
    }


def _question(pocket_question: PocketQuestion) -> Question:
    return Question(pocket_question.text, pocket_question.choices)


def _note(
    rows: list[QuestionScore], key: str, video: str, length: str, pocket_question: PocketQuestion, answer: Any
) -> None:
    groups = {"family": pocket_question.family, "kind": pocket_question.kind, "length": length}
    rows.append(
        QuestionScore(
            key,
            video,
            answer.letter == pocket_question.answer,
            None,
            answer.letter is None,
            answer.confidence,
            groups,
        )
    )


def _whole(
    backbone: Backbone,
    video: Video,
    name: str,
    length: str,
    pocket_questions: Sequence[PocketQuestion],
    size: tuple[int, int] | None,
    scored: dict[str, list[QuestionScore]],
) -> None:
    with backbone.prefix(video.sample(backbone.frames, size=size)) as prefix:
        answers = backbone.answer_batch([ChoiceRequest(prefix, _question(q)) for q in pocket_questions])
    for question, answer in zip(pocket_questions, answers, strict=True):
        _note(scored["whole"], f"{name}_{question.kind}", name, length, question, answer)


def _spread(intervals: Sequence[tuple[float, float]], count: int) -> list[float]:
    """`count` times, uniform over several intervals laid end to end."""
    total = sum(end - start for start, end in intervals)
    times: list[float] = []
    done = 0.0
    for start, end in intervals:
        while len(times) < count and (len(times) + 0.5) * total / count < done + end - start:
            times.append(start + (len(times) + 0.5) * total / count - done)
        done += end - start
    return times


def _found(plan: Script, pocket_question: PocketQuestion, video: Video) -> ChoiceRequest | None:
    """The question with what a program would find for it: subtitle lines, or a sign cropped from a frame."""
    question = _question(pocket_question)
    if pocket_question.kind in ("narration", "story"):
        spans = list(pocket_question.evidence)
        if pocket_question.kind == "narration":
            start, end = spans[0]
            spans = [(start - 12, end + 12)]  # with the lines around it, as a retriever returns them
        else:
            spans = [(0.0, plan.duration)]
        lines = [line.text for line in plan.lines if any(a <= line.start < b for a, b in spans)][:60]
        context = "Subtitles:\n" + "\n".join(lines)
        return ChoiceRequest(None, question, prompts.with_context(context, prompts.multiple_choice(question)))
    if pocket_question.kind == "sign":
        start, end = pocket_question.evidence[0]
        scene = next(s for s in plan.scenes if s.start == start)
        assert scene.sign is not None
        frame = video.frames([(start + end) / 2])[0]
        return ChoiceRequest([frame.crop(_relative(scene.sign.box(), 0.2))], question)
    return None


def _relative(box: tuple[float, float, float, float], room: float = 0.0) -> tuple[float, float, float, float]:
    """A box in pixels as fractions of the frame, widened on all sides by `room` of its size and clipped to
    the frame.
    """
    x0, y0, x1, y1 = box
    dx, dy = (x1 - x0) * room, (y1 - y0) * room
    return (
        max(0.0, (x0 - dx) / WIDTH),
        max(0.0, (y0 - dy) / HEIGHT),
        min(1.0, (x1 + dx) / WIDTH),
        min(1.0, (y1 + dy) / HEIGHT),
    )


def _stills(
    backbone: Backbone, plan: Script, video: Video, boxes: dict[str, list[float]], captions: list[bool]
) -> None:
    """Boxes of actors and signs, and a caption, in one frame of each scene that is shown once."""
    wanted: list[tuple[str, GenerateRequest, tuple[float, float, float, float]]] = []
    to_caption = []
    size = backbone.frame_size(video.height, video.width, 1)
    for scene in plan.scenes:
        if scene.role != "once" or scene.actor is None:
            continue
        frame: Frame = video.frames([(scene.start + scene.end) / 2], size=size)[0]
        actor = scene.actor
        at = frame.time - scene.start
        wanted.append(("actor", GenerateRequest([frame], prompts.locate(actor.shape)), actor.box(at)))
        if scene.sign is not None:
            wanted.append(("sign", GenerateRequest([frame], prompts.locate("sign")), scene.sign.box()))
        fact = {"actor": asdict(actor), "place": scene.place, "weather": plan.weather}
        clip = video.sample(8, start=scene.start, end=scene.end, size=size)
        to_caption.append((GenerateRequest(clip, prompts.caption()), describe(fact)))
    replies = backbone.generate_batch([request for _, request, _ in wanted], Sampling(40))
    for (kind, _, box), reply in zip(wanted, replies, strict=True):
        boxes[kind].append(_overlap(reply.text, _relative(box)))
    texts = backbone.generate_batch([request for request, _ in to_caption], Sampling(24))
    captions += [text.text.strip() == want for text, (_, want) in zip(texts, to_caption, strict=True)]


def _overlap(reply: str, box: tuple[float, float, float, float]) -> float:
    """Intersection over union of a box reply (0 to 1000) and a box (0 to 1); 0 if the reply is not a box."""
    try:
        a = [v / 1000 for v in parse_json(reply)["bbox_2d"]]
        x0, y0, x1, y1 = a
    except (ValueError, KeyError, TypeError):
        return 0.0
    shared = max(0.0, min(x1, box[2]) - max(x0, box[0])) * max(0.0, min(y1, box[3]) - max(y0, box[1]))
    area = max(0.0, x1 - x0) * max(0.0, y1 - y0) + (box[2] - box[0]) * (box[3] - box[1]) - shared
    return shared / area if area > 0 else 0.0


def _accuracies(rows: list[QuestionScore]) -> dict[str, Any]:
    groups = group_accuracy(rows)
    return {
        "all": _plain(accuracy(rows)),
        **{name: {key: _plain(value) for key, value in sorted(by.items())} for name, by in groups.items()},
    }


def _plain(value: Accuracy) -> dict[str, Any]:
    return asdict(value)


def _confident(rows: list[QuestionScore]) -> dict[str, Any]:
    """The share of answers with a confidence above 0.9, and their accuracy."""
    confident = [row for row in rows if row.confidence > 0.9]
    return {"share": round(len(confident) / len(rows), 4), **_plain(accuracy(confident))}


def show(figures: dict[str, Any]) -> Table:
    """A table of accuracy by kind of question and by what the model was shown."""
    ways = [way for way in WAYS if way in figures["ways"]]
    table = Table("kind", *(WAYS[way] for way in ways), title=f"pocket model on {figures['split']}")
    kinds = list(figures["ways"]["whole"]["kind"])
    for kind in kinds:
        cells = [figures["ways"][way]["kind"].get(kind) for way in ways]
        table.add_row(kind, *(_cell(cell) if cell else "" for cell in cells))
    for length, cell in figures["ways"]["whole"]["length"].items():
        table.add_row(f"all, {length}", _cell(cell), *([""] * (len(ways) - 1)))
    table.add_row("all", *(_cell(figures["ways"][way]["all"]) for way in ways))
    return table


def _cell(value: dict[str, Any]) -> str:
    low, high = value["ci95"]
    return f"{100 * value['accuracy']:.1f} ({100 * low:.0f} to {100 * high:.0f})"


def print_figures(given: EvaluateSettings) -> None:
    """Measure, print the tables, and write the figures."""
    figures = measure(load_backbone(given.model), given.split)
    if given.output:
        known = json.loads(given.output.read_text()) if given.output.exists() else {}
        given.output.write_text(json.dumps({**known, given.split: figures}, indent=1) + "\n")
    console = Console()
    console.print(show(figures))
    console.print({key: figures[key] for key in ("sure", "boxes", "captions", "confidence")})


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status."""
    with exit_status("stopped; nothing was written") as status:
        print_figures(COMMAND.parse(argv))
    return status.code


if __name__ == "__main__":
    sys.exit(main())
