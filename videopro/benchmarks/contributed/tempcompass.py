"""TempCompass: actions, directions, speeds, orders and changes in short videos, asked in three ways.

    questions/multi-choice.json, yes_no.json, caption_matching.json    {VIDEO: {ASPECT: [question, answer]}}
    videos/VIDEO.mp4

The rows of lmms-eval/TempCompass on the hub are supported too (--annotations hf:lmms-eval/TempCompass). A
split is a question format, with the protocol of the same name. The source is github.com/llyx97/TempCompass.
Format and prompts: run_qwen2_vl.py, commit e1b4631. Rules: eval_multi-choice.py, eval_yes_no.py and
eval_caption_matching.py, commit c2ec41e (the same in e1b4631), with --disable_llm: a reply that no rule
matches is wrong. Captioning is not supported.
"""

import re

from videopro.benchmarks import AnswerPrompt, BenchmarkSpec, Item, Metric, Protocol, each_row, text
from videopro.errors import BenchmarkError
from videopro.question import Question

ASPECTS = ("action", "direction", "speed", "order", "attribute_change")
SPLITS = {
    "multi-choice": "\nPlease directly give the best option:",
    "yes_no": "\nPlease answer yes or no:",
    "caption_matching": "\nPlease directly give the best option:",
}


def rows(source, split):
    if source.on_hub:
        for number, (where, row) in enumerate(source.rows(hub=(split, "test")), start=1):
            about = {"video": row["video_id"], "aspect": row["dim"]}
            yield where, {**row, **about, "id": f"{row['video_id']}/{row['dim']}/{number}"}
        return
    path = source.annotation_file(f"questions/{split}.json", f"{split}.json")
    for video, aspects in source.object(path, "videos and their questions").items():
        for aspect, records in aspects.items():
            for number, record in enumerate(records, start=1):
                about = {"id": f"{video}/{aspect}/{number}", "video": video, "aspect": aspect}
                yield f"{path}, {about['id']}", {**record, **about}


def item(record, source, split):
    body, *choices = [line.strip() for line in text(record, "question").split("\n")]
    # Captions keep their names, such as "Sentence A: ..."; of two options, one has no space after its letter.
    is_caption = split == "caption_matching"
    bare = choices if is_caption else [re.sub(r"^[A-D]\. ?", "", choice) for choice in choices]
    question = Question(body, tuple(bare) or ("yes", "no"))
    options, answer = choices or ["yes", "no"], text(record, "answer")
    if answer not in options:
        raise BenchmarkError(f"field 'answer' is {answer!r}; it must be one of {options}")
    return Item(
        id=record["id"],
        video=source.files.video(record["video"], "videos"),
        video_key=record["video"],
        question=question,
        answer=question.letters[options.index(answer)],
        groups={"aspect": record["aspect"]},
    )


def multi_choice(reply, question):
    """The letter of a reply that is a letter, an option, or starts with "B." or "B)"."""
    reply = reply.replace("</s>", "").strip()
    options = dict(zip(question.lettered_choices().split("\n"), question.letters, strict=True))
    begins = re.match(r"([A-D])(?:[.)]|$)", reply)
    return options.get(reply) or (begins[1] if begins else None)


def yes_no(reply, question):
    """The letter of "yes" or "no" at the start of the reply."""
    reply = reply.replace("</s>", "").strip().lower()
    return "A" if reply.startswith("yes") else "B" if reply.startswith("no") else None


def caption_matching(reply, question):
    """The letter of the caption in the reply: in full, its sentence, its name, or its number."""
    reply = reply.replace("</s>", "").strip()
    # The last caption that fits counts, as in the official rule.
    read = None
    for letter, caption in zip(question.letters, question.choices, strict=True):
        name, sentence = caption.split(": ")[:2]
        after = reply.split(") ")[1] if ") " in reply else None
        names = (name, name.split()[-1])
        if (
            reply == caption
            or sentence in (reply, after)
            or reply in names
            or reply.replace(".", "") in names
        ):
            read = letter
    return read


PROTOCOLS = tuple(
    Protocol(
        f"tempcompass {split}",
        name=split,
        answer_prompt=AnswerPrompt(
            source="llyx97/TempCompass, run_qwen2_vl.py (answer_prompt), commit e1b4631",
            text="{question}" + ("" if split == "yes_no" else "\n{options}") + last,
            option="{text}" if split == "caption_matching" else "{letter}. {text}",
        ),
        reply="text",
        reply_tokens=128,
        subtitles="none",
        groups=("aspect",),
        metrics=(*(Metric(aspect, over="aspect", of=(aspect,)) for aspect in ASPECTS), Metric("avg")),
    )
    for split, last in SPLITS.items()
)
BENCHMARK = BenchmarkSpec(
    "tempcompass",
    tuple(SPLITS),
    PROTOCOLS,
    each_row(rows, item),
    "questions/ and videos/",
    parsers={
        "tempcompass multi-choice": multi_choice,
        "tempcompass yes_no": yes_no,
        "tempcompass caption_matching": caption_matching,
    },
)
