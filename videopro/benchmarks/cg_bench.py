"""CG-Bench: questions about long videos with the intervals that contain the clue; the paper's training
source.

    cgbench.json, cgbench_mini.json        the questions: splits "full" and "mini"
    cg_videos_720p/UID.mp4                 the videos
    cg_subtitles/UID.srt                   subtitles, where a video has any

Format, prompts and scorer: run/utils.py and run/stat_with_key.py of github.com/CG-Bench/CG-Bench. A protocol
is one of its tasks: `long` and `clue` (accuracy on the whole video and on the clue alone), `miou` (the model
names the intervals of the clue) and `open` (without options; a judge compares the answer with the reference,
and looks at the clue if unsure). acc@IoU and CRR need the runs of several tasks: `videopro benchmarks
combine`. The other interval metrics use the intervals that retrieval returned, so a method without retrieval
scores 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from videopro.benchmarks.base import Item
from videopro.benchmarks.fields import file_name, interval, number, text, texts
from videopro.benchmarks.hub import manifest
from videopro.benchmarks.protocol import ROBUST, AnswerPrompt, JudgePrompt, Metric, Protocol
from videopro.benchmarks.registry import BenchmarkSpec
from videopro.benchmarks.sources import BenchmarkRecords, Source
from videopro.benchmarks.video_files import VideoFiles
from videopro.errors import BenchmarkError
from videopro.question import Question

MANIFEST = manifest("cg_bench")
FILES = {split: MANIFEST.paths(split, "questions")[0] for split in MANIFEST.rows}

_SOURCE = "CG-Bench/CG-Bench, run/utils.py ({task}, get_prompt), commit 6677fe3"
_TASK = (
    "You will be provided with sampled frames from a video, along with a multiple-choice question that "
    "includes a question and several answer options.\n"
    "Your task is to analyze the provided frames, infer the most plausible answer based on the visual "
    "information.\n"
    "If the video does not provide enough information, infer the answer based on the options available "
    "and still provide a result. Therefore, In all cases, an answer must be given.\n"
    "Only output the answer in the following format:\n\n"
    '```json\n{"result": "option"}\n```\n\n'
)
_TIMES = (
    "A total of {frames} frames are sampled. Their corresponding timestamps are:\n\n{times}\n\n"
    "Question: {question}\n\n"
)
LONG_PROMPT = AnswerPrompt(
    source=_SOURCE.format(task="SYS['long_acc']"),
    text=(
        f'{_TASK}The "option" is the uppercase letter corresponding to your answer.\n\n'
        f"{{subtitles}}{_TIMES}{{options}}\n\n"
    ),
    option="{letter}:{text}",
    subtitles="The subtitles of the video are as follows:\n\n{lines}\n\n",
    line="[{start}, {end}] {text}",
)
CLUE_PROMPT = replace(
    LONG_PROMPT,
    source=_SOURCE.format(task="SYS['clue_acc']"),
    text=LONG_PROMPT.text.replace('The "option" is', "The 'option' is"),
)
INTERVALS_PROMPT = replace(
    LONG_PROMPT,
    source=_SOURCE.format(task="SYS['miou']"),
    text=(
        "You will be provided with uniformly sampled frames from a video and their timestamps, along with a "
        "multiple-choice question that includes a question and several answer options.\n"
        "Your task is to determine in which intervals the 'clue intervals' exist that contain visual "
        "information needed to answer the question.\n"
        "Only output the answer in the following format:\n\n"
        '```json\n{"result": [[start1, end1], [start2, end2], ...]}\n```\n\n'
        "In this output format, each 'start' and 'end' represents the beginning and end of an interval in "
        "seconds where relevant clues can be found.\n"
        "You must provide at least one interval and at most five intervals. Intervals exceeding five will "
        f"NOT be considered valid.\n{{subtitles}}{_TIMES}{{options}}\n\n"
    ),
)
OPEN_PROMPT = AnswerPrompt(
    source=_SOURCE.format(task="SYS['open']"),
    text=(
        "You will be provided with sampled frames from a video, along with a question.\n"
        "Your task is to analyze the provided frames and infer the most plausible answer based on the visual "
        "information.\n"
        "If the visual information is ambiguous or insufficient, use the available context to reason your "
        "answer.\n"
        "Only output the answer in the following format:\n\n"
        '```json\n{"result": "answer"}\n```\n\n'
        'The "answer" can be a word, phrase, or sentence that directly responds to the question.\n\n'
        f"{{subtitles}}{_TIMES}"
    ),
    subtitles=LONG_PROMPT.subtitles,
    line=LONG_PROMPT.line,
)
JUDGE = JudgePrompt(
    source=_SOURCE.format(task="SYS['eval_open_step_1'], SYS['eval_open_step_2']"),
    system="",
    text=(
        "You will be provided with a question, a model's prediction, and the ground truth answer for this "
        "question.\n"
        "Your task is to judge whether the model's prediction is correct based on the meaning of the two "
        "texts.\n"
        "In most cases, this can be done by determining if the meaning of the model's prediction is "
        "consistent with, or contains, the ground truth answer. However, in some cases where the two texts "
        "differ, it may represent different descriptions of the same visual scene, in which case visual "
        "information is needed for further judgment.\n"
        "Therefore, I hope you:\n"
        "- Output 0, if the model's prediction and the ground truth answer are neither consistent nor "
        "related by inclusion, with fundamentally different meanings.\n"
        "- Output 1, if the meaning of the model's prediction and the ground truth answer is consistent, or "
        "if the model's prediction meaningfully contains the ground truth answer.\n"
        "- Output 2, if the model's prediction and ground truth are not consistent or inclusive, but may be "
        "different descriptions of the same visual scene, requiring visual information for further "
        "judgment.\n"
        "Only output the answer in the following format:\n\n"
        '```json\n{"result": choice}\n```\n\n'
        "The choice is either 0, 1, or 2 as specified above."
        "Question: {question}\n\nThe ground truth answer is '{reference}'\n\n"
        "The model's prediction is '{answer}'\n\n"
    ),
    high=2,
    style="cgbench",
    unsure=2,
    look=(
        "You will be provided with a question, a model's prediction, and the sampling frames of the clue "
        "intervals related to this question.\n"
        "Your task is to determine whether the model has answered the question correctly based on the visual "
        "information provided.\n"
        "Therefore, I hope you:\n"
        "- Output 0, if the model's prediction does not correctly answer the question.\n"
        "- Output 1, if the model's prediction correctly answers the question.\n"
        "Only output the answer in the following format without extra explanation:\n\n"
        '```json\n{"result": choice}\n```\n\n'
        "The choice is either 0 or 1 as specified above."
        f"{_TIMES}The model's prediction is '{{answer}}'\n\n"
    ),
)
_GROUPS = ("family", "domain", "duration")
_RETRIEVED = (
    Metric("mIoU", kind="iou"),
    Metric("rec@IoU", kind="recall_at_iou"),
    Metric("acc@IoU", kind="accuracy_at_iou"),
)
# Minutes; the last bin of vlmeval/dataset/utils/cgbench.py of VLMEvalKit has no end.
_MINUTES = (10, 20, 30, 40, 50, 60)
# Long and clue accuracy are the same metric under two protocols: on the whole video, and on the clue alone.
LONG = Protocol(
    "cgbench_6677fe3", official_unparsed="left out", name="long", answer_prompt=LONG_PROMPT, reply="text",
    groups=_GROUPS, metrics=(Metric("long accuracy"), *_RETRIEVED),
)  # fmt: skip
_INTERVALS = replace(
    LONG, name="miou", answer_prompt=INTERVALS_PROMPT, reply="intervals", metrics=_RETRIEVED[:2]
)

PROTOCOLS = (
    LONG,
    replace(LONG, name="long_subtitles", subtitles="frames_inside"),
    replace(
        LONG, name="clue", answer_prompt=CLUE_PROMPT, shown="clues", max_frames=32, subtitles="none",
        metrics=(Metric("clue accuracy"),),
    ),
    _INTERVALS,
    replace(_INTERVALS, name="miou_subtitles", subtitles="frames_inside"),
    Protocol(
        ROBUST, name="open", answer_prompt=OPEN_PROMPT, asks="open", reply="text", subtitles="none",
        groups=_GROUPS, metrics=(Metric("open accuracy", kind="judged"),), judge=JUDGE,
    ),
    Protocol(
        "videopro", name="videopro", groups=_GROUPS[:2], metrics=(Metric("long accuracy"), *_RETRIEVED)
    ),
)  # fmt: skip


def read(source: Source, split: str) -> BenchmarkRecords:
    """The questions of a split."""
    records = BenchmarkRecords()
    rows = source.rows(FILES[split], hub=MANIFEST.rows[split])
    records.read(rows, partial(_item, files=VideoFiles(_folder(source, split))))
    return records


def _folder(source: Source, split: str) -> Path:
    """The folder with the videos: an annotation file given by path lies next to them."""
    if source.on_hub:
        return source.root
    return Path(source.annotations).parent if source.annotations else source.file(FILES[split]).parent


def _item(record: Mapping[str, Any], where: str, *, files: VideoFiles) -> Item:
    for name in ("qid", "video_uid", "question", "choices", "right_answer"):
        if name not in record:
            raise BenchmarkError(f"field {name!r} is missing; pass an annotation file of CG-Bench")
    uid = file_name(record, "video_uid")
    # Subtitles are looked up by this name in one folder.
    if "/" in uid:
        raise BenchmarkError(f"field 'video_uid' is {uid!r}; it must be a video's name")
    question = Question(text(record, "question"), tuple(texts(record, "choices")))
    question.choice(record["right_answer"])
    groups = {
        "family": record.get("sub_category"),
        "domain": record.get("domain"),
        "duration": _duration(record),
    }
    file = files.video(f"{uid}.mp4", "cg_videos_720p")
    return Item(
        id=text(record, "qid"),
        video=file,
        video_key=uid,
        question=question,
        answer=record["right_answer"],
        reference=text(record, "answer") if record.get("answer") is not None else None,
        # The annotations do not say which videos have subtitles; the folder does.
        subtitles=files.subtitles(uid, "cg_subtitles", video=file),
        groups={name: value for name, value in groups.items() if isinstance(value, str)},
        evidence=_clues(record.get("clue_intervals", [])),
    )


def _duration(record: Mapping[str, Any]) -> str | None:
    """The bin of a video's length in minutes, including the upper bound; None without a length."""
    if record.get("duration") is None:
        return None
    minutes = number(record, "duration") / 60
    end = next((end for end in _MINUTES if minutes <= end), None)
    return f"{_MINUTES[-1]}+" if end is None else f"{end - 10} ~ {end}"


def _clues(value: Any) -> tuple[tuple[float, float], ...]:
    return tuple(interval(pair, "clue_intervals") for pair in (value if isinstance(value, list) else [value]))


SPEC = BenchmarkSpec(
    "cg_bench",
    tuple(FILES),
    PROTOCOLS,
    read,
    "cgbench.json or cgbench_mini.json, cg_videos_720p/ and cg_subtitles/",
    subtitle_folders=("cg_subtitles",),
    training_split="full",
)
