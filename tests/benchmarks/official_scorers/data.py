"""Questions in each benchmark's own format, made of `replies.asked`; no text is a benchmark's."""

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
    captions,
    grade_replies,
    interval_replies,
    judge_replies,
    time_replies,
    yes_no,
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


# ---- videopro/benchmarks/contributed ----------------------------------------------------------------------

CHAINS = ("", "[1, 2, 3, 4]", "[1, [2, 3], 4]", "[[1, 2], 3, 4]")
MVBENCH_TASKS = (
    *("action_sequence", "action_prediction", "action_antonym", "fine_grained_action", "unexpected_action"),
    *("object_existence", "object_interaction", "object_shuffle", "moving_direction", "action_localization"),
    *("scene_transition", "action_count", "moving_count", "moving_attribute", "state_change"),
    *("fine_grained_pose", "character_order", "egocentric_navigation", "episodic_reasoning"),
    "counterfactual_inference",
)
ASPECTS = ("action", "direction", "speed", "order", "attribute_change")
INTENT_TYPES = ("CW", "CH", "TN", "TP")
HARD_TYPES = ("CW", "CH", "TN", "TC", "TP")
_COLUMNS = "frame_count,width,height,question,answer,qid,type,a0,a1,a2,a3,a4"


def videomme_v2() -> World:
    """Eight options; four questions about each video, some of them in a chain."""
    found = tuple(asked(exactly(8)))
    ids = tuple(f"{own.number // 4 + 1:03}-{own.number % 4 + 1}" for own in found)
    rows = []
    for key, own in zip(ids, found, strict=True):
        structure = CHAINS[found[own.number // 4 * 4].group % len(CHAINS)]
        rows.append(
            {
                "video_id": key.split("-")[0],
                "group_type": "logic" if structure else "relevance",
                "group_structure": structure or "None",
                "question_id": key,
                "question": own.text,
                "options": "\n".join(lettered(own, "{letter}. {text}")),
                "answer": own.gold,
                "level": "123"[own.group % 3],
                "second_head": f"head {own.group % 5}",
                "third_head": f"part {own.group % 7}",
            }
        )
    return World(found, {"test.parquet": rows}, ids)


def mvbench() -> World:
    """Two to five options, 50 questions for each task; in a fortieth the right option stands twice."""
    found = tuple(asked(lambda rng: rng.randint(2, 5)))
    files: dict[str, list[dict[str, Any]]] = {f"json/{task}.json": [] for task in MVBENCH_TASKS}
    ids = []
    for own in found:
        task = MVBENCH_TASKS[own.number % len(MVBENCH_TASKS)]
        answer, candidates = own.choices[place_of(own)], list(own.choices)
        if own.group % 40 == 1:
            candidates[-1] = answer
        records = files[f"json/{task}.json"]
        records.append(
            {"video": f"v{own.number}.mp4", "question": own.text, "candidates": candidates, "answer": answer}
        )
        ids.append(f"{task}/{len(records)}")
    return World(found, files, tuple(ids))


def tempcompass(task: str) -> World:
    """One of the three tasks: two to four options, yes or no, or two captions."""
    if task == "multi-choice":
        found = asked(lambda rng: rng.randint(2, 4))
        pairs = [_with_options(own, lettered(own, "{letter}. {text}")) for own in found]
    elif task == "yes_no":
        found = yes_no()
        pairs = [(own.text, own.choices[place_of(own)]) for own in found]
    else:
        found = captions()
        pairs = [_with_options(own, own.choices) for own in found]
    videos: dict[str, dict[str, list[dict[str, str]]]] = {}
    ids = []
    for own, (question, answer) in zip(found, pairs, strict=True):
        video, aspect = str(1000 + own.number // 10), ASPECTS[own.number % len(ASPECTS)]
        records = videos.setdefault(video, {}).setdefault(aspect, [])
        records.append({"question": question, "answer": answer})
        ids.append(f"{video}/{aspect}/{len(records)}")
    return World(tuple(found), {f"questions/{task}.json": videos}, tuple(ids))


def _with_options(own: Asked, options: Sequence[str]) -> tuple[str, str]:
    return "\n".join([own.text, *options]), options[place_of(own)]


def intentqa() -> World:
    """Five options; two questions about each video."""
    found = tuple(asked(exactly(5)))
    rows = [f"video_id,{_COLUMNS}"]
    rows += [_row(own, INTENT_TYPES[own.group % len(INTENT_TYPES)]) for own in found]
    ids = tuple(f"{own.number // 2}_{own.number % 2}" for own in found)
    return World(found, {"test.csv": "\n".join(rows) + "\n"}, ids)


def nextqa_atp_hard() -> World:
    """Five options; 1,000 questions that the list names, among others, some of which are descriptive."""
    found = tuple(asked(exactly(5)))
    rows, listed = [f"video,{_COLUMNS}"], []
    for own in found:
        listed.append(str(len(rows) - 1))
        rows.append(_row(own, HARD_TYPES[own.group % len(HARD_TYPES)]))
        if own.group % 3 == 0:
            other = Asked(own.number + 10_000, own.text, own.choices, own.gold, "", own.group)
            rows.append(_row(other, ("DC", "DL", "DO", "CW", "TN")[own.group // 3 % 5]))
    files = {"val.csv": "\n".join(rows) + "\n", "atp-hard-ct4.txt": "\n".join(listed) + "\n"}
    return World(found, files, tuple(f"{own.number // 2}_{own.number % 2}" for own in found))


def _row(own: Asked, kind: str) -> str:
    options = ",".join(own.choices)
    return f"{own.number // 2},100,1,1,{own.text},{place_of(own)},{own.number % 2},{kind},{options}"


def charades_sta() -> tuple[World, dict[str, str]]:
    """Sentences with their times, two about each video, and the replies."""
    made = time_replies(random.Random(SEED))
    lines, replies = [], {}
    for number, (reply, (start, end)) in enumerate(made):
        video, sentence = f"V{number // 2:04}", f"person opens door {number}."
        lines.append(f"{video} {start} {end}##{sentence}")
        replies[f"{video} {start:g}-{end:g} {sentence}"] = reply
    text = "\n".join(lines) + "\n"
    return World((), {"charades_sta_test.txt": text}, tuple(replies)), replies
