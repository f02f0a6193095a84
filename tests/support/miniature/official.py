"""The films and their questions as five benchmarks publish theirs: annotation files, and videos and subtitles
in archives that have to be unpacked. The texts are the generator's own."""

from __future__ import annotations

import json
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow
from pyarrow import parquet

from tests.support.miniature.films import Film
from videopro.benchmarks import Item
from videopro.question import LETTERS
from videopro.video import load_subtitles

_ABILITIES = ("key information retrieval", "entity recognition", "temporal grounding", "summarization")


def write_cg_bench(root: Path, films: Sequence[Film]) -> None:
    """`cgbench.json` with all questions, `cgbench_mini.json` with two of each film, videos in a zip that is
    cut into pieces, subtitles in another."""
    records, mini = [], []
    for number, film in enumerate(films):
        for place, item in enumerate(film.items):
            about = {"qid": 100 * number + place, "video_uid": f"cg{number}", "duration": film.seconds}
            asked = {"question": item.question.text, "choices": list(item.question.choices)}
            right = {"answer": _right(item), "right_answer": item.answer}
            clues = {"clue_intervals": [list(pair) for pair in item.evidence]}
            kinds = {"domain": "Life Record", "sub_category": item.groups["kind"]}
            records.append({**about, **asked, **right, **clues, **kinds})
            if place in (4, 7):
                mini.append(records[-1])
    _write(root / "cgbench.json", json.dumps(records))
    _write(root / "cgbench_mini.json", json.dumps(mini))
    videos = {f"cg_videos_720p/cg{number}.mp4": film.file for number, film in enumerate(films)}
    _zip(root / "video.zip", videos)
    _cut(root / "video.zip", [root / f"video_chunk_{number}.zip" for number in (1, 2)])
    _zip(root / "subtitles.zip", {f"cg_subtitles/cg{n}.srt": film.subtitles for n, film in enumerate(films)})


def write_lvbench(root: Path, films: Sequence[Film]) -> None:
    """`video_info.meta.jsonl`, one film a line with all its questions, and a zip of videos. No subtitles."""
    lines = []
    for number, film in enumerate(films):
        questions = [
            {
                "uid": f"{number}{place:02}",
                "question": _with_options(item),
                "answer": item.answer,
                "question_type": [_ABILITIES[place % len(_ABILITIES)]],
                "time_reference": "-".join(_clock(at) for at in item.evidence[0]),
            }
            for place, item in enumerate(film.items)
        ]
        lines.append(json.dumps({"key": f"lv{number}", "type": "cartoon", "qa": questions, "video_info": {}}))
    _write(root / "video_info.meta.jsonl", "".join(f"{line}\n" for line in lines))
    _zip(root / "all_videos.zip", {f"all_videos/lv{n}.mp4": film.file for n, film in enumerate(films)})


def write_videomme(root: Path, films: Sequence[Film]) -> None:
    """The parquet file, a zip of videos and one of subtitles, as on the hub; every film is "long"."""
    rows = [
        {
            "video_id": f"{601 + number}",
            "duration": "long",
            "domain": "Film & Television",
            "sub_category": "Animation",
            "url": f"https://www.youtube.com/watch?v=mme{number}",
            "videoID": f"mme{number}",
            "question_id": f"{601 + number}-{place + 1}",
            "task_type": "Attribute Perception",
            "question": item.question.text,
            "options": [f"{LETTERS[at]}. {choice}." for at, choice in enumerate(item.question.choices)],
            "answer": item.answer,
        }
        for number, film in enumerate(films)
        for place, item in enumerate(film.items)
    ]
    path = root / "videomme" / "test-00000-of-00001.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    _zip(root / "videos_chunked_01.zip", {f"data/mme{n}.mp4": film.file for n, film in enumerate(films)})
    _zip(root / "subtitle.zip", {f"subtitle/mme{n}.srt": film.subtitles for n, film in enumerate(films)})


def write_longvideobench(root: Path, films: Sequence[Film]) -> None:
    """`lvb_val.json`, videos in a tar file that is cut into pieces, subtitles as JSON in another."""
    records, subtitles = [], {}
    for number, film in enumerate(films):
        name = f"lvb{number}"
        lines = [
            {"start": _clock(line.start, 3), "end": _clock(line.end, 3), "line": line.text}
            for line in load_subtitles(film.subtitles).lines
        ]
        subtitles[f"subtitles/{name}_en.json"] = json.dumps(lines)
        about = {"video_id": name, "video_path": f"{name}.mp4", "subtitle_path": f"{name}_en.json"}
        about |= {"question_category": "S2E", "topic_category": "NP-News-Programs", "level": "L1-Perception"}
        length = {"duration_group": 600 if film.seconds > 60 else 60, "duration": film.seconds}
        length["starting_timestamp_for_subtitles"] = 0
        for place, item in enumerate(film.items):
            asked = {"question": item.question.text, "candidates": list(item.question.choices)}
            right = {"correct_choice": LETTERS.index(str(item.answer))}
            records.append({"id": f"{name}_{place}", **about, **length, **asked, **right})
    _write(root / "lvb_val.json", json.dumps(records))
    archive = root / "videos.tar"
    with tarfile.open(archive, "w") as tar:
        for number, film in enumerate(films):
            tar.add(film.file, f"videos/lvb{number}.mp4")
    _cut(archive, [root / f"videos.tar.part.a{letter}" for letter in "ab"])
    with tarfile.open(root / "subtitles.tar", "w") as tar:
        for name, text in subtitles.items():
            source = root / "line"
            source.write_text(text)
            tar.add(source, name)
            source.unlink()


def write_mlvu(root: Path, films: Sequence[Film]) -> None:
    """The test set: questions with six options, their answers in another file, videos in a tar file."""
    questions, answers = [], []
    for number, film in enumerate(films):
        for place, item in enumerate(film.items):
            identifier = f"TM_{number}{place:02}"
            options = [*item.question.choices, "none of these", "all of these"]
            kind = ("plotQA", "needleQA", "count")[place % 3]
            about = {"question_id": identifier, "video": f"mlvu{number}.mp4", "duration": film.seconds}
            asked = {"question": item.question.text, "candidates": options, "question_type": kind}
            questions.append({**about, **asked})
            answers.append({"question_id": identifier, "answer": _right(item)})
    _write(root / "MLVU_Test" / "test_multi_choice_tasks.json", json.dumps(questions))
    _write(root / "test-ground-truth" / "test_mcq_gt.json", json.dumps(answers))
    with tarfile.open(root / "MLVU_Test" / "video.tar", "w") as tar:
        for number, film in enumerate(films):
            tar.add(film.file, f"video/mlvu{number}.mp4")


def _right(item: Item) -> str:
    return item.question.choices[LETTERS.index(str(item.answer))]


def _with_options(item: Item) -> str:
    options = [f"({letter}) {text}" for letter, text in zip(LETTERS, item.question.choices, strict=False)]
    return "\n".join([item.question.text, *options])


def _clock(seconds: float, decimals: int = 0) -> str:
    if decimals:
        minutes, rest = divmod(seconds, 60)
        return f"{int(minutes // 60):02}:{int(minutes % 60):02}:{rest:0{decimals + 3}.{decimals}f}"
    return f"{int(seconds) // 60:02}:{int(seconds) % 60:02}"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _zip(path: Path, files: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, file in files.items():
            archive.write(file, name)


def _cut(path: Path, pieces: Sequence[Path]) -> None:
    content = path.read_bytes()
    path.unlink()
    size = -(-len(content) // len(pieces))
    for number, piece in enumerate(pieces):
        piece.write_bytes(content[number * size : (number + 1) * size])
