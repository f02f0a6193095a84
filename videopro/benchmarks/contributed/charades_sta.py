"""Charades-STA: when does the event in a sentence happen? Temporal grounding in videos of half a minute.

    charades_sta_test.txt          VIDEO START END##SENTENCE, one per line
    Charades_v1_480/VIDEO.mp4      or Charades_v1/, videos/

An answer is an interval in seconds: the metrics are its IoU with the annotated one (mIoU) and the shares of
questions with an IoU of at least 0.3, 0.5 and 0.7. Annotations: github.com/jiyanggao/TALL, README.md. Prompt,
reader and scorer: lmms_eval/tasks/charades_sta/ (utils.py) of EvolvingLMMs-Lab/lmms-eval, commit 26f1d8e,
whose rows on the hub are supported too (--annotations hf:lmms-eval/charades_sta).
"""

import re

from videopro.benchmarks import AnswerPrompt, BenchmarkSpec, Item, Metric, Protocol, each_row, interval, text
from videopro.errors import BenchmarkError
from videopro.question import Question

PROMPT = AnswerPrompt(
    source="EvolvingLMMs-Lab/lmms-eval, lmms_eval/tasks/charades_sta/charades.yaml, commit 26f1d8e",
    text="Please find the visual event described by a sentence in the video, determining its starting and "
    "ending times. The format should be: 'The event happens in the start time - end time'. For example, The "
    "event 'person turn a light on' happens in the 24.3 - 30.4 seonds. Now I will give you the textual "
    "sentence: {question}. Please return its start time and end time.",
)


def rows(source, split):
    if source.on_hub:
        return source.rows(hub=("", "test"))
    path = source.annotation_file("charades_sta_test.txt", "Charades/charades_sta_test.txt")
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
    return [(f"{path}, line {number}", {"line": line}) for number, line in lines if line.strip()]


def item(record, source, split):
    if "line" in record:
        match = re.fullmatch(r"(\S+) (\d+\.?\d*) (\d+\.?\d*)\s*##(.+)", record["line"])
        if match is None:
            raise BenchmarkError("must have the form VIDEO START END##SENTENCE; download the file again")
        video, sentence, times = match[1], match[4].strip(), [float(match[2]), float(match[3])]
    else:
        video, sentence = text(record, "video").removesuffix(".mp4"), text(record, "caption")
        times = [float(time) for time in re.findall(r"\d+\.?\d*", str(record.get("timestamp")))]
    # Some annotations end before they start.
    start, end = interval(sorted(times), "timestamp")
    return Item(
        # The file has no ids, and a video has several sentences and times.
        id=f"{video} {start:g}-{end:g} {sentence}",
        video=source.files.video(f"{video}.mp4", "Charades_v1_480", "Charades_v1", "videos"),
        video_key=video,
        question=Question.open(sentence),
        evidence=((start, end),),
    )


_CLOCK = r"\d{1,2}:\d{2}(?::\d{2})?"
_NUMBER = r"\d+(?:\.\d+)?"
_FORMS = (rf"\b({_CLOCK})\s*[–-]\s*({_CLOCK})\b", rf"({_NUMBER})\s*[–-]\s*({_NUMBER})")
# Between the numbers of the last range that is looked for, as in "3s - 7s".
_UNIT = r"\s*s?\s*[–-]\s*"
_EVENT_VERBS = ("start", "end", "happen")


def read_times(reply, question):
    """The first interval of `extract_time`: of the sentences that say when something starts, ends or happens
    (of all, if none does), a range of clock times or of numbers; else the first clock times, else the first
    numbers of the sentences, in pairs; else a range of numbers with "s" after them."""
    # As the official reader does, inside words too ("automatic" becomes "au-matic").
    reply = reply.lower().replace("a specific example is : 20.8 - 30.0 seconds", "").replace("to", "-")
    sentences = re.split(r"[!?\n]", reply)
    about_events = [sentence for sentence in sentences if any(verb in sentence for verb in _EVENT_VERBS)]
    sentences = about_events or sentences
    if ranged := _range(sentences, *_FORMS):
        return [ranged]
    times = [time for sentence in sentences for time in re.findall(rf"\b({_CLOCK})\b", sentence)]
    if len(times) < 2:
        numbers = [re.search(rf"\b({_NUMBER})\b", sentence) for sentence in sentences]
        times = [match[1] for match in numbers if match]
    if len(times) > 1:
        return [tuple(sorted(map(_seconds, times[:2])))]
    ranged = _range(sentences, f"({_NUMBER}){_UNIT}({_NUMBER})")
    return [ranged] if ranged else None


def _range(sentences, *forms):
    """The times of the first sentence with the first form that any has; None without one."""
    for form in forms:
        for sentence in sentences:
            if match := re.search(form, sentence):
                return tuple(sorted(map(_seconds, match.groups())))
    return None


def _seconds(time):
    seconds = 0.0
    for part in time.split(":"):
        seconds = seconds * 60 + float(part)
    return seconds


PROTOCOL = Protocol(
    # Runs of an earlier reader, which missed ranges such as "3s - 7s", have "charades_sta".
    "charades_sta_26f1d8e",
    name="official",
    answer_prompt=PROMPT,
    reply="intervals",
    reply_tokens=50,
    subtitles="none",
    groups=(),
    metrics=(
        *(Metric(f"R@{at}", kind="grounding", at=at) for at in (0.3, 0.5, 0.7)),
        Metric("mIoU", kind="grounding"),
    ),
)
BENCHMARK = BenchmarkSpec(
    "charades_sta",
    ("test",),
    (PROTOCOL,),
    each_row(rows, item),
    "charades_sta_test.txt and Charades_v1_480/",
    parsers={"charades_sta_26f1d8e": read_times},
)
