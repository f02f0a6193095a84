"""The videos and their questions as the hub has those of five benchmarks: annotation files, and videos and
subtitles in archives, under the names that the manifest has. The texts are the generator's own."""

import io
import json
import shutil
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.benchmark_world import lvb, mme, write_json, write_parquet
from tests.support.miniature.videos import DrawnVideo
from videopro.benchmarks import Item, manifest
from videopro.question import LETTERS
from videopro.video import load_subtitles

_ABILITIES = ("key information retrieval", "entity recognition", "temporal grounding", "summarization")


def write_cg_bench(root: Path, videos: Sequence[DrawnVideo]) -> None:
    """`cgbench.json` with all questions, `cgbench_mini.json` with two of each video, videos in two zips,
    subtitles in another, and one with clips of the clues, which nobody asks about."""
    records, mini = [], []
    for number, video in enumerate(videos):
        for place, item in enumerate(video.items):
            about = {"qid": 100 * number + place, "video_uid": f"cg{number}", "duration": video.seconds}
            asked = {"question": item.question.text, "choices": list(item.question.choices)}
            right = {"answer": _right(item), "right_answer": item.answer}
            clues = {"clue_intervals": [list(pair) for pair in item.evidence]}
            kinds = {"domain": "Life Record", "sub_category": item.groups["kind"]}
            records.append({**about, **asked, **right, **clues, **kinds})
            if place in (4, 7):
                mini.append(records[-1])
    for split, questions in (("full", records), ("mini", mini)):
        write_json(root / _one("cg_bench", split, "questions"), questions)
    chunks = root / _one("cg_bench", "full", "videos")
    drawn = [video.file for video in videos]
    for first, chunk in ((0, "01"), (len(videos) // 2, "02")):
        part = dict(enumerate(drawn[first : None if first else len(videos) // 2], start=first))
        _pack(chunks.with_name(chunks.name.replace("*", chunk)), "cg_videos_720p/cg{}.mp4", part)
    _pack(root / "clue_video_chunk_01.zip", "cg_clue_videos/{}.mp4", {0: drawn[0]})
    subtitles = {number: video.subtitles for number, video in enumerate(videos)}
    _pack(root / _one("cg_bench", "full", "subtitles"), "cg_subtitles/cg{}.srt", subtitles)


def write_lvbench(root: Path, videos: Sequence[DrawnVideo]) -> None:
    """`video_info.meta.jsonl`, one video a line with all its questions, and videos. No subtitles."""
    lines = []
    for number, video in enumerate(videos):
        questions = [
            {
                "uid": f"{number}{place:02}",
                "question": _with_options(item),
                "answer": item.answer,
                "question_type": [_ABILITIES[place % len(_ABILITIES)]],
                "time_reference": "-".join(_clock(at) for at in item.evidence[0]),
            }
            for place, item in enumerate(video.items)
        ]
        lines.append(json.dumps({"key": f"lv{number}", "type": "cartoon", "qa": questions, "video_info": {}}))
    (root / _one("lvbench", "test", "questions")).write_text("".join(f"{line}\n" for line in lines))
    folder = (root / _one("lvbench", "test", "videos")).parent
    folder.mkdir()
    for number, video in enumerate(videos):
        shutil.copy(video.file, folder / f"lv{number}.mp4")


def write_videomme(root: Path, videos: Sequence[DrawnVideo]) -> None:
    """The parquet file, zips of videos, of which the last has them, and one of subtitles; a video of each
    length."""
    rows, lengths = [], ("long", "short", "medium")
    for number, video in enumerate(videos):
        for place, item in enumerate(video.items):
            options = [f"{LETTERS[at]}. {choice}." for at, choice in enumerate(item.question.choices)]
            about = {"videoID": f"mme{number}", "question_id": f"{601 + number}-{place + 1}"}
            asked = {"question": item.question.text, "options": options}
            rows.append(mme(601 + number, lengths[number], str(item.answer), **about, **asked))
    write_parquet(root / _one("videomme", "long", "questions"), rows)
    *others, last = manifest("videomme").paths("long", "videos")
    for name in others:
        _pack(root / name, "data/{}", {})
    _pack(root / last, "data/mme{}.mp4", {number: video.file for number, video in enumerate(videos)})
    subtitles = {number: video.subtitles for number, video in enumerate(videos)}
    _pack(root / _one("videomme", "long", "subtitles"), "subtitle/mme{}.srt", subtitles)


def write_longvideobench(root: Path, videos: Sequence[DrawnVideo]) -> None:
    """`lvb_val.json`, videos in a tar file that is cut into pieces, subtitles as JSON in another."""
    records = []
    with tarfile.open(root / _one("longvideobench", "val", "subtitles"), "w") as tar:
        for number, video in enumerate(videos):
            name = f"lvb{number}"
            lines = [
                {"start": _clock(line.start, 3), "end": _clock(line.end, 3), "line": line.text}
                for line in load_subtitles(video.subtitles).lines
            ]
            text = json.dumps(lines).encode()
            entry = tarfile.TarInfo(f"subtitles/{name}_en.json")
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text))
            about = {"video_id": name, "video_path": f"{name}.mp4", "subtitle_path": f"{name}_en.json"}
            length = {"duration": video.seconds, "starting_timestamp_for_subtitles": 0}
            for place, item in enumerate(video.items):
                asked = {"question": item.question.text, "candidates": list(item.question.choices)}
                group, right = 600 if video.seconds > 60 else 60, LETTERS.index(str(item.answer))
                given = {"id": f"{name}_{place}", **about, **length, **asked}
                records.append(lvb(number, group, right, **given))
    write_json(root / _one("longvideobench", "val", "questions"), records)
    _pack(
        root / "videos.tar", "videos/lvb{}.mp4", {number: video.file for number, video in enumerate(videos)}
    )
    _cut(root / "videos.tar", [root / name for name in manifest("longvideobench").paths("val", "videos")])


def write_mlvu(root: Path, videos: Sequence[DrawnVideo]) -> None:
    """The test set: questions with six options, their answers in another file, videos in a compressed tar
    file that is cut into pieces."""
    questions, answers = [], []
    for number, video in enumerate(videos):
        for place, item in enumerate(video.items):
            identifier = f"TM_{number}{place:02}"
            options = [*item.question.choices, "none of these", "all of these"]
            kind = ("plotQA", "needleQA", "count")[place % 3]
            about = {"question_id": identifier, "video": f"mlvu{number}.mp4", "duration": video.seconds}
            asked = {"question": item.question.text, "candidates": options, "question_type": kind}
            questions.append({**about, **asked})
            answers.append({"question_id": identifier, "answer": _right(item)})
    write_json(root / _one("mlvu", "test", "questions"), questions)
    write_json(root / _one("mlvu", "test", "answers"), answers)
    pieces = [root / name for name in manifest("mlvu").paths("test", "videos")]
    pieces[0].parent.mkdir()
    _pack(
        root / "video.tar.gz", "video/mlvu{}.mp4", {number: video.file for number, video in enumerate(videos)}
    )
    _cut(root / "video.tar.gz", pieces)


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


def _one(benchmark: str, split: str, holds: str) -> str:
    """The one path of the hub's that has these of a split."""
    (path,) = manifest(benchmark).paths(split, holds)
    return path


def _pack(path: Path, name: str, files: Mapping[int, Path]) -> None:
    """An archive of files, whose names in it are numbered."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            for number, file in files.items():
                archive.write(file, name.format(number))
    else:
        with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as tar:
            for number, file in files.items():
                tar.add(file, name.format(number))


def _cut(path: Path, pieces: Sequence[Path]) -> None:
    content = path.read_bytes()
    path.unlink()
    size = -(-len(content) // len(pieces))
    for number, piece in enumerate(pieces):
        piece.write_bytes(content[number * size : (number + 1) * size])
