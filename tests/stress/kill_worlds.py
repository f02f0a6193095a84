"""The commands that `kills.py` kills: their arguments, the files they write in each phase, and the
results that must not depend on how often they were killed. All run on the pocket world.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perf import ROOT

# Names in a run's folder (docs/sft.md), repeated here because commands are observed from outside.
UNFINISHED, CHECKPOINT = "unfinished", "checkpoint-"
# Only pocket's own model: the others take longer to load than a run takes.
_FEW_MODELS = ("--ocr", "none", "--detector", "none", "--tracker", "none")
# Fields that depend on the clock, or on what this process has decoded or cached before.
_TIMES = ("seconds", "stages", "cost", "cached", "versions", "planning")
_LOGGED_TIMES = ("runtime", "second", "time", "begun", "flos")

ProgressCounter = Callable[[], object]
"""Returns a value that changes whenever a command has written something."""


@dataclass(frozen=True)
class KillTarget:
    """One command. Its folder holds `run`, its output, and `cache`, its VIDEOPRO_CACHE."""

    name: str
    module: str
    words: Callable[[Path], list[str]]
    counters: Callable[[Path], Mapping[str, ProgressCounter]]
    """Progress counters by phase, for a folder."""
    found: Callable[[Path], Any]
    """The results in a folder that are equal in every run, as JSON values."""
    equality: str
    """For the record: what is compared, and how exactly."""
    in_fork: bool = True
    """Whether it may run in a fork of a process that has imported it. A command that starts processes may
    not."""


def sizes(folder: Path, *patterns: str) -> ProgressCounter:
    """Counts by the sizes of the files that match these patterns."""

    def look() -> object:
        found = {}
        for pattern in patterns:
            for path in folder.glob(pattern):
                try:
                    found[path.name] = path.stat().st_size
                except OSError:  # Deleted meanwhile.
                    continue
        return found

    return look


# ---- inference and synthesis ------------------------------------------------------------------------------


def _infer(folder: Path) -> list[str]:
    of = ("--benchmark", "pocket", "--split", "val", "--limit", "10", "--workers", "1")
    how = ("--model", "pocket", "--method", "videopro", "--planner", "pocket-teacher")
    none = ("--options", *(f"{part}=none" for part in ("ocr", "detector", "tracker")))
    return [*of, *how, "--output", str(folder / "run"), *none]


def _synthesis(folder: Path) -> list[str]:
    of = ("--source", "pocket", "--limit", "8", "--programs", "2", "--videos", "2", *_FEW_MODELS)
    return [*of, "--model", "pocket", "--teacher", "pocket-teacher", "--output", str(folder / "run")]


def _counters_of_questions(
    lines: str, ends: tuple[str, ...]
) -> Callable[[Path], Mapping[str, ProgressCounter]]:
    def counters(folder: Path) -> Mapping[str, ProgressCounter]:
        return {
            "saving": sizes(folder, "run/config.yaml", "run/.*.new", "run/work/*", "cache/index/*/*"),
            "writing": sizes(folder, f"run/{lines}"),
            "end": sizes(folder, *(f"run/{name}" for name in ends)),
        }

    return counters


def _traces(file: Path) -> Any:
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    times = Counter(line["question_id"] for line in lines)
    assert set(times.values()) == {1}, f"{file}: questions that appear more than once: {times}"
    return {line["question_id"]: _timeless(line) for line in lines}


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _timeless(item) for name, item in value.items() if name not in _TIMES}
    if isinstance(value, list):
        return [_timeless(item) for item in value]
    return value


def _answered(folder: Path) -> Any:
    summary = json.loads((folder / "run" / "summary.json").read_text(encoding="utf-8"))
    kept = ("n", "accuracy", "coverage", "errors", "unparsed")
    traces = _traces(folder / "run" / "traces.jsonl")
    for trace in traces.values():
        # Each trial has its own folder of videos.
        trace["video"]["path"] = Path(trace["video"]["path"]).name
    return {"traces": traces, "summary": {name: summary.get(name) for name in kept}}


def _synthesised(folder: Path) -> Any:
    files = ("sft.jsonl", "grpo.jsonl", "card.json", "CARD.md")
    own = str(folder).encode()
    return {
        "questions": sorted(_traces(folder / "run" / "records.jsonl")),
        **{name: _digest((folder / "run" / name).read_bytes().replace(own, b"")) for name in files[:2]},
    }


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


# ---- training ---------------------------------------------------------------------------------------------


def checkpoints(run: Path) -> list[Path]:
    """A run's checkpoints, the latest first."""
    return sorted(
        run.glob(f"{CHECKPOINT}[0-9]*"),
        key=lambda path: int(path.name.removeprefix(CHECKPOINT)),
        reverse=True,
    )


def _training(folder: Path, kind: str, *more: str) -> list[str]:
    data = folder.parent / "data" / f"{kind}.jsonl"
    of = ("--config", str(ROOT / "configs" / kind / "pocket.yaml"), "--train_data", str(data))
    how = ("--save_steps", "1", "--logging_steps", "1", "--disable_tqdm", "true", "--seed", "1")
    return [*of, "--output_dir", str(folder / "run"), *how, *more]


def _sft(folder: Path) -> list[str]:
    return _training(folder, "sft", "--max_steps", "8", "--gradient_accumulation_steps", "1")


def _grpo(folder: Path) -> list[str]:
    few = ("--max_steps", "5", "--num_generations", "4", "--per_device_train_batch_size", "4")
    short = ("--gradient_accumulation_steps", "1", "--max_completion_length", "64")
    none = '{"ocr": "none", "detector": "none", "tracker": "none"}'
    return _training(folder, "grpo", "--adapter", "pocket-sft", *few, *short, "--modules", none)


def _counters_of_training(folder: Path) -> Mapping[str, ProgressCounter]:
    return {
        "saving": sizes(folder, "run/checkpoint-*/*"),
        "writing": sizes(folder, "run/programs.jsonl", "run/completions/*", "run/*.json", "run/.*.new"),
        "end": sizes(folder, f"run/{UNFINISHED}/*.*", "run/*.safetensors", "run/*.bin", "run/tokenizer*"),
    }


def _trained(folder: Path) -> Any:
    run = folder / "run"
    history = json.loads((run / "trainer_state.json").read_text(encoding="utf-8"))["log_history"]
    programs = run / "programs.jsonl"
    return {
        "adapter": _digest((run / "adapter_model.safetensors").read_bytes()),
        "last checkpoint's adapter": _digest(
            (checkpoints(run)[0] / "adapter_model.safetensors").read_bytes()
        ),
        "last checkpoint's optimizer": _digest((checkpoints(run)[0] / "optimizer.pt").read_bytes()),
        "checkpoints": [path.name for path in checkpoints(run)],
        # The last line describes the last command only.
        "history": [_untimed(line) for line in history if "train_runtime" not in line],
        "programs": programs.read_text(encoding="utf-8").splitlines() if programs.exists() else [],
        "tables": sorted(path.name for path in (run / "completions").glob("*")),
        "left": [path.name for path in run.glob(f"{UNFINISHED}*")],
    }


def _untimed(line: Mapping[str, Any]) -> dict[str, Any]:
    return {name: x for name, x in line.items() if not any(word in name for word in _LOGGED_TIMES)}


KILL_TARGETS = {
    target.name: target
    for target in (
        KillTarget(
            "infer",
            "videopro.infer",
            _infer,
            _counters_of_questions("traces.jsonl", ("summary.json", ".summary.json.new")),
            _answered,
            "each question once; traces but for times, costs and what was remembered, numbers to 1e-6 "
            "(batches differ after a resume); the summary's accuracy",
            in_fork=False,
        ),
        KillTarget(
            "synthesis",
            "videopro.data_synthesis.run",
            _synthesis,
            _counters_of_questions(
                "records.jsonl",
                ("*sft.jsonl*", ".sft.jsonl*", ".grpo.jsonl*", "grpo.jsonl", "*ard.*", ".*ard.*"),
            ),
            _synthesised,
            "each question once; the bytes of both datasets",
        ),
        KillTarget(
            "sft",
            "videopro.train.sft",
            _sft,
            _counters_of_training,
            _trained,
            "the bytes of the adapter and of the last checkpoint's adapter and optimizer; the losses",
        ),
        KillTarget(
            "grpo",
            "videopro.train.grpo",
            _grpo,
            _counters_of_training,
            _trained,
            "the bytes of the adapter and of the last checkpoint's adapter and optimizer; every program that "
            "was run, once; rewards and losses",
        ),
    )
}
