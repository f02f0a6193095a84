"""The videos and their questions as five benchmarks publish theirs: annotation files, and videos and
subtitles in archives that have to be unpacked. The texts are the generator's own."""

import io
import json
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from tests.support.benchmark_world import lvb, mme, write_json, write_parquet
from tests.support.miniature.videos import DrawnVideo
from videopro.benchmarks import Item
from videopro.question import LETTERS
from videopro.video import load_subtitles

_ABILITIES = ("key information retrieval", "entity recognition", "temporal grounding", "summarization")


def write_cg_bench(root: Path, videos: Sequence[DrawnVideo]) -> None:
    """`cgbench.json` with all questions, `cgbench_mini.json` with two of each video, videos in a zip that is
    cut into pieces, subtitles in another."""
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
    write_json(root / "cgbench.json", records)
    write_json(root / "cgbench_mini.json", mini)
    _pack(root / "video.zip", "cg_videos_720p/cg{}.mp4", [video.file for video in videos])
    _cut(root / "video.zip", [root / f"video_chunk_{number}.zip" for number in (1, 2)])
    _pack(root / "subtitles.zip", "cg_subtitles/cg{}.srt", [video.subtitles for video in videos])


def write_lvbench(root: Path, videos: Sequence[DrawnVideo]) -> None:
    """`video_info.meta.jsonl`, one video a line with all its questions, and a zip of videos. No subtitles."""
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
    (root / "video_info.meta.jsonl").write_text("".join(f"{line}\n" for line in lines))
    _pack(root / "all_videos.zip", "all_videos/lv{}.mp4", [video.file for video in videos])


def write_videomme(root: Path, videos: Sequence[DrawnVideo]) -> None:
    """The parquet file, a zip of videos and one of subtitles, as on the hub; every video is "long"."""
    rows = []
    for number, video in enumerate(videos):
        for place, item in enumerate(video.items):
            options = [f"{LETTERS[at]}. {choice}." for at, choice in enumerate(item.question.choices)]
            about = {"videoID": f"mme{number}", "question_id": f"{601 + number}-{place + 1}"}
            asked = {"question": item.question.text, "options": options}
            rows.append(mme(601 + number, "long", str(item.answer), **about, **asked))
    write_parquet(root / "videomme" / "test-00000-of-00001.parquet", rows)
    _pack(root / "videos_chunked_01.zip", "data/mme{}.mp4", [video.file for video in videos])
    _pack(root / "subtitle.zip", "subtitle/mme{}.srt", [video.subtitles for video in videos])


def write_longvideobench(root: Path, videos: Sequence[DrawnVideo]) -> None:
    """`lvb_val.json`, videos in a tar file that is cut into pieces, subtitles as JSON in another."""
    records = []
    with tarfile.open(root / "subtitles.tar", "w") as tar:
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
    write_json(root / "lvb_val.json", records)
    _pack(root / "videos.tar", "videos/lvb{}.mp4", [video.file for video in videos])
    _cut(root / "videos.tar", [root / f"videos.tar.part.a{letter}" for letter in "ab"])


def write_mlvu(root: Path, videos: Sequence[DrawnVideo]) -> None:
    """The test set: questions with six options, their answers in another file, videos in a tar file."""
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
    write_json(root / "MLVU_Test" / "test_multi_choice_tasks.json", questions)
    write_json(root / "test-ground-truth" / "test_mcq_gt.json", answers)
    _pack(root / "MLVU_Test" / "video.tar", "video/mlvu{}.mp4", [video.file for video in videos])


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


def _pack(path: Path, name: str, files: Sequence[Path]) -> None:
    """An archive of files, whose names in it are numbered."""
    if path.suffix == ".tar":
        with tarfile.open(path, "w") as tar:
            for number, file in enumerate(files):
                tar.add(file, name.format(number))
    else:
        with zipfile.ZipFile(path, "w") as archive:
            for number, file in enumerate(files):
                archive.write(file, name.format(number))


def _cut(path: Path, pieces: Sequence[Path]) -> None:
    content = path.read_bytes()
    path.unlink()
    size = -(-len(content) // len(pieces))
    for number, piece in enumerate(pieces):
        piece.write_bytes(content[number * size : (number + 1) * size])
