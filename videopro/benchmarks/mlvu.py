"""MLVU: nine tasks on long videos; the multiple-choice tasks, reported as the mean over tasks (M-Avg).

    dev    json/1_plotQA.json ... 7_topic_reasoning.json, video/1_plotQA/NAME.mp4 ...: four options
    test   test_multi_choice_tasks.json, test-ground-truth/test_mcq_gt.json, MLVU_Test/video/NAME.mp4: six

Format, prompt and scorer: github.com/JUNJIE99/MLVU. A gold answer is an option's text. The official scorer
takes the last option with that text, even an empty one; if there is none, no answer is correct. Questions
and options without text are asked as `EMPTY`, and count. The generation tasks (sub-scene captioning,
summary) are not supported.

manifest/mlvu.yaml names the hub's repositories; sy1998/MLVU_dev and sy1998/MLVU_Test have the questions as
rows, for --annotations hf:NAME (lmms_eval/tasks/mlvu, commit 75571cf).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from videopro.benchmarks.base import NO_OPTION, Issue, Item
from videopro.benchmarks.fields import file_name, number, split_options, text, texts
from videopro.benchmarks.hub import manifest
from videopro.benchmarks.protocol import AnswerPrompt, Metric, Protocol
from videopro.benchmarks.record_files import LocatedRecord, UnreadableRecord
from videopro.benchmarks.registry import BenchmarkSpec
from videopro.benchmarks.sources import BenchmarkRecords, Source
from videopro.question import LETTERS, Question

TASKS = (
    *("1_plotQA", "2_needle", "3_ego", "4_count", "5_order"),
    *("6_anomaly_reco", "7_topic_reasoning"),
)
MANIFEST = manifest("mlvu")
(_QUESTIONS,), (_ANSWERS,) = (MANIFEST.paths("test", holds) for holds in ("questions", "answers"))
TEST_QUESTIONS = (_QUESTIONS, f"MLVU_Test/{_QUESTIONS}")
TEST_ANSWERS = (_ANSWERS, _ANSWERS.rpartition("/")[2])
# Tasks whose name in the questions differs from the files'.
NAMES = {"findNeedle": "needle"}
# Replaces an empty question, and an empty option, which keeps its position and letter.
EMPTY = "(empty)"

PROMPT = AnswerPrompt(
    source="JUNJIE99/MLVU, evaluation_test/test_bench.py, commit 228aa77",
    text="Question: {question}\nOptions:\n{options}\nOnly give the best option.",
    option="({letter}) {text}",
    system=(
        "Carefully watch this video and pay attention to every detail. Based on your observations, select "
        "the best option that accurately addresses the question."
    ),
    prefill="Best Option: (",
)
# For servers that do not continue a reply.
ONE_TURN = replace(
    PROMPT,
    source=(
        f"{PROMPT.source}; the beginning of the reply stands at the end of the user's turn, as in "
        "lmms_eval/tasks/mlvu/mlvu_dev.yaml of EvolvingLMMs-Lab/lmms-eval, commit 9ca4445"
    ),
    text=f"{PROMPT.system}\n{PROMPT.text}\n{PROMPT.prefill}",
    system="",
    prefill="",
)
_METRICS = (Metric("M-Avg", kind="macro", over="task"),)

_OFFICIAL = Protocol(
    "mlvu_4bcc3c0", name="official", answer_prompt=PROMPT, reply="text", reply_tokens=1024, subtitles="none",
    groups=("task",), metrics=_METRICS,
)  # fmt: skip

PROTOCOLS = (
    _OFFICIAL,
    replace(_OFFICIAL, name="one_turn", answer_prompt=ONE_TURN),
    Protocol("videopro", name="videopro", groups=("task",), metrics=_METRICS),
)


def read(source: Source, split: str) -> BenchmarkRecords:
    """The multiple-choice questions of a split."""
    records = BenchmarkRecords()
    rows = _test_rows(source, records) if split == "test" else _dev_rows(source, records)
    records.read(rows, partial(_item, source=source, split=split, records=records))
    return records


def _dev_rows(source: Source, records: BenchmarkRecords) -> Iterator[LocatedRecord]:
    if source.annotations:
        for where, record in source.rows(hub=MANIFEST.rows["dev"]):
            yield where, _numbered(record, _task_of(source.annotations, record), where)
        return
    files = {task: source.optional_file(f"json/{task}.json", f"{task}.json") for task in TASKS}
    if not any(files.values()):
        source.file(f"json/{TASKS[0]}.json", f"{TASKS[0]}.json")
    for task, path in files.items():
        if path is None:
            # Without a task, the mean over tasks would not be comparable.
            records.broken.append(Issue(str(source.root), f"has no json/{task}.json", "download it"))
            continue
        for where, record in source.rows(str(path.relative_to(source.root))):
            yield where, _numbered(record, task, where)


def _task_of(path: str, record: Mapping[str, Any]) -> str:
    kind = str(record.get("question_type") or record.get("task_type"))
    kind = NAMES.get(kind, kind)
    return next((task for task in TASKS if task.endswith(f"_{kind}") or task in Path(path).stem), kind)


def _numbered(record: Mapping[str, Any], task: str, where: str) -> Mapping[str, Any]:
    """Give a question without an id one made of its task and record number."""
    if isinstance(record, UnreadableRecord):
        return record
    return {"question_id": f"{task}/{where.rsplit(' ', 1)[-1]}", **record, "task": task}


def _test_rows(source: Source, records: BenchmarkRecords) -> Iterator[LocatedRecord]:
    answers = _test_answers(source, records)
    for where, row in source.rows(*TEST_QUESTIONS, hub=MANIFEST.rows["test"]):
        # The hub's rows have no ids.
        record = row if "task_type" not in row else _numbered(row, str(row["task_type"]), where)
        if isinstance(record, UnreadableRecord) or not answers:
            yield where, record
        else:
            gold = answers.get(str(record.get("question_id")), record.get("answer"))
            yield where, {**record, "answer": gold}


def _test_answers(source: Source, records: BenchmarkRecords) -> dict[str, Any]:
    """The answers by question id; empty if their file is missing: the questions can still be asked and
    submitted."""
    if source.optional_file(*TEST_ANSWERS) is None:
        return {}
    answers: dict[str, Any] = {}
    for where, record in source.rows(*TEST_ANSWERS, take=False):
        if isinstance(record, UnreadableRecord):
            records.broken.append(Issue(where, *record.problem))
        elif record.get("question_id") is None or "answer" not in record:
            problem = ("has no 'question_id' and 'answer'", "pass test_mcq_gt.json of MLVU")
            records.broken.append(Issue(where, *problem))
        else:
            answers[str(record["question_id"])] = record["answer"]
    return answers


def _item(
    record: Mapping[str, Any], where: str, *, source: Source, split: str, records: BenchmarkRecords
) -> Item:
    video = file_name(record, "video" if "video" in record else "video_name")
    question_text, choice_texts = _question_and_choices(record)
    choices = tuple(choice if choice.strip() else EMPTY for choice in choice_texts)
    question = Question(question_text or EMPTY, choices)
    if split == "test":
        identifier = text(record, "question_id")
        folders: tuple[str, ...] = ("MLVU_Test/video", "video")
        task = text(record, "question_type" if "question_type" in record else "task_type")
    else:
        task = text(record, "task")
        identifier = text(record, "question_id")
        folders = (f"video/{task}", f"MLVU/video/{task}", "video")
    name = NAMES.get(task, task.split("_", 1)[-1] if task[:1].isdigit() else task)
    if question.text == EMPTY:
        records.defect(where, f"question {identifier!r} has no text", f"read as {EMPTY!r}")
    if EMPTY in choices:
        records.defect(where, f"question {identifier!r} has an empty option", f"read as {EMPTY!r}")
    file = source.files.video(video, *folders)
    return Item(
        id=identifier,
        video=file,
        video_key=video,
        question=question,
        answer=_gold(record, choice_texts, identifier, where, records),
        subtitles=source.files.subtitles(Path(video).stem, "subtitles", video=file),
        groups={"task": name, **_length(record)},
    )


def _question_and_choices(record: Mapping[str, Any]) -> tuple[str, list[str]]:
    """The question, which may be empty, and its options; in the hub's rows they are one text."""
    if "candidates" not in record and "(A)" in str(record.get("question")):
        body, choices = split_options(record, "question")
        return body.removesuffix("Options:").strip(), choices
    is_empty = isinstance(record.get("question"), str) and not record["question"].strip()
    return "" if is_empty else text(record, "question"), texts(record, "candidates")


def _gold(
    record: Mapping[str, Any], choices: list[str], identifier: str, where: str, records: BenchmarkRecords
) -> str | None:
    if record.get("answer") is None:
        return None
    # An empty gold answer is an empty option.
    empty = isinstance(record["answer"], str) and not record["answer"].strip()
    answer = "" if empty else text(record, "answer")
    positions = [position for position, choice in enumerate(choices) if choice.strip() == answer]
    # Rows on the hub give the letter instead of the text.
    if not positions and len(answer) == 1 and answer in LETTERS[: len(choices)]:
        return answer
    if not positions:
        records.defect(
            where,
            f"the gold answer of question {identifier!r} is not among its options: {answer!r}",
            "always wrong in the official score, left out of the robust score",
        )
        return NO_OPTION
    # The last of equal options, as in the official scorer.
    return LETTERS[positions[-1]]


def _length(record: Mapping[str, Any]) -> dict[str, str]:
    """The paper's bins (below 2, 2 to 15, above 15 minutes), if the record has a duration."""
    if record.get("duration") is None:
        return {}
    minutes = number(record, "duration") / 60
    return {"duration": "< 2 min" if minutes < 2 else "2-15 min" if minutes <= 15 else "> 15 min"}


SPEC = BenchmarkSpec(
    "mlvu",
    ("dev", "test"),
    PROTOCOLS,
    read,
    "json/1_plotQA.json ... and video/ (dev), or test_multi_choice_tasks.json and MLVU_Test/video/ (test)",
)
