"""CG-Bench: questions about long videos with the intervals that contain the clue; the paper's training
source.

    cgbench.json, cgbench_mini.json        the questions: splits "full" and "mini"
    cg_videos_720p/UID.mp4                 the videos
    cg_subtitles/UID.srt                   subtitles, where a video has any

Format, prompt and scorer: run/utils.py of github.com/CG-Bench/CG-Bench; rec@IoU and acc@IoU as in VLMEvalKit.
Officially, a model is asked for the clue's intervals; here they are the ones that retrieval returned, so a
method without retrieval has none and scores 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from videopro.benchmarks.base import Item
from videopro.benchmarks.fields import file_name, interval, text, texts
from videopro.benchmarks.protocol import AnswerPrompt, Metric, Protocol
from videopro.benchmarks.registry import BenchmarkSpec
from videopro.benchmarks.sources import BenchmarkRecords, Source
from videopro.benchmarks.video_files import VideoFiles
from videopro.errors import BenchmarkError
from videopro.question import Question
from videopro.storage import parse_json

FILES = {"full": "cgbench.json", "mini": "cgbench_mini.json"}
# Configuration and split of CG-Bench/CG-Bench on the hub.
HUB = {"full": ("cg-bench", "train"), "mini": ("cg-bench-mini", "train")}

PROMPT = AnswerPrompt(
    source="CG-Bench/CG-Bench, run/utils.py (SYS['long_acc'], get_prompt), commit 440b30c",
    text=(
        "You will be provided with sampled frames from a video, along with a multiple-choice question that "
        "includes a question and several answer options.\n"
        "Your task is to analyze the provided frames, infer the most plausible answer based on the visual "
        "information.\n"
        "If the video does not provide enough information, infer the answer based on the options available "
        "and still provide a result. Therefore, In all cases, an answer must be given.\n"
        "Only output the answer in the following format:\n\n"
        '```json\n{"result": "option"}\n```\n\n'
        'The "option" is the uppercase letter corresponding to your answer.\n\n'
        "{subtitles}Question: {question}\n\n{options}\n\n"
    ),
    option="{letter}:{text}",
    subtitles="The subtitles of the video are as follows:\n\n{lines}\n\n",
)
_GROUPS = ("family", "domain")
_INTERVALS = (
    Metric("mIoU", kind="iou"),
    Metric("rec@IoU", kind="recall_at_iou"),
    Metric("acc@IoU", kind="accuracy_at_iou"),
)
# Long and clue accuracy are the same metric under two protocols: on the whole video, and on the clue alone.
LONG = Protocol(
    "cgbench", name="long", answer_prompt=PROMPT, reply="text", groups=_GROUPS,
    metrics=(Metric("long accuracy"), *_INTERVALS),
)  # fmt: skip

PROTOCOLS = (
    LONG,
    replace(LONG, name="long_subtitles", subtitles="frames"),
    replace(LONG, name="clue", subtitles="none", shown="clues", metrics=(Metric("clue accuracy"),)),
    Protocol("videopro", name="videopro", groups=_GROUPS, metrics=(Metric("long accuracy"), *_INTERVALS)),
)


def read(source: Source, split: str) -> BenchmarkRecords:
    """The questions of a split."""
    found = BenchmarkRecords()
    rows = source.rows(FILES[split], hub=HUB[split])
    found.read(rows, partial(_item, files=VideoFiles(_folder(source, split))))
    return found


def _folder(source: Source, split: str) -> Path:
    """The folder with the videos: an annotation file given by path lies next to them."""
    if source.on_hub:
        return source.root
    return Path(source.annotations).parent if source.annotations else source.file(FILES[split]).parent


def read_records(path: Path) -> list[Mapping[str, Any]]:
    """The records of an annotation file, checked only to be objects. Raises BenchmarkError."""
    try:
        content = parse_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise BenchmarkError(
            f"cg_bench: {path} does not exist; with --root, give the folder that contains "
            f"{' or '.join(FILES.values())}, or such a file itself"
        ) from error
    except (OSError, ValueError) as error:
        raise BenchmarkError(f"cg_bench: {path} cannot be read: {error}") from error
    if not isinstance(content, list) or not all(isinstance(record, dict) for record in content):
        raise BenchmarkError(f"cg_bench: {path} must contain a list of objects")
    return content


def _item(record: Mapping[str, Any], where: str, *, files: VideoFiles) -> Item:
    for name in ("qid", "video_uid", "question", "choices", "right_answer"):
        if name not in record:
            raise BenchmarkError(f"field {name!r} is missing; is this an annotation file of CG-Bench?")
    uid = file_name(record, "video_uid")
    if "/" in uid:
        raise BenchmarkError(f"field 'video_uid' is {uid!r}; it must be a video's name")
    question = Question(text(record, "question"), tuple(texts(record, "choices")))
    question.choice(record["right_answer"])
    groups = {"family": record.get("sub_category"), "domain": record.get("domain")}
    return Item(
        id=text(record, "qid"),
        video=files.video(f"{uid}.mp4", "cg_videos_720p"),
        video_key=uid,
        question=question,
        answer=record["right_answer"],
        # The annotations do not say which videos have subtitles; the folder does.
        subtitles=files.optional_file(f"{uid}.srt", "cg_subtitles"),
        groups={name: value for name, value in groups.items() if isinstance(value, str)},
        evidence=_clues(record.get("clue_intervals", [])),
    )


def _clues(value: Any) -> tuple[tuple[float, float], ...]:
    return tuple(interval(pair, "clue_intervals") for pair in (value if isinstance(value, list) else [value]))


SPEC = BenchmarkSpec(
    "cg_bench",
    tuple(FILES),
    PROTOCOLS,
    read,
    "cgbench.json or cgbench_mini.json, cg_videos_720p/ and cg_subtitles/",
    subtitle_folders=("cg_subtitles",),
)
