"""From records to training data: records.jsonl to sft.jsonl, grpo.jsonl and the data card.

A pure step over the records: the same records give the same bytes, in whatever order they were written. It
uses traces and the rules, and neither sends requests nor runs programs. Rows beyond a cap or a total are left
out evenly: among the rules R1 to R4 (of prompts: among their kinds), and within each among the families of
questions. What one of them lacks goes to the others.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from videopro.benchmarks import Item
from videopro.data_synthesis.decontamination import EvaluationVideos
from videopro.data_synthesis.questions import NO_REFERENCE, UNDIVIDED, RowReference, VideoSplit, drawn
from videopro.data_synthesis.rules import (
    NATIVE,
    RULES,
    Trajectory,
    grpo_tasks,
    select_trajectories,
    trace_oracle_mode,
)
from videopro.errors import RunError
from videopro.methods.planners import PromptFile
from videopro.storage import write_file
from videopro.traces import Trace

SFT, GRPO, HELD_OUT = "sft.jsonl", "grpo.jsonl", "held_out.jsonl"

# In a text these are media placeholders or control tokens to the code that reads it for training.
_TAGS = re.compile(r"<(?:video|image|audio)>|<\|")


@dataclass
class Datasets:
    """Rows as written, and why everything else was left out."""

    sft: list[dict[str, Any]] = field(default_factory=list)
    grpo: list[dict[str, Any]] = field(default_factory=list)
    rejected: Counter[str] = field(default_factory=Counter)
    """By reason."""

    def digests(self) -> dict[str, str]:
        """SHA-256 of both files, which ties a card to its files."""
        return {
            name: hashlib.sha256(json_lines(rows).encode()).hexdigest()
            for name, rows in ((SFT, self.sft), (GRPO, self.grpo))
        }

    def write(self, folder: Path) -> None:
        """Write both files, each atomically. Raises RunError if they cannot be written."""
        for name, rows in ((SFT, self.sft), (GRPO, self.grpo)):
            write_rows(folder / name, rows)


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows, completely or not at all. Raises RunError if they cannot be written."""
    write_file(path, json_lines(rows))


def json_lines(rows: Iterable[Mapping[str, Any]]) -> str:
    """Rows as JSON Lines."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def assemble(
    traces: Iterable[Trace],
    *,
    tau: float,
    source: str,
    folder: Path,
    excluded: EvaluationVideos,
    seeds: Mapping[str, tuple[str, int]],
    skip: bool = False,
    held_out: Callable[[str, str, str], str | None] = lambda *_: None,
    split: VideoSplit = UNDIVIDED,
    always_program: bool = False,
    prompt_file: PromptFile | None = None,
    reference: RowReference = NO_REFERENCE,
    subtitle_track: str | None = None,
) -> Datasets:
    """The datasets of these records, for `folder`: paths of videos below it are written relative to it.

    `source` names where the questions come from; `excluded` are the videos that must not be included, and
    `seeds` what drawn videos are made from, by name. A question about such a video raises RunError,
    which names the video, or with `skip` is left out and counted. `held_out` names the filter that leaves a
    question out, by its id, text and video; `split` says which videos are for which file. `always_program`:
    see `select_trajectories`. `prompt_file`: the user's prompts for the rows. `reference`: what they say of
    the modules. `subtitle_track`: the track of a video file that the records were made with.
    """

    def grpo_rows(trace: Trace) -> list[dict[str, Any]]:
        track = {"subtitle_track": subtitle_track} if subtitle_track and trace.video.subtitles else {}
        return [{**row, **track} for row in _grpo_rows(trace, tau, folder, prompt_file, reference)]

    datasets = Datasets()
    seen: set[tuple[str, ...]] = set()
    # By id, not in the order of the file, which depends on who was done first.
    traces = sorted(traces, key=lambda trace: trace.question_id)
    # A video may be there under two names: by its content it is on one side only.
    of_sft = {trace.video.id for trace in traces if split.serves(trace.video.key, "sft")}
    for trace in traces:
        evaluated = excluded.evaluated_in(Path(trace.video.path), trace.video.key, trace.video.id, seeds)
        if evaluated and not skip:
            raise RunError(
                f"question {trace.question_id!r}: its video {trace.video.path} is {evaluated}, which is for "
                "evaluation; no dataset was written. Skip evaluation videos with --evaluation skip"
            )
        if evaluated:
            datasets.rejected["question: video of an evaluation split"] += 1
            continue
        filtered = held_out(trace.question_id, trace.question, trace.video.key)
        if filtered:
            datasets.rejected[f"question: {filtered}"] += 1
            continue
        # Training code would take such a text for a video or one of its control tokens.
        if any(_TAGS.search(text) for text in (trace.question, *trace.choices)):
            datasets.rejected["question: holds a media placeholder or a control token"] += 1
            continue
        if not split.serves(trace.video.key, "sft"):
            if trace.video.id and trace.video.id in of_sft:
                datasets.rejected["question: its video is for SFT under another name"] += 1
                continue
            datasets.grpo += grpo_rows(trace)
            continue
        rows, rejected = select_trajectories(
            trace,
            tau,
            always_program=always_program,
            file=prompt_file,
            reference=reference.text(trace) if trace.error is None else "",
        )
        datasets.rejected += rejected
        for row in rows:
            # A source may contain the same question about the same video twice.
            key = (trace.video.id, row.kind, row.prompt, row.target)
            if key in seen:
                datasets.rejected[f"{row.kind}: the same example in another question"] += 1
                continue
            seen.add(key)
            if _TAGS.search(row.prompt + row.reply):
                datasets.rejected[f"{row.kind}: holds a media placeholder or a control token"] += 1
                continue
            rename = reference.renames(trace)
            row = replace(row, prompt=rename(row.prompt), reply=rename(row.reply))
            datasets.sft.append({**_sft_row(trace, row, source, folder), **reference.columns(trace)})
        if split.serves(trace.video.key, "grpo"):
            datasets.grpo += grpo_rows(trace)
    return datasets


def _sft_row(trace: Trace, row: Trajectory, source: str, folder: Path) -> dict[str, Any]:
    suffix = f"-{row.position}" if row.prompt_program else ""
    return {
        "messages": [
            {"role": "user", "content": f"<video>{row.prompt}"},
            {"role": "assistant", "content": row.reply},
        ],
        "videos": [path_for(trace.video.path, folder)],
        "id": f"{trace.question_id}/{row.kind}{suffix}",
        "question_id": trace.question_id,
        "kind": row.kind,
        "mode": row.mode,
        "family": trace.groups.get("family"),
        "length": trace.groups.get("duration"),
        "source": source,
    }


def _grpo_rows(
    trace: Trace, tau: float, folder: Path, file: PromptFile | None, reference: RowReference
) -> list[dict[str, Any]]:
    if trace.error is not None:
        return []
    rows = []
    for task in grpo_tasks(trace, tau, file=file, reference=reference.text(trace)):
        if _TAGS.search(task.prompt):
            continue
        native = trace.rounds[NATIVE].execution
        assert native is not None
        suffix = "" if task.kind == "plan" else f"-{task.position}"
        row = {
            "id": f"{trace.question_id}/{task.kind}{suffix}",
            "question_id": trace.question_id,
            "video": path_for(trace.video.path, folder),
            "subtitles": path_for(trace.video.subtitles, folder) if trace.video.subtitles else None,
            "question": trace.question,
            "choices": list(trace.choices),
            "answer": trace.gold,
            "kind": task.kind,
            "prompt": task.prompt,
            # For ms-swift, which ignores `prompt` and `video` next to these, and passes the rest to rewards.
            "messages": [{"role": "user", "content": f"<video>{task.prompt}"}],
            "videos": [path_for(trace.video.path, folder)],
            "solution": trace.gold,
            "program": task.program or None,
            "log": task.log or None,
            "native_answer": native.answer.letter,
            # Further digits depend on what else was in the batch.
            "native_confidence": round(native.answer.confidence, 4),
            "oracle_mode": trace_oracle_mode(trace, tau),
            "family": trace.groups.get("family"),
            "length": trace.groups.get("duration"),
            **reference.columns(trace),
        }
        rows.append(row)
    return rows


def evaluation_rows(items: Iterable[Item], folder: Path) -> list[dict[str, Any]]:
    """Questions that are set aside, as eval_questions of a training takes them."""
    return [
        {
            "id": item.id,
            "kind": "plan",
            "video": path_for(str(item.video), folder),
            "subtitles": path_for(str(item.subtitles), folder) if item.subtitles else None,
            "question": item.question.text,
            "choices": list(item.question.choices),
            "answer": item.answer,
            "family": item.groups.get("family"),
        }
        for item in items
    ]


def path_for(path: str, folder: Path) -> str:
    """The path that a dataset in `folder` gives for a file: relative if the file is below it, else
    absolute."""
    absolute, below = Path(path).absolute(), folder.absolute()
    return str(absolute.relative_to(below)) if absolute.is_relative_to(below) else str(absolute)


def letters_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """How often each letter is the correct one, over the questions of GRPO rows."""
    right = {row["question_id"]: row["answer"] for row in rows}
    return dict(sorted(Counter(right.values()).items()))


Row = Mapping[str, Any]


def limited(datasets: Datasets, *, sft: int | None, grpo: int | None, seed: int) -> Datasets:
    """The datasets with at most so many rows each (None: all), in the same order; rows that are left out are
    counted as rejected."""
    rejected = Counter(datasets.rejected)
    kept_sft = _limited(datasets.sft, sft, "sft", seed, rejected)
    kept_grpo = _limited(datasets.grpo, grpo, "grpo", seed, rejected)
    return Datasets(kept_sft, kept_grpo, rejected)


def _limited(
    rows: list[dict[str, Any]], most: int | None, name: str, seed: int, rejected: Counter[str]
) -> list[dict[str, Any]]:
    if most is None or len(rows) <= most:
        return rows
    ids = {row["id"] for row in even(rows, most, [rule_of, _family], seed)}
    kept = [row for row in rows if row["id"] in ids]
    rejected[f"{name}: beyond {name}_rows"] += len(rows) - len(kept)
    return kept


def even(
    rows: Sequence[Row], count: int, levels: Sequence[Callable[[Row], Hashable]], seed: int
) -> list[Row]:
    """`count` of the rows, as evenly as there are rows over the groups of the first level, and within each
    over those of the next. Within the last, by a draw from the row's id. All rows, if there are no more."""
    if len(rows) <= count:
        return list(rows)
    if not levels:
        return sorted(rows, key=lambda row: (drawn(row["id"], f"{seed} rows"), row["id"]))[:count]
    groups: dict[Hashable, list[Row]] = {}
    for row in rows:
        groups.setdefault(levels[0](row), []).append(row)
    # From the smallest: what it lacks of its share is shared by those after it.
    smallest_first = sorted(groups.items(), key=lambda group: (len(group[1]), str(group[0])))
    chosen: list[Row] = []
    for position, (_, group) in enumerate(smallest_first):
        share = (count - len(chosen)) // (len(smallest_first) - position)
        chosen += even(group, share, levels[1:], seed)
    return chosen


def rule_of(row: Row) -> str:
    """The rule that gave an SFT row (R1 to R4), or the kind of a prompt for GRPO."""
    if "oracle_mode" in row:
        return str(row["kind"])
    return next(rule for rule, kinds in RULES.items() if row["kind"] in kinds)


def _family(row: Row) -> str:
    return row["family"] or ""
