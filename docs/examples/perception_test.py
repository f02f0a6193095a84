"""Perception Test, validation: three options on what is seen, remembered or understood in short videos.

    mc_question_val/validation-*.parquet    the questions
    videos/VIDEO_NAME.mp4                   the videos

Format: lmms-lab/PerceptionTest_Val on the hub; its rows are read from there with --annotations
hf:lmms-lab/PerceptionTest_Val. Prompt and reader: lmms_eval/tasks/perceptiontest/val
(perceptiontest_val_mc) of github.com/EvolvingLMMs-Lab/lmms-eval, commit 06f392e, which ends a reply at the
first blank line.
"""

from videopro.benchmarks import (
    AnswerPrompt,
    BenchmarkSpec,
    Item,
    Metric,
    Protocol,
    each_row,
    file_name,
    index,
    known_groups,
    text,
    texts,
)
from videopro.question import LETTERS, Question

HUB = ("mc_question_val", "validation")
PROTOCOL = Protocol(
    "perception_test",
    name="lmms_eval",
    answer_prompt=AnswerPrompt(
        source="EvolvingLMMs-Lab/lmms-eval, lmms_eval/tasks/perceptiontest/val/utils.py, commit 06f392e",
        text="{question}\n{options}\nAnswer with the option's letter from the given choices directly.",
        option="{letter}. {text}",
    ),
    reply="text",
    subtitles="none",
    groups=("area", "reasoning"),
    metrics=(Metric("accuracy"),),
)


def rows(source, split):
    return source.rows("mc_question_val/validation-00000-of-00001.parquet", hub=HUB)


def item(record, source, split):
    video = file_name(record, "video_name")
    options = tuple(texts(record, "options"))
    return Item(
        id=f"{video}/{text(record, 'question_id')}",
        video=source.files.video(video, "videos"),
        video_key=video,
        question=Question(text(record, "question"), options),
        answer=LETTERS[index(record, "answer_id", len(options))],
        groups=known_groups(record, area="area", reasoning="reasoning"),
    )


def read_letter(reply, question):
    """The letter, if the reply up to its first blank line is nothing else."""
    letter = reply.split("\n\n")[0]
    return letter if letter in question.letters else None


BENCHMARK = BenchmarkSpec(
    "perception_test",
    ("validation",),
    (PROTOCOL,),
    each_row(rows, item),
    "mc_question_val/ and videos/",
    parsers={"perception_test": read_letter},
)
