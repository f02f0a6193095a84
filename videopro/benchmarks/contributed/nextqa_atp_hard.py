"""NExT-QA's ATP-hard subset: causal and temporal questions that no single frame answers; five options.

    val.csv                NExT-QA's validation questions (github.com/doc-doc/NExT-QA, dataset/nextqa/)
    atp-hard-ct4.txt       the row numbers of the subset, from 0 (stanfordvl.github.io/atp-revisit-video-lang)
    map_vid_vidorID.json   the file of each video; without it, files are named after the ids
    NExTVideo/FOLDER/ID.mp4

The subset: data/DATA.md of github.com/StanfordVL/atp-video-language, commit abb4226 (Buch et al., CVPR 2022).
Types and metrics: eval_mc.py of NExT-QA (TP counts as TN). The split `atp_hard` of `nextqa`
has the same questions; there, `val` marks them, for tables that show both.
"""

from dataclasses import replace

from videopro.benchmarks import BENCHMARKS, BenchmarkSpec, Item, each_row, file_name, index, text
from videopro.errors import BenchmarkError
from videopro.question import LETTERS, Question

# As NExT-QA asks and scores; the subset has no descriptive questions.
NEXTQA = BENCHMARKS["nextqa"].protocols[0]
PROTOCOL = replace(NEXTQA, metrics=tuple(metric for metric in NEXTQA.metrics if metric.name != "Acc@D"))


def rows(source, split):
    source.annotation_file("val.csv", "dataset/nextqa/val.csv")  # the hub has other rows
    every = source.rows("val.csv", "dataset/nextqa/val.csv")
    subset = source.file("atp-hard-ct4.txt", "dataset/nextqa/atp-hard-ct4.txt")
    lines = subset.read_text().split()
    if not lines or not all(line.isdecimal() for line in lines):
        raise BenchmarkError(f"{subset}: must list row numbers, one per line; download it again")
    numbers = [int(line) for line in lines]
    if max(numbers) >= len(every):
        raise BenchmarkError(f"{subset}: lists row {max(numbers)} of {len(every)}; pass the full val.csv")
    mapped = source.optional_file("map_vid_vidorID.json", "dataset/nextqa/map_vid_vidorID.json")
    files = source.object(mapped, "video ids and files") if mapped else {}
    # The list's own order would scatter the questions of a video over the run.
    hard = [every[number] for number in sorted(set(numbers))]
    return [(where, {**row, "file": files.get(row["video"], row["video"])}) for where, row in hard]


def item(record, source, split):
    video = file_name(record, "video")
    return Item(
        id=f"{video}_{text(record, 'qid')}",
        video=source.files.video(file_name(record, "file"), "NExTVideo", "videos", ""),
        video_key=video,
        question=Question(text(record, "question"), tuple(text(record, f"a{column}") for column in range(5))),
        answer=LETTERS[index(record, "answer", 5)],
        groups={"type": text(record, "type").replace("TP", "TN")},
    )


BENCHMARK = BenchmarkSpec(
    "nextqa_atp_hard", ("val",), (PROTOCOL,), each_row(rows, item), "val.csv, atp-hard-ct4.txt and NExTVideo/"
)
