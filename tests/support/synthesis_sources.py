"""A small CG-Bench on disk, as a source of questions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def cg(**changes: Any) -> dict[str, Any]:
    """A record of CG-Bench's shape; ours, as the research licence asks."""
    made = {
        "qid": 7,
        "video_uid": "abcDEF-1_xy",
        "question": "What does he lift?",
        "answer": "a crate",
        "choices": ["a bag", "a crate", "a chair", "a box", "a bin"],
        "right_answer": "B",
        "clue_intervals": [[10, 14.5], [60, 71]],
        "domain": "Life Record",
        "sub_category": "Entity Perception",
        "duration": 900,
    }
    return {**made, **changes}


def write_cg(folder: Path, *records: Any, name: str = "cgbench.json") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps(list(records)))
    return folder
