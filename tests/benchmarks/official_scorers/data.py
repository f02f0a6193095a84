"""Questions in each benchmark's own format, made of `replies.asked`; no text is a benchmark's."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pyarrow
from pyarrow import parquet

from tests.benchmarks.official_scorers.replies import (
    COUNT,
    SEED,
    Asked,
    asked,
    grade_replies,
    interval_replies,
    judge_replies,
)
from tests.support.benchmark_world import cg
from tests.support.benchmark_world import mlvu as mlvu_record

Reply = TypeVar("Reply")
Replies = Mapping[str, str]

LVB_GROUPS = (15, 60, 600, 3600)
LVB_CATEGORIES = ("S2E", "T2A", "SSS")
MME_LENGTHS = ("short", "medium", "long")
MME_DOMAINS = ("Knowledge", "Life Record", "Multilingual")
MME_TASKS = ("Counting Problem", "Object Reasoning", "OCR Problems", "Temporal Reasoning")
LVBENCH_TYPES = ("key information retrieval", "event understanding", "reasoning", "temporal grounding")
MLVU_TASKS = ("plotQA", "needle", "ego", "count", "order", "anomaly_reco", "topic_reasoning")
NEXTQA_TYPES = ("CW", "CH", "TN", "TC", "DC", "DL", "DO")
CG_DOMAINS = ("Life Record", "Driving", "News")
CG_KINDS = ("Entity Perception", "Time Cognition", "Hallucination")


@dataclass(frozen=True)
class World:
    """A benchmark's questions and replies."""

    asked: tuple[Asked, ...]
    files: Mapping[str, Any]
    """The annotation files by name: what `json.dump` takes, or a text; of .parquet, its rows."""
    ids: tuple[str, ...]
    """The id of each question, as `videopro.benchmarks.load` makes it."""

    def write(self, folder: Path) -> None:
        """Write the annotation files."""
        for name, content in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix == ".parquet":
                parquet.write_table(pyarrow.Table.from_pylist(content), path)
            else:
                text = content if isinstance(content, str) else json.dumps(content)
                path.write_text(text, encoding="utf-8")


def exactly(count: int) -> Callable[[random.Random], int]:
    """Every question has so many options."""
    return lambda rng: count


def videomme() -> World:
    """Four options; three questions about each video."""
    found = tuple(asked(exactly(4)))
    videos = [
        {
            "video_id": f"{first.number // 3:03}",
            "videoID": f"video{first.number // 3:06}",
            "duration": MME_LENGTHS[first.group % 3],
            "domain": MME_DOMAINS[first.group % len(MME_DOMAINS)],
            "sub_category": "Geography",
            "missing": False,
            "questions": [
                {
                    "question_id": str(own.number),
                    "task_type": MME_TASKS[own.group % len(MME_TASKS)],
                    "question": own.text,
                    "options": lettered(own, "{letter}. {text}"),
                    "answer": own.gold,
                    "response": own.reply,
                }
                for own in found[first.number : first.number + 3]
            ],
        }
        for first in found[::3]
    ]
    return World(found, {"Video-MME.json": videos}, tuple(str(own.number) for own in found))


def longvideobench() -> World:
    """Four or five options."""
    found = tuple(asked(lambda rng: rng.choice((4, 5))))
    records = [
        {
            "id": f"v{own.number}_0",
            "video_path": f"v{own.number}.mp4",
            "question": own.text,
            "candidates": list(own.choices),
            "correct_choice": place_of(own),
            "question_category": LVB_CATEGORIES[own.group % 3],
            "duration_group": LVB_GROUPS[own.group % 4],
            **{f"option{i}": (*own.choices, "N/A")[i] for i in range(5)},
        }
        for own in found
    ]
    return World(found, {"lvb_val.json": records}, tuple(f"v{own.number}_0" for own in found))


def lvbench() -> World:
    """Four options, in the question's text; one or two abilities."""
    found = tuple(asked(exactly(4)))
    lines = [
        {
            "key": f"video{own.number}",
            "type": "tv",
            "qa": [
                {
                    "uid": str(own.number),
                    "question": "\n".join([own.text, *lettered(own, "({letter}) {text}")]),
                    "answer": own.gold,
                    "question_type": sorted(
                        {LVBENCH_TYPES[own.group % 4], LVBENCH_TYPES[own.group // 7 % 4]}
                    ),
                }
            ],
        }
        for own in found
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    return World(found, {"video_info.meta.jsonl": text}, tuple(str(own.number) for own in found))


def mlvu() -> World:
    """Four options; a twentieth of the golds is not among them, or stands twice, as in the real files."""
    found = tuple(asked(exactly(4)))
    files: dict[str, list[dict[str, Any]]] = {
        f"json/{place}_{task}.json": [] for place, task in enumerate(MLVU_TASKS, start=1)
    }
    ids = []
    for own in found:
        name = list(files)[own.group % len(files)]
        candidates, answer = list(own.choices), own.choices[place_of(own)]
        if own.group % 40 == 1:
            answer = "something else"
        elif own.group % 40 == 2:
            candidates[3] = answer
        kind = name.split("_", 1)[1].removesuffix(".json")
        files[name].append(mlvu_record(f"v{own.number}.mp4", candidates, answer, kind, question=own.text))
        ids.append(f"{Path(name).stem}/{len(files[name])}")
    return World(found, files, tuple(ids))


def cg_bench() -> World:
    """Five to eight options."""
    found = tuple(asked(lambda rng: rng.randint(5, 8)))
    clues = [clue for _, clue in interval_replies(random.Random(SEED))]
    records = [
        {
            **cg(own.number, clue, own.gold),
            "question": own.text,
            "answer": own.choices[place_of(own)],
            "choices": list(own.choices),
            "domain": CG_DOMAINS[own.group % 3],
            "sub_category": CG_KINDS[own.group // 3 % 3],
            "duration": 300 + own.group % 3600,
        }
        for own, clue in zip(found, clues, strict=True)
    ]
    return World(found, {"cgbench_mini.json": records}, tuple(str(own.number) for own in found))


def cg_bench_runs() -> tuple[World, Replies, Replies, Mapping[str, tuple[str, str]], Replies]:
    """The questions with all of their replies: of a second run, in which every third is the gold letter; that
    name intervals; of a judge of open answers; and answers in words."""
    world = cg_bench()

    def by_id(replies: Iterable[Reply]) -> dict[str, Reply]:
        return dict(zip(world.ids, replies, strict=True))

    return (
        world,
        by_id(own.gold if own.number % 3 == 0 else own.reply for own in world.asked),
        by_id(reply for reply, _ in interval_replies(random.Random(SEED))),
        by_id(judge_replies(random.Random(SEED))),
        by_id(f'```json\n{{"result": "{own.choices[0]}"}}\n```' for own in world.asked),
    )


def nextqa() -> World:
    """Five options."""
    found = tuple(asked(exactly(5)))
    rows = ["video,qid,question,answer,type,a0,a1,a2,a3,a4"]
    for own in found:
        options = ",".join(own.choices)
        kind = NEXTQA_TYPES[own.group % len(NEXTQA_TYPES)]
        rows.append(f"{own.number},0,{own.text},{place_of(own)},{kind},{options}")
    return World(found, {"val.csv": "\n".join(rows) + "\n"}, tuple(f"{own.number}_0" for own in found))


def egoschema() -> World:
    """Five options."""
    found = tuple(asked(exactly(5)))
    records = [
        {"q_uid": f"u{own.number}", "question": own.text, **{f"option {i}": own.choices[i] for i in range(5)}}
        for own in found
    ]
    gold = {f"u{own.number}": place_of(own) for own in found}
    files = {"questions.json": records, "subset_answers.json": gold}
    return World(found, files, tuple(f"u{own.number}" for own in found))


def mmbench_video(dimensions: Sequence[str]) -> tuple[str, tuple[str | None, ...]]:
    """The TSV of open questions, each with one or two of the `dimensions`, and a judge's replies."""
    rng = random.Random(SEED)
    rows = ["index\tvideo\tvideo_type\tquestion\tanswer\tdimensions\tvideo_path"]
    for number in range(COUNT):
        own = rng.sample(list(dimensions), rng.choice((1, 1, 2)))
        rows.append(f"{number}\tv{number}\tnews\tWhat ({number})?\tRain\t{own}\t./video/v{number}.mp4")
    return "\n".join(rows) + "\n", tuple(grade_replies(rng))


def place_of(own: Asked) -> int:
    """The place of the gold option, from 0."""
    return "ABCDEFGHIJ".index(own.gold)


def lettered(own: Asked, form: str) -> list[str]:
    """The options with their letters."""
    return [
        form.format(letter=letter, text=text) for letter, text in zip("ABCDEFGHIJ", own.choices, strict=False)
    ]
