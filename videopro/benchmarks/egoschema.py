"""EgoSchema: one question about each of 5,031 egocentric clips of three minutes; five options.

    questions.json             all questions
    subset_answers.json        the answers to 500 of them: split "subset", scored locally
    videos/Q_UID.mp4

The rows of lmms-lab/egoschema on the hub are supported too (--annotations hf:lmms-lab/egoschema;
configurations "Subset", with answers, and "MC").

Split "full" is only scored by a server: `videopro benchmarks submit RUN` writes the submission.
Format: github.com/egoschema/EgoSchema, which publishes no answer parser; lmms-eval's counts as official here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from videopro.benchmarks.base import Issue, Item
from videopro.benchmarks.fields import file_name, index, text, texts, without_labels
from videopro.benchmarks.protocol import AnswerPrompt, Protocol
from videopro.benchmarks.record_files import LocatedRecord
from videopro.benchmarks.registry import BenchmarkSpec
from videopro.benchmarks.sources import BenchmarkRecords, Source
from videopro.question import LETTERS, Question

ANSWERS = "subset_answers.json"
HUB_CONFIGS = {"subset": "Subset", "full": "MC"}
VIDEO_FOLDERS = ("videos", "good_clips_git", "video")

PROMPT = AnswerPrompt(
    source="EvolvingLMMs-Lab/lmms-eval, lmms_eval/tasks/egoschema/utils.py (egoschema_doc_to_text), commit "
    "147ad5c (egoschema/EgoSchema publishes none)",
    text="{question}\n{options}\nAnswer with the option's letter from the given choices directly.",
)
_OFFICIAL = Protocol(
    "egoschema_1d3f34ab", name="official", answer_prompt=PROMPT, reply="text", reply_tokens=16,
    subtitles="none", groups=(),
)  # fmt: skip

# Until August 2024, lmms-eval counted a reply only if it was an option, its text or its letter exactly.
PROTOCOLS = (_OFFICIAL, replace(_OFFICIAL, parser="egoschema_77a7d8e3", name="exact"))


def read(source: Source, split: str) -> BenchmarkRecords:
    """The 500 questions with answers (split "subset"), or all questions without answers."""
    records = BenchmarkRecords()
    rows = source.rows("questions.json", hub=(HUB_CONFIGS[split], "test"))
    gold = _gold(source, rows) if split == "subset" else {}
    records.read(rows, partial(_item, source=source, split=split, gold=gold))
    ids = {item.id for item in records.items}
    # Broken records would be reported once more, as answers without a question.
    if not records.broken:
        for uid in gold.keys() - ids:
            records.broken.append(Issue(ANSWERS, f"{uid!r} is not in questions.json", "download both again"))
    return records


def _gold(source: Source, rows: Sequence[LocatedRecord]) -> Mapping[str, Any]:
    """The index of the correct option by question id: from the hub's rows, or from its own file."""
    on_hub = [record for _, record in rows if "video_idx" in record and record.get("answer") is not None]
    if on_hub:
        return {str(record["video_idx"]): record["answer"] for record in on_hub}
    return source.object(source.file(ANSWERS), "ids and option indices")


def _item(
    record: Mapping[str, Any],
    where: str,
    *,
    source: Source,
    split: str,
    gold: Mapping[str, Any],
) -> Item | None:
    uid = file_name(record, "q_uid" if "q_uid" in record else "video_idx")
    if split == "subset" and uid not in gold:
        return None
    if "option" in record:
        choices = without_labels(texts(record, "option"))
    else:
        choices = tuple(text(record, f"option {position}") for position in range(5))
    return Item(
        id=uid,
        video=source.files.video(uid, *VIDEO_FOLDERS),
        video_key=uid,
        question=Question(text(record, "question"), choices),
        answer=LETTERS[index(gold, uid, len(choices))] if uid in gold else None,
    )


SPEC = BenchmarkSpec(
    "egoschema", ("subset", "full"), PROTOCOLS, read, "questions.json, subset_answers.json and videos/"
)
