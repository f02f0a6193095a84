"""What four kinds of users type first, run and timed: python launch/first_use.py clone|wheel FOLDER

The commands are in launch/first_use.yaml. Have the environment to try first on the PATH: for `clone` that of
a fresh clone after `bash launch/demo.sh`, for `wheel` one into which the wheel was installed (`bash
launch/wheel.sh PLACE` leaves it in PLACE/env). Every command runs in FOLDER, with its output in FOLDER/said.
Writes the times to docs/results/first-use/clone.json or wheel.json after each command, continues after the
last one there, and ends with the tables of docs/results/first-use.md in docs/results/first-use/tables.md.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

CHECKOUT = Path(__file__).resolve().parent.parent
RECORDS = CHECKOUT / "docs" / "results" / "first-use"
WAYS = ("clone", "wheel")

# Pocket videos as a folder of somebody's own: 198 questions to ask, 44 to learn from.
_OWN_VIDEOS = """
import json
from pathlib import Path
from videopro.pocket import world
for folder, split, count in (("test", "val", 198), ("train", "train", 44)):
    source, target = world.ensure(split, videos=[]), Path("my_questions", folder)
    (target / "videos").mkdir(parents=True, exist_ok=True)
    lines = (source / "questions.jsonl").read_text().splitlines()[:count]
    names = {Path(json.loads(line)["video"]).stem for line in lines}
    world.ensure(split, videos=names)
    for name in names:
        for file in (source / "videos").glob(f"{name}.*"):
            (target / "videos" / file.name).unlink(missing_ok=True)
            (target / "videos" / file.name).symlink_to(file)
    kept = ("id", "video", "subtitles", "question", "choices", "answer")
    rows = [{key: row[key] for key in kept if key in row} for row in map(json.loads, lines)]
    (target / "questions.jsonl").write_text("".join(json.dumps(row) + "\\n" for row in rows))
"""
Step = dict[str, Any]


def steps() -> dict[str, list[Step]]:
    """For each user the commands of launch/first_use.yaml."""
    by_user: dict[str, list[Step]] = yaml.safe_load((CHECKOUT / "launch" / "first_use.yaml").read_text())
    return by_user


def run(command: str, folder: Path, log: Path) -> tuple[int, float]:
    """Exit status and seconds of a command typed in this folder; its output goes to a file."""
    environment = {**os.environ, "COLUMNS": "100", "HF_HUB_OFFLINE": "1"}
    environment.pop("PYTHONPATH", None)
    started = time.monotonic()
    with log.open("w", encoding="utf-8") as file:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    return done.returncode, time.monotonic() - started


def tables() -> str:
    """For each user a row for each command, with its seconds both ways."""
    records = {way: json.loads(_file(way).read_text()) for way in WAYS if _file(way).exists()}
    text = ""
    for user, typed in steps().items():
        text += f"**{user}**\n\n| typed | exit status | {' | '.join(f'{way}, s' for way in records)} |\n"
        text += f"| --- | ---: |{' ---: |' * len(records)}\n"
        for step in typed:
            command = step["typed"]
            seconds = [
                record[user][command]["seconds"] if command in record.get(user, {}) else ""
                for record in records.values()
            ]
            cells = [step.get("called", f"`{command}`"), step.get("exit", 0), *seconds]
            text += f"| {' | '.join(map(str, cells))} |\n"
        text += "\n"
    return text


def _file(way: str) -> Path:
    return RECORDS / f"{way}.json"


def main(argv: Sequence[str]) -> int:
    if len(argv) != 2 or argv[0] not in WAYS:
        print(__doc__)
        return 2
    way, folder = argv[0], Path(argv[1]).resolve()
    (folder / "said").mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-c", _OWN_VIDEOS], cwd=folder, check=True)
    record = json.loads(_file(way).read_text()) if _file(way).exists() else {}
    failed = 0
    for user, typed in steps().items():
        done = record.setdefault(user, {})
        for number, step in enumerate(typed):
            command, expected = step["typed"], step.get("exit", 0)
            if command in done:
                continue
            log = folder / "said" / f"{user}-{number}.txt"
            status, seconds = run(command, folder, log)
            print(f"{user}: {status} {seconds:7.1f} s  {step.get('called', command)}", flush=True)
            if status != expected:
                print(log.read_text()[-3000:])
                failed = 1
                continue
            done[command] = {"seconds": round(seconds, 1)}
            _file(way).write_text(json.dumps(record, indent=1) + "\n")
    (RECORDS / "tables.md").write_text(tables())
    print(f"\n{tables()}")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
