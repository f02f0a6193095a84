"""MMBench-Video: about 2,000 open questions about 609 web videos; a judge model grades each answer 0 to 3.

    MMBench-Video.tsv          index, video, video_type, question, answer, dimensions, video_path
    video/NAME.mp4             unpacked from video_pkl/ as in VLMEvalKit

Format, prompts and scorer: vlmeval/dataset/mmbench_video.py and utils/mmbench_video.py of
github.com/open-compass/VLMEvalKit. Answers are graded after the run: `videopro benchmarks judge RUN
--judge server:MODEL@URL`.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import partial
from typing import Any

from videopro.benchmarks.base import Item
from videopro.benchmarks.fields import file_name, known_groups, quoted, text
from videopro.benchmarks.protocol import ROBUST, AnswerPrompt, JudgePrompt, Metric, Protocol
from videopro.benchmarks.registry import BenchmarkSpec
from videopro.benchmarks.sources import BenchmarkRecords, Source
from videopro.errors import BenchmarkError
from videopro.question import Question
from videopro.traces.scoring import GROUP_SEPARATOR

AREAS: Mapping[str, tuple[str, ...]] = {
    "CP": ("Video Topic", "Video Emotion", "Video Scene", "Video Style"),
    "FP-S": (
        *("OCR", "Object Recognition", "Attribute Recognition", "Event Recognition", "Human Motion"),
        "Counting",
    ),
    "FP-C": ("Spatial Relationship", "Human-object Interaction", "Human Interaction"),
    "HL": ("Hallucination",),
    "LR": ("Structuralized Image-Text Understanding", "Mathematical Calculation"),
    "AR": ("Physical Property", "Function Reasoning", "Identity Reasoning"),
    "RR": ("Natural Relation", "Physical Relation", "Social Relation"),
    "CSR": ("Common Sense Reasoning",),
    "TR": ("Counterfactual Reasoning", "Causal Reasoning", "Future Prediction"),
}
HALVES = {"Perception": ("CP", "FP-C", "FP-S", "HL"), "Reasoning": ("LR", "AR", "RR", "CSR", "TR")}
_AREA_OF = {dimension: area for area, dimensions in AREAS.items() for dimension in dimensions}

PROMPT = AnswerPrompt(
    source="open-compass/VLMEvalKit, vlmeval/dataset/mmbench_video.py (FRAMES_TMPL_NOPACK), commit 06d45c5",
    text=(
        "You will be provided with {frames} separate frames uniformly sampled from a video, the frames are "
        "provided in chronological order of the video.\n"
        "Please analyze these images and provide the answer to the question about the video content.\n"
        "Please directly reply with your response to the only question.\n"
        "Question: {question}\nAnswer: "
    ),
)
JUDGE = JudgePrompt(
    source="open-compass/VLMEvalKit, vlmeval/dataset/utils/mmbench_video.py, commit 34aca82",
    system=(
        "As an AI assistant, your task is to evaluate a candidate answer in comparison to a given correct "
        "answer.\n"
        "The question itself, the correct 'groundtruth' answer, and the candidate answer will be provided to "
        "you.\n"
        "Your assessment should range from 0 to 3, based solely on the semantic similarity between the "
        "groundtruth and the candidate answer, disregarding any grammatical differences.\n"
        "A rating of 0 suggests no similarity, implying the candidate answer is entirely incorrect.\n"
        "A rating of 1 suggests low similarity, meaning the candidate answer is largely incorrect.\n"
        "A rating of 2 suggests high similarity, meaning the candidate answer is largely correct.\n"
        "Lastly, a rating of 3 indicates complete similarity, which means the candidate answer is entirely "
        "correct.\n"
        "Your response should be a single integer from 0, 1, 2, or 3.\n"
    ),
    text="Question: {question}\nGroundtruth answer: {reference}\nCandidate answer: {answer}\nYour response: ",
)
PROTOCOLS = (
    Protocol(
        ROBUST, name="official", answer_prompt=PROMPT, reply="text", subtitles="none", groups=("area",),
        metrics=(
            Metric("Overall", kind="grade"),
            *(Metric(half, kind="grade", over="area", of=areas) for half, areas in HALVES.items()),
            *(Metric(area, kind="grade", over="area", of=(area,)) for area in AREAS),
            *(Metric(name, kind="grade", over="dimension", of=(name,)) for name in _AREA_OF),
        ),
        judge=JUDGE,
    ),
)  # fmt: skip


def read(source: Source, split: str) -> BenchmarkRecords:
    """All questions; there is one split."""
    records = BenchmarkRecords()
    records.read(source.rows("MMBench-Video.tsv", hub=("", "test")), partial(_item, source=source))
    return records


def _item(record: Mapping[str, Any], where: str, *, source: Source) -> Item:
    video = file_name(record, "video")
    dimensions = _dimensions(record.get("dimensions"))
    areas = sorted({_AREA_OF[dimension] for dimension in dimensions})
    return Item(
        id=text(record, "index"),
        video=source.files.video(video, "video", "videos"),
        video_key=video,
        question=Question.open(text(record, "question")),
        reference=text(record, "answer"),
        groups={
            "dimension": GROUP_SEPARATOR.join(dimensions),
            "area": GROUP_SEPARATOR.join(areas),
            **known_groups(record, type="video_type"),
        },
    )


def _dimensions(value: Any) -> list[str]:
    """The dimensions; in the TSV, the list is a Python literal."""
    try:
        names = ast.literal_eval(value) if isinstance(value, str) else value
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        names = None
    if (
        not isinstance(names, list)
        or not names
        or not all(isinstance(name, str) and name in _AREA_OF for name in names)
    ):
        raise BenchmarkError(
            f"field 'dimensions' is {quoted(value)}; it must be a list of MMBench-Video's dimensions, "
            "such as \"['OCR', 'Counting']\""
        )
    return [str(name) for name in names]


SPEC = BenchmarkSpec("mmbench_video", ("test",), PROTOCOLS, read, "MMBench-Video.tsv and video/")
