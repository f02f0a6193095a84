"""Compares the pocket model behind a live vLLM with the same model in this process.

    bash launch/live.sh --serve &
    python -m perf.served [--engine http://127.0.0.1:8000/v1] [--adapter pocket-sft|FOLDER] [--limit 200] \\
        [--programs N] [--work FOLDER] [--output FILE]

Four runs over the same questions of pocket's test split, in the work folder, which are resumed if they are
there: `native` and `videopro`, each with the local model and with the engine. The planner writes greedily
(temperature 0); in the engine it is the adapter under a name of its own, which is loaded if it is not there,
and the base answers inside programs. Frames and pixels are those that the model records.

What is compared:

- `letters`: the share of questions with the same letter by `native`, and the mean and largest difference of
  their confidences;
- `programs`: the share with the same first program, character by character (a refinement's prompt depends on
  the answers before it);
- `answers`: the share with the same final answer by `videopro`.

Prints the table and writes it with the settings and versions as perf/served.json.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perf import ROOT
from perf.command import run_command
from perf.recorded import print_tables
from perf.recording import write_record
from videopro.cli import setting
from videopro.commands.infer import run
from videopro.commands.infer_settings import InferConfig, load_benchmark
from videopro.errors import ConfigError
from videopro.pocket import ADAPTERS, adapter_dir
from videopro.runs import RunFolder
from videopro.traces import Trace

TARGETS: Mapping[str, float] = {
    "letters": 0.99,
    "confidence_mean_difference": 0.005,
    "programs": 0.95,
    "answers": 0.98,
}
"""The least shares, and the largest mean difference."""
# The engine loads an adapter's weights, and may be busy.
_SECONDS = 300


@dataclass(frozen=True)
class ServedSettings:
    """Compare the pocket model behind a live vLLM with the same model in this process."""

    engine: str = field(
        default="http://127.0.0.1:8000/v1",
        metadata=setting("address of a vLLM that serves the pocket model as 'pocket'"),
    )
    adapter: str = field(
        default="pocket-sft", metadata=setting("the planner: a shipped adapter's name, or a folder")
    )
    limit: int = field(default=200, metadata=setting("number of questions"))
    programs: int | None = field(
        default=None, metadata=setting("number of questions for videopro, which takes longer; unset: limit")
    )
    dtype: str = field(default="auto", metadata=setting("dtype of the local model: auto, fp32 or bf16"))
    work: Path = field(default=ROOT / "runs" / "served", metadata=setting("folder of the four runs"))
    output: Path = field(default=ROOT / "perf" / "served.json", metadata=setting("file for the results"))


def compare(settings: ServedSettings) -> None:
    """Measure, write the comparison and print it."""
    record = measure(settings)
    write_record(settings.output, record)
    print_tables("perf/served.json", record)


def measure(settings: ServedSettings) -> dict[str, Any]:
    """Make or resume the four runs, and compare them. Raises VideoProError."""
    folder = adapter_dir(settings.adapter) if settings.adapter in ADAPTERS else Path(settings.adapter)
    name = settings.adapter if settings.adapter in ADAPTERS else folder.name
    engine = load_adapter(settings.engine, name, folder)
    local = {"model": "pocket", "backbone": {"dtype": settings.dtype}}
    tuned = {"model": "pocket", "backbone": {"dtype": settings.dtype, "adapter": str(folder)}}
    live: dict[str, Any] = {"model": f"server:pocket@{settings.engine}"}
    greedy = {"temperature": 0}
    runs = {
        "native-local": {**local, "method": "native"},
        "native-live": {**live, "method": "native"},
        "videopro-local": {**tuned, "method": "videopro", "options": greedy},
        "videopro-live": {
            **live,
            "method": "videopro",
            "options": greedy,
            "planner": f"server:{name}@{settings.engine}",
        },
    }
    traces = {}
    for run_name, more in runs.items():
        limit = settings.limit if more["method"] == "native" else settings.programs or settings.limit
        config = InferConfig(
            benchmark="pocket", split="test", limit=limit, output=settings.work / run_name, **more
        )
        run(config)
        # A run may have been made with more questions.
        ids = {item.id for item in load_benchmark(config).select(limit=limit)}
        traces[run_name] = {
            trace.question_id: trace for trace in RunFolder(config.output).read() if trace.question_id in ids
        }
    return {
        "adapter": name,
        "local_dtype": settings.dtype,
        "engine": engine,
        **compared_letters(traces["native-local"], traces["native-live"]),
        **compared_programs(traces["videopro-local"], traces["videopro-live"]),
        "targets": dict(TARGETS),
        "versions": dict(next(iter(traces["videopro-live"].values())).versions),
    }


def load_adapter(engine: str, name: str, folder: Path) -> dict[str, Any]:
    """Load an adapter into the engine, unless it has it. Returns what the engine says of itself. Raises
    ConfigError if it cannot be reached, or refuses."""
    cards = json.loads(_ask(f"{engine}/models"))["data"]
    if name not in [card["id"] for card in cards]:
        _ask(f"{engine}/load_lora_adapter", {"lora_name": name, "lora_path": str(folder.resolve())})
    version = json.loads(_ask(f"{engine.removesuffix('/v1')}/version"))["version"]
    return {"name": cards[0]["owned_by"], "version": version}


def _ask(url: str, content: Mapping[str, Any] | None = None) -> bytes:
    data = None if content is None else json.dumps(content).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as reply:
            return bytes(reply.read())
    except urllib.error.HTTPError as error:
        message = error.read().decode(errors="replace")[:400]
        raise ConfigError(f"{url}: the engine refuses (status {error.code}): {message}") from None
    except OSError as error:
        raise ConfigError(
            f"{url}: no engine answers ({error}); start one with bash launch/live.sh --serve, or give "
            "--engine"
        ) from None


def compared_letters(local: Mapping[str, Trace], live: Mapping[str, Trace]) -> dict[str, Any]:
    """What is compared of two runs of direct answers, by question."""
    pairs = _pairs(local, live)
    gaps = [
        abs(a.final.confidence - b.final.confidence)
        for a, b in pairs
        if a.final is not None and b.final is not None
    ]
    return {
        "questions": len(pairs),
        "letters": _share([_letter(a) == _letter(b) for a, b in pairs]),
        "confidence_mean_difference": round(sum(gaps) / len(gaps), 5),
        "confidence_largest_difference": round(max(gaps), 5),
        "other_letters": [a.question_id for a, b in pairs if _letter(a) != _letter(b)],
    }


def compared_programs(local: Mapping[str, Trace], live: Mapping[str, Trace]) -> dict[str, Any]:
    """What is compared of two runs of programs, by question."""
    pairs = _pairs(local, live)
    same = [
        a.rounds[:1] != () and b.rounds[:1] != () and a.rounds[0].raw == b.rounds[0].raw for a, b in pairs
    ]
    return {
        "program_questions": len(pairs),
        "programs": _share(same),
        "answers": _share([_letter(a) == _letter(b) for a, b in pairs]),
        "answers_after_equal_programs": _share(
            [_letter(a) == _letter(b) for (a, b), equal in zip(pairs, same, strict=True) if equal]
        ),
        "right_local": _share([a.is_right(_letter(a)) for a, _ in pairs]),
        "right_live": _share([b.is_right(_letter(b)) for _, b in pairs]),
        "other_programs": [a.question_id for (a, _), equal in zip(pairs, same, strict=True) if not equal],
        "other_answers": [a.question_id for a, b in pairs if _letter(a) != _letter(b)],
    }


def _pairs(local: Mapping[str, Trace], live: Mapping[str, Trace]) -> list[tuple[Trace, Trace]]:
    if local.keys() != live.keys():
        raise ConfigError("the runs in --work lack questions that the others have; give another --work")
    return [(local[name], live[name]) for name in sorted(local)]


def _letter(trace: Trace) -> str | None:
    return trace.final.letter if trace.final is not None else None


def _share(equal: Sequence[bool]) -> float | None:
    return round(sum(equal) / len(equal), 4) if equal else None


if __name__ == "__main__":
    run_command(ServedSettings, compare, "stopped; the same command goes on with its runs")
