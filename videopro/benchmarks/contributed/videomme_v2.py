"""Video-MME-v2: 800 videos with four connected questions each; eight options.

    test.parquet           one question per row
    video/001.mp4 ...      unpacked from videos/*.zip
    subtitle/001.jsonl ... words with their times, unpacked from subtitle.zip

The four questions of a video are scored together: the more are right, the more each counts, and a chain of
reasoning counts only up to the first wrong step. Format, frames, prompts, parser:
evaluation/test_video_mme_v2.py of github.com/MME-Benchmarks/Video-MME-v2, commit 013b6c9. Scores:
lmms_eval/tasks/videomme_v2/utils.py of EvolvingLMMs-Lab/lmms-eval, commit 394a8e4. (The authors' script
scores an unparsed reply as -1, which its chains count as right; in lmms-eval and here it is wrong.) The
authors show 64 frames, without subtitles, with all words (`subtitles`), or with sentences after the frames at
which they are spoken (`interleaved`).
"""

import ast
import re
from dataclasses import replace

from videopro.benchmarks import (
    AnswerPrompt,
    BenchmarkSpec,
    Item,
    Metric,
    Protocol,
    each_row,
    known_groups,
    text,
    texts,
    without_labels,
)
from videopro.errors import BenchmarkError
from videopro.question import Question
from videopro.traces import SetMember

INSTRUCTION = (
    "Question: {question}\n{options}\n"
    "Select the best answer to the following multiple-choice question based on the video. Respond with only "
    "the letter (A, B, C, D, E, F, G, or H) of the correct option."
)
SOURCE = "MME-Benchmarks/Video-MME-v2, evaluation/test_video_mme_v2.py ({}), commit 013b6c9"
PROMPT = AnswerPrompt(
    source=SOURCE.format("INSTRUCT_PROMPT"),
    text=f"These are the frames of a video.{INSTRUCTION}",
)
WITH_SUBTITLES = AnswerPrompt(
    source=SOURCE.format("WITH_SUB_PROMPT"),
    text="These are the frames of a video. This video's subtitles are listed below:\n"
    f"{{subtitles}}\n{INSTRUCTION}",
    subtitles="{lines}",
    join=" ",
)
INTERLEAVED = AnswerPrompt(
    source=SOURCE.format("WITH_SUB_PROMPT_INTERLEAVE"),
    text="{subtitles}These are the frames of a video with corresponding subtitles shown between frames. The "
    "subtitles indicate what is being said during the time interval between adjacent frames."
    f"{INSTRUCTION}",
    subtitles="{lines}",
    line="[Subtitle {start}s - {end}s]: {text}",
    join="",
    decimals=2,
)
LEVELS = ("1", "2", "3")
METRICS = (
    Metric("score", kind="set"),
    Metric("consistency score", kind="set", over="set type", of=("relevance",)),
    Metric("coherence score", kind="set", over="set type", of=("logic",)),
    *(Metric(f"level {level} score", kind="set", over="level", of=(level,)) for level in LEVELS),
    *(Metric(f"level {level} accuracy", over="level", of=(level,)) for level in LEVELS),
)


def read_letter(reply, question):
    """The first capital A to H of the reply, without the phrases that the authors' script removes."""
    for phrase in (
        *("Final Answer:", "The best answer is", "The correct answer is", "The answer is", "The answer"),
        *(
            "The best option is",
            "The correct option is",
            "Best answer:",
            "Best option:",
            "Answer:",
            "Option:",
        ),
    ):
        reply = reply.strip().replace(phrase, "")
    match = re.search("[A-H]", reply)
    return match[0] if match else None


def rows(source, split):
    return source.rows("test.parquet", "data/test-00000-of-00001.parquet", hub=("", "test"))


def chain_of(structure):
    try:
        return list(ast.literal_eval(structure))
    except (ValueError, SyntaxError, TypeError):
        raise BenchmarkError(
            f"field 'group_structure' is {structure!r}; it must be a list such as [1, [2, 3], 4]"
        ) from None


def item(record, source, split):
    # The files are named 001.mp4; a table that was read as numbers lost the zeros.
    video, kind = text(record, "video_id").zfill(3), text(record, "group_type")
    options = record.get("options")
    options = options.strip().split("\n") if isinstance(options, str) else texts(record, "options")
    question = Question(text(record, "question"), without_labels(options))
    answer = text(record, "answer").upper()
    question.choice(answer)
    # [1, [2, 3], 4]: the second and the third question both follow from the first.
    steps = chain_of(text(record, "group_structure")) if kind == "logic" else []
    chain = tuple(len(step) if isinstance(step, list) else 1 for step in steps)
    identifier = text(record, "question_id")
    folder = source.files.folder("subtitle/subtitle", "subtitle", "subtitles")
    subtitles = None if folder is None else folder / f"{video}.jsonl"
    match = re.fullmatch(r".+-(\d+)", identifier)
    if match is None:
        raise BenchmarkError(f"field 'question_id' is {identifier!r}; it must end in a number, as in 001-1")
    return Item(
        id=identifier,
        video=source.files.video(f"{video}.mp4", "video", "videos"),
        video_key=video,
        question=question,
        answer=answer,
        # The authors' script asks without subtitles where the file is missing.
        subtitles=subtitles if subtitles is not None and subtitles.is_file() else None,
        groups={"set type": kind, **known_groups(record, level="level", task="second_head")},
        member=SetMember(video, int(match[1]), 4, chain),
    )


PROTOCOL = Protocol(
    "videomme_v2",
    name="no_subtitles",
    answer_prompt=PROMPT,
    reply="text",
    reply_tokens=64,
    subtitles="none",
    sampling="between",
    groups=("level", "set type"),
    metrics=METRICS,
)
PROTOCOLS = (
    PROTOCOL,
    replace(PROTOCOL, name="subtitles", answer_prompt=WITH_SUBTITLES, subtitles="all"),
    replace(PROTOCOL, name="interleaved", answer_prompt=INTERLEAVED, subtitles="interleaved_overlapping"),
)
BENCHMARK = BenchmarkSpec(
    "videomme_v2",
    ("test",),
    PROTOCOLS,
    each_row(rows, item),
    "test.parquet, video/ and subtitle/",
    subtitle_folders=("subtitle", "subtitles"),
    parsers={"videomme_v2": read_letter},
)
