"""Counts what the filters of a synthesis leave of CG-Bench, and what its plan expects, on annotations of its
shape.

    python -m perf.training_data [--output perf/training_data.json]

The official file is not ours to keep, so its shape is made here: 12,129 questions about 1,219 videos, and a
mini split of 3,000 of them that has a question about 1,118 videos, as published. Options, families and
lengths are as often as among the 300 records that we have seen. A test set of LVBench's form shares five
videos with it by their ids on YouTube, and two questions by their words. The filters and the plan are those
of `videopro synthesize --config cg_bench`.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from perf import ROOT
from perf.command import run_command
from perf.recorded import print_tables
from perf.recording import write_record
from videopro.benchmarks import CG_BENCH_FILES
from videopro.cli import build_settings, read_yaml, setting
from videopro.data_synthesis.decontamination import find_evaluation_videos
from videopro.data_synthesis.guard import DecontaminationGuard
from videopro.data_synthesis.plan import make_plan
from videopro.data_synthesis.questions import QuestionSelection, load_source, select_questions
from videopro.data_synthesis.settings import SynthesisConfig
from videopro.data_synthesis.teacher import ReplyTokens, TeacherUsage

RECORD = "perf/training_data.json"
VIDEOS, QUESTIONS, MINI_QUESTIONS, MINI_VIDEOS = 1219, 12129, 3000, 1118
LIMIT = 5000
# Of the first 300 records of the mini split.
_FAMILIES = {
    "Entity Perception": 76, "Event Perception": 59, "Event Cognition": 35, "Entity Cognition": 29,
    "Text Perception": 28, "2D Spatial Perception": 23, "Hallucination": 20, "Time Perception": 11,
    "Scene Perception": 10, "Text Cognition": 6, "Scene Cognition": 2, "Time Cognition": 1,
}  # fmt: skip
_OPTIONS = {5: 3, 6: 89, 7: 134, 8: 74}
_LENGTHS = (548, 6016)
_QUESTION_CHARACTERS, _OPTION_CHARACTERS = 128, 19
_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_SHARED_VIDEOS, _SHARED_TEXTS = 5, 2


@dataclass(frozen=True)
class DataSettings:
    """Count what a synthesis's filters leave of CG-Bench."""

    output: Path = field(default=ROOT / RECORD, metadata=setting("JSON file for the figures"))


def questions(rng: random.Random) -> list[dict[str, Any]]:
    """Records of CG-Bench's shape; each question is about a video drawn at random, and each video has one."""
    uids = ["".join(rng.choices(_ALPHABET, k=11)) for _ in range(VIDEOS)]
    lengths = {uid: rng.randint(*_LENGTHS) for uid in uids}
    records = []
    for number in range(QUESTIONS):
        uid = uids[number] if number < VIDEOS else rng.choice(uids)
        (count,) = rng.choices(list(_OPTIONS), list(_OPTIONS.values()))
        (family,) = rng.choices(list(_FAMILIES), list(_FAMILIES.values()))
        choices = [f"option {number}-{i} ".ljust(_OPTION_CHARACTERS, "x") for i in range(count)]
        right = rng.randrange(count)
        records.append(
            {
                "qid": number,
                "video_uid": uid,
                "question": f"Question {number} about the video ".ljust(_QUESTION_CHARACTERS, "x") + "?",
                "answer": choices[right],
                "choices": choices,
                "right_answer": "ABCDEFGH"[right],
                "clue_intervals": [[10, 20]],
                "domain": "Life Record",
                "sub_category": family,
                "duration": lengths[uid],
            }
        )
    return records


def mini_of(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """3,000 of the records, drawn at random until they are about as many videos as those published."""
    for seed in range(10_000):
        drawn = random.Random(seed).sample(records, MINI_QUESTIONS)
        if len({record["video_uid"] for record in drawn}) == MINI_VIDEOS:
            return drawn
    raise AssertionError(f"no draw of {MINI_QUESTIONS} questions is about {MINI_VIDEOS} videos")


def test_set(records: Sequence[dict[str, Any]], rng: random.Random) -> list[dict[str, Any]]:
    """Lines of LVBench's form about videos of which five are of CG-Bench, with two of its questions."""
    shared = rng.sample(sorted({record["video_uid"] for record in records}), _SHARED_VIDEOS)
    texts = [record["question"] for record in rng.sample(list(records), _SHARED_TEXTS)]
    uids = [*shared, *("".join(rng.choices(_ALPHABET, k=11)) for _ in range(103 - _SHARED_VIDEOS))]
    return [
        {
            "key": uid,
            "type": "cartoon",
            "qa": [
                {
                    "uid": str(number),
                    "question": (texts[number] if number < len(texts) else f"What is shown {number}?")
                    + "\n(A) a\n(B) b\n(C) c\n(D) d",
                    "answer": "A",
                    "question_type": ["summarization"],
                    "time_reference": "",
                }
            ],
            "video_info": {"duration_minutes": 60},
        }
        for number, uid in enumerate(uids)
    ]


def write_files(folder: Path) -> None:
    """The annotation files, as their archives unpack them."""
    rng = random.Random(0)
    records = questions(rng)
    (folder / "cg").mkdir()
    (folder / "lvbench").mkdir()
    (folder / "cg" / CG_BENCH_FILES["full"]).write_text(json.dumps(records))
    (folder / "cg" / CG_BENCH_FILES["mini"]).write_text(json.dumps(mini_of(records)))
    lines = "\n".join(json.dumps(line) for line in test_set(records, rng))
    (folder / "lvbench" / "video_info.meta.jsonl").write_text(lines)


def configured(folder: Path, **changes: Any) -> SynthesisConfig:
    """The shipped settings, on these files."""
    settings = read_yaml(ROOT / "configs" / "synthesis" / "cg_bench.yaml")
    more = {"root": str(folder / "cg"), "output": str(folder / "out"), **changes}
    return build_settings(SynthesisConfig, {**settings, **more}, "cg_bench.yaml")


def selected(config: SynthesisConfig) -> tuple[QuestionSelection, DecontaminationGuard]:
    """Its questions in their order, and its guard."""
    source = load_source(config.source, split=None, root=config.root, world_seed=None)
    return select_questions(source, seed=config.seed), DecontaminationGuard(config, source)


def leaving_videos_out(folder: Path) -> dict[str, int]:
    """What was left when the videos of the mini split were left out, and a limit was counted before that."""
    selection, guard = selected(configured(folder, cg_bench_mini="videos"))
    limited = selection.select(limit=LIMIT)
    held = find_evaluation_videos(selection.select(), guard.excluded, guard.seeds)
    return {
        "questions": sum(item.video_key not in held for item in selection.select()),
        "of limit": sum(item.video_key not in held for item in limited),
    }


def count(request: DataSettings) -> None:
    """Count, record and print."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_files(folder)
        before = leaving_videos_out(folder)
        config = configured(folder, exclude=[f"lvbench:{folder / 'lvbench'}"])
        selection, guard = selected(config)
        items = guard.allowed(selection)
        nothing: dict[str, Any] = {"spent": TeacherUsage(), "replies": ReplyTokens(), "has_files": False}
        plan = make_plan(config, selection.filters, items, [], **nothing)
        limited = guard.allowed(selected(config)[0], limit=LIMIT)
        capped = make_plan(configured(folder, max_cost=100.0), selection.filters, items, [], **nothing)
    record = {
        "limit": LIMIT,
        "before": before,
        "after": {"questions": len(items), "of limit": len(limited)},
        "steps": [asdict(step) for step in selection.filters.steps],
        "plan": plan,
        "ends at with max_cost 100": capped["teacher"]["ends at"],
    }
    write_record(request.output, record)
    print_tables(RECORD, record)


if __name__ == "__main__":
    run_command(DataSettings, count, "stopped")
