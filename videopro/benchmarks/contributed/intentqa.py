"""IntentQA: why people do what they do, in everyday videos of NExT-QA; five options.

    val.csv, test.csv      the questions (datasets/IntentQA/ of github.com/JoseponLee/IntentQA)
    Videos/VIDEO_ID.mp4

Format and metrics: README.md and eval_intentqa.py of that repository, commit cee9eaa (TP counts as TN). Its
scorer compares indices and does not parse replies: prompts and parsing are as in NExT-QA.
"""

from dataclasses import replace

from videopro.benchmarks import BENCHMARKS, BenchmarkSpec, Item, Metric, each_row, file_name, index, text
from videopro.question import LETTERS, Question

PROTOCOL = replace(
    BENCHMARKS["nextqa"].protocols[0],
    metrics=(
        Metric("CW", over="type", of=("CW",)),
        Metric("CH", over="type", of=("CH",)),
        Metric("TP&TN", over="type", of=("TN",)),
        Metric("Total"),
    ),
)


def rows(source, split):
    return source.rows(f"{split}.csv", f"datasets/IntentQA/{split}.csv")


def item(record, source, split):
    video = file_name(record, "video_id")
    return Item(
        id=f"{video}_{text(record, 'qid')}",
        video=source.files.video(video, "Videos", "videos"),
        video_key=video,
        question=Question(text(record, "question"), tuple(text(record, f"a{column}") for column in range(5))),
        answer=LETTERS[index(record, "answer", 5)],
        groups={"type": text(record, "type").replace("TP", "TN")},
    )


BENCHMARK = BenchmarkSpec(
    "intentqa", ("test", "val"), (PROTOCOL,), each_row(rows, item), "test.csv, val.csv and Videos/"
)
