"""Questions in the formats of the benchmarks in videopro/benchmarks/contributed; no text is theirs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from tests.benchmarks.official_scorers.data import World, exactly, lettered, place_of
from tests.benchmarks.official_scorers.replies import SEED, Asked, asked, captions, time_replies, yes_no

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
