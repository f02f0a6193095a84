"""What the miniature's stages have to leave, because of what went in.

    python -m tests.support.miniature.checks FOLDER

It says nothing about how good the answers are: the films are drawn, and the training has a few steps. Every
expected value follows from the files that `tests.support.miniature` made, or from the config.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from safetensors.torch import load_file

from perf.transcripts import word_errors
from tests.support.miniature.__main__ import BENCHMARKS
from tests.support.miniature.engine_checks import engine_checks
from tests.support.miniature.planner_checks import json_lines, planner_checks
from videopro.benchmarks import load
from videopro.cli import CONFIGS, cache_root
from videopro.modules.models import Transcript, read_speech, transcribe_video
from videopro.question import LETTERS
from videopro.video import Video, load_subtitles

RUNS = {
    "native": ("lvbench", "videomme", "longvideobench", "mlvu"),
    "videopro": ("lvbench", "videomme", "longvideobench", "mlvu"),
    **dict.fromkeys(
        ("program", "sft", *(f"without-{g}" for g in ("retrieval", "localization", "extraction", "context"))),
        ("lvbench", "videomme"),
    ),
}
MOST_WORDS_WRONG = 0.35
"""Whisper's smallest model on a synthesizer's voice that reads invented stories: 9 % of plain sentences were
wrong in perf/transcripts.json. A transcript of another film, or with other times, is wrong in nearly all."""


def checks(folder: Path) -> Iterator[tuple[str, bool]]:
    """Each thing that has to be so, and whether it is."""
    output = folder / "output"
    yield from _files(folder)
    yield from _transcript(folder)
    yield from _rows(folder, output)
    yield from _training(output)
    yield from _runs(output)
    yield from planner_checks(folder)
    if (folder / "engine").exists():
        yield from engine_checks(folder)


def _files(folder: Path) -> Iterator[tuple[str, bool]]:
    for name, split in (
        *(("cg_bench", "full"), ("lvbench", "test"), ("videomme", "long")),
        *(("longvideobench", "val"), ("mlvu", "test")),
    ):
        found = load(name, split=split, root=folder / "data" / name, protocol="videopro")
        # Every film has eleven questions.
        questions = 11 * len(BENCHMARKS[name][1])
        yield f"{name} has {questions} questions", len(found.items) == questions
        yield f"the videos of {name} are unpacked", all(item.video.is_file() for item in found.items)


def _transcript(folder: Path) -> Iterator[tuple[str, bool]]:
    """LVBench has no subtitles, so its film was heard; what is said in it is known."""
    (name,) = BENCHMARKS["lvbench"][1]
    lines = load_subtitles(folder / "films" / f"{name}.srt").lines
    heard = _heard(folder / "data" / "lvbench" / "all_videos" / "lv0.mp4").lines
    wrong, words = word_errors(*(" ".join(line.text for line in said) for said in (lines, heard)))
    yield f"LVBench's film is transcribed: {wrong} of {words} words wrong", wrong / words < MOST_WORDS_WRONG


def _heard(film: Path) -> Transcript:
    """The stored transcript."""
    settings = yaml.safe_load((CONFIGS / "reproduce" / "miniature.yaml").read_text())

    def is_missing() -> Any:
        raise AssertionError(f"{film} was not transcribed")

    speech = read_speech(settings["modules"]["speech"])
    return transcribe_video(Video.open(film), speech, is_missing, cache_root() / "speech")


def _rows(folder: Path, output: Path) -> Iterator[tuple[str, bool]]:
    sft, grpo = (json_lines(output / "synthesis" / f"{name}.jsonl") for name in ("sft", "grpo"))
    held_out = json.loads((folder / "data" / "cg_bench" / "cgbench_mini.json").read_text())
    ids = {str(record["qid"]) for record in held_out}
    yield "both trainings have rows", bool(sft and grpo)
    yield "no row is of CG-Bench mini", not ids & {str(row["question_id"]) for row in [*sft, *grpo]}
    taught, reinforced = ({row["videos"][0] for row in rows} for rows in (sft, grpo))
    yield "SFT and GRPO share no video", not taught & reinforced
    gold = {
        str(record["qid"]): record["answer"]
        for record in json.loads((folder / "data" / "cg_bench" / "cgbench.json").read_text())
    }
    right = [row["choices"][LETTERS.index(row["answer"])] == gold[str(row["question_id"])] for row in grpo]
    yield "every prompt of GRPO has the right answer, however its options were shuffled", all(right)


def _training(output: Path) -> Iterator[tuple[str, bool]]:
    settings = yaml.safe_load((output / "configs" / "grpo.yaml").read_text())
    sft, grpo = (load_file(output / name / "adapter_model.safetensors") for name in ("sft", "grpo"))
    yield "SFT moved the adapter", any(tensor.any() for name, tensor in sft.items() if "lora_B" in name)
    yield "GRPO went on with it", sft.keys() == grpo.keys()
    yield "GRPO moved it", any(not tensor.equal(sft[name]) for name, tensor in grpo.items())
    replies = json_lines(output / "grpo" / "programs.jsonl")
    # Two steps of a group of four in each of two processes.
    expected = settings["max_steps"] * settings["per_device_train_batch_size"] * 2
    yield f"GRPO ran {expected} programs", len(replies) == expected
    for name in ("sft", "grpo"):
        state = json.loads((output / name / "trainer_state.json").read_text())
        steps = yaml.safe_load((output / "configs" / f"{name}.yaml").read_text())["max_steps"]
        yield f"{name} took {steps} steps", state["global_step"] == steps


def _runs(output: Path) -> Iterator[tuple[str, bool]]:
    for name, benchmarks in RUNS.items():
        for benchmark in benchmarks:
            folder = output / "runs" / name / benchmark
            summary = json.loads((folder / "summary.json").read_text())
            answered = summary["n"] == 4 and summary["coverage"] == 1
            yield f"{name} on {benchmark} answered 4 questions", answered
            yield f"{name} on {benchmark} has no errors", not summary["errors"] and not summary["exceptions"]
    calls = [
        call["fn"]
        for trace in json_lines(output / "runs" / "videopro" / "longvideobench" / "traces.jsonl")
        for answer in trace["rounds"]
        for call in (answer["execution"] or {}).get("calls", [])
    ]
    yield f"programs asked the modules: {', '.join(sorted(set(calls)))}", "query_mc" in calls
    report = (output / "report" / "report.md").read_text()
    for name in (*(f"Table {n}" for n in range(1, 6)), *(f"Figure {n}" for n in (2, 4, 5))):
        yield f"the report has the paper's {name}", name in report


def main(folder: Path) -> int:
    """Print every check. Returns 1 if one does not hold."""
    failed = 0
    for what, holds in checks(folder):
        print(f"{'ok    ' if holds else 'FAILED'} {what}")
        failed += not holds
    print(f"{failed} checks failed" if failed else "everything is as it has to be")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
