"""Garden, an invented benchmark: which bird is at the feeder? Its files:

    val.csv, test.csv     id,video,question,a,b,c,answer,season; test.csv has no answers
    videos/NAME.mp4

A real file also says where the format and the scorer come from.
"""

from videopro.benchmarks import (
    AnswerPrompt,
    BenchmarkSpec,
    Item,
    Metric,
    Protocol,
    each_row,
    file_name,
    known_groups,
    text,
)
from videopro.question import Question

PROTOCOL = Protocol(
    "robust",
    name="official",
    answer_prompt=AnswerPrompt(
        source="this example; a real one names the authors' repository, file and commit",
        text="{question}\n{options}\nAnswer with the letter of the bird.",
    ),
    subtitles="none",
    groups=("season",),
    metrics=(Metric("Winter", over="season", of=("winter",)),),
)


def rows(source, split):
    return source.rows(f"{split}.csv")


def item(record, source, split):
    video = file_name(record, "video")
    question = Question(text(record, "question"), tuple(text(record, option) for option in "abc"))
    answer = record["answer"] or None
    if answer is not None:
        question.choice(answer)  # it is one of the letters
    return Item(
        id=text(record, "id"),
        video=source.files.video(video, "videos"),
        video_key=video,
        question=question,
        answer=answer,
        groups=known_groups(record, season="season"),
    )


BENCHMARK = BenchmarkSpec(
    "garden", ("val", "test"), (PROTOCOL,), each_row(rows, item), "val.csv, test.csv and videos/"
)
