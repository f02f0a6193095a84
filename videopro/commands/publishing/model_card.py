"""The card of an adapter or a planner: how to run it, what it was trained on and how, how it answers, and
what nobody has tried.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from huggingface_hub import EvalResult, ModelCard, ModelCardData

from videopro.backbones import folder_fingerprint, read_model_record
from videopro.cli import TextTable
from videopro.commands.publishing.artefacts import (
    ADAPTER_CONFIG,
    MODEL_RECORD,
    TRAINING_RECORD,
    Artefact,
    Kind,
)
from videopro.commands.publishing.bases import Base
from videopro.commands.publishing.card_text import marked
from videopro.commands.publishing.run_card import RunSummary
from videopro.commands.publishing.staging import StagedFile, write_staged
from videopro.errors import ConfigError
from videopro.storage import parse_json

_FETCHED = (ADAPTER_CONFIG, "adapter_model.safetensors", MODEL_RECORD)
_LOGGED = 6
"""Rows of the table of what a training logged."""
_COLUMNS = ("step", "epoch", "loss", "reward", "mean_token_accuracy", "grad_norm", "learning_rate")


def model_card(
    artefact: Artefact,
    staged: Sequence[StagedFile],
    name: str,
    base: Base,
    results: Sequence[RunSummary],
    *,
    datasets: Sequence[str] = (),
    license: str | None = None,
) -> ModelCard:
    """The card. `staged`: its files as they go up; `name`: that of the repository; `results`: runs with this
    model; `datasets`: the names on the hub of what it was trained on. Raises ConfigError for a run with
    another model."""
    if results:
        _check_model(artefact, staged, results)
    # As it goes up, not as it is here.
    records = {file.name: file for file in staged}
    record: dict[str, Any] = {}
    if TRAINING_RECORD in records:
        record = parse_json(records[TRAINING_RECORD].read(), infinite=True)
    way = _way(record)
    data = ModelCardData(
        base_model=base.hub_name or None,
        library_name="peft" if artefact.kind == "adapter" else "transformers",
        pipeline_tag="video-text-to-text",
        tags=["videopro", *([way.lower()] if way else [])],
        datasets=list(datasets) or None,
        license=license,
        model_name=name.rpartition("/")[2] if results else None,
        eval_results=[each for run in results for each in _eval_results(run)] or None,
    )
    if base.hub_name:
        data["base_model_relation"] = "adapter" if artefact.kind == "adapter" else "finetune"
    text = "\n\n".join(_parts(artefact, name, base, results, record, way, datasets))
    return ModelCard(f"---\n{data.to_yaml()}\n---\n\n# {name.rpartition('/')[2]}\n\n{marked(text)}\n")


def _way(record: Mapping[str, Any]) -> str:
    run = record.get("run")
    if not isinstance(run, Mapping):
        return ""
    return "GRPO" if "num_generations" in run else "SFT"


def _parts(
    artefact: Artefact,
    name: str,
    base: Base,
    results: Sequence[RunSummary],
    record: Mapping[str, Any],
    way: str,
    datasets: Sequence[str],
) -> Iterator[str]:
    noun = "A LoRA adapter" if artefact.kind == "adapter" else "A planner"
    trained = f", trained with {way}" if way else ""
    yield (
        f"{noun} for VideoPro: a video language model that writes programs to answer questions about long "
        f"videos{trained}. Base: {base.sentence}."
    )
    yield "## Use\n\n" + _use(artefact, name, base)
    yield "## Trained on\n\n" + _data(record, datasets)
    if record:
        yield "## Training\n\n" + _training(artefact, record)
    yield "## Results\n\n" + ("\n".join(run.table() for run in results) or "None were given.")
    yield "## What was not run\n\n" + "\n".join(f"- {line}" for line in _not_run(record, results))


def use_command(kind: Kind, folder: str, base: Base) -> str:
    """A command that runs a planner; `folder`: where it is, or its name on the hub."""
    model = folder if kind == "planner" else f"{base.name or 'BASE'} --backbone adapter={folder}"
    if base.name == "pocket":
        return (
            f"videopro infer --benchmark pocket --limit 8 --method videopro --model {model} "
            "--output runs/videopro"
        )
    return (
        f'videopro ask FILM.mp4 "What happens?" --choices "a cup" "a book" --method videopro --model {model}'
    )


def _use(artefact: Artefact, name: str, base: Base) -> str:
    model = read_model_record(artefact.folder)
    budget = (
        f"It was trained with {model.frames} frames of at most {model.pixels:,} pixels, and is asked so.\n\n"
        if model.frames and model.pixels
        else ""
    )
    prompts = (
        "It was trained on prompts of its own, which its record has.\n\n"
        if model.planner and model.planner.prompts
        else ""
    )
    other = "" if base.name else "`BASE` is the model that it was trained on.\n\n"
    short = name.rpartition("/")[2]
    return (
        f"{budget}{prompts}{other}```bash\n{use_command(artefact.kind, name, base)}\n"
        f"videopro pull {name} {short}   # checks its files\n```"
    )


def _data(record: Mapping[str, Any], datasets: Sequence[str]) -> str:
    lines = [f"- dataset: [{name}](https://huggingface.co/datasets/{name})" for name in datasets]
    if "rows" in record:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(record.get("kinds", {}).items()))
        lines.append(f"- {record['rows']} rows: {kinds}")
    if digest := (record.get("run") or {}).get("data"):
        lines.append(f"- the SHA-256 of the file of rows begins with `{digest}`")
    videos = record.get("videos") or {}
    lines += [f"- {len(ids)} videos of stage {stage}" for stage, ids in videos.items()]
    if record.get("dropped"):
        reasons = sorted(set(map(str, record["dropped"].values())))
        lines.append(f"- {len(record['dropped'])} rows were dropped: {'; '.join(reasons[:_LOGGED])}")
    return "\n".join(lines) or "Not recorded."


def _training(artefact: Artefact, record: Mapping[str, Any]) -> str:
    settings = record.get("run") or record.get("recipe") or {}
    # What is not set is the libraries' default.
    settings = {name: value for name, value in settings.items() if value is not None}
    history = record.get("history") or record.get("log") or []
    parts = [table] if (table := _logged(history)) else []
    parts += [
        f"Settings:\n\n```json\n{json.dumps(settings, indent=1, ensure_ascii=False)}\n```",
        "Versions: "
        + ", ".join(f"{name} {version}" for name, version in record.get("versions", {}).items())
        + ".",
        f"Fingerprint of its files where it was trained: `{folder_fingerprint(artefact.folder)}`.",
    ]
    return "\n\n".join(parts)


def _logged(history: Sequence[Mapping[str, Any]]) -> str:
    """A table of some of what was logged, and of all evaluations."""
    steps = [row for row in history if "loss" in row or "reward" in row]
    evaluated = [row for row in history if any(key.startswith("eval_") for key in row)]
    chosen = (
        [steps[round(i * (len(steps) - 1) / (_LOGGED - 1))] for i in range(_LOGGED)]
        if len(steps) > _LOGGED
        else steps
    )
    names = [name for name in _COLUMNS if any(name in row for row in chosen)]
    parts = []
    if chosen:
        rows = tuple(tuple(_number(row.get(name)) for name in names) for row in chosen)
        parts.append(TextTable(f"{len(chosen)} of {len(steps)} logged steps", tuple(names), rows).markdown)
    if evaluated:
        keys = sorted({key for row in evaluated for key in row if key.startswith("eval_")})
        rows = tuple(
            (_number(row.get("step")), *(_number(row.get(key)) for key in keys)) for row in evaluated
        )
        parts.append(TextTable("evaluations on held-out questions or rows", ("step", *keys), rows).markdown)
    return "\n".join(parts)


def _number(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _not_run(record: Mapping[str, Any], results: Sequence[RunSummary]) -> Iterator[str]:
    if not results:
        yield "no benchmark: nothing is known of how it answers"
    else:
        named = ", ".join(dict.fromkeys(run.dataset for run in results))
        yield f"no benchmark but {named}"
    for run in results:
        yield from (f"{run.dataset}, {run.method}: {line}" for line in run.missing())
    if not any(key.startswith("eval_") for row in record.get("history", ()) for key in row):
        yield "no evaluation during training"
    seeds = (record.get("run") or {}).get("seed")
    yield "no other seed than " + (str(seeds) if seeds is not None else "one that is not recorded")


def _eval_results(run: RunSummary) -> Iterator[EvalResult]:
    for name, value in run.metrics():
        yield EvalResult(
            task_type="video-text-to-text",
            task_name="Video question answering",
            dataset_type=run.benchmark,
            dataset_name=run.dataset,
            dataset_split=run.split or None,
            metric_type=name,
            metric_name=f"{name} %, method {run.method}",
            metric_value=value,
        )


def _check_model(artefact: Artefact, staged: Sequence[StagedFile], results: Sequence[RunSummary]) -> None:
    """Raise ConfigError for a run whose model has other files than the artefact."""
    part = "adapter" if artefact.kind == "adapter" else "weights"
    here = folder_fingerprint(artefact.folder)
    same = {here, *_pulled_fingerprints(staged)}
    for run in results:
        used = run.model_identity.get(part)
        # A server does not say which files it serves.
        if run.model_identity.get("kind") != "server" and used not in same:
            raise ConfigError(
                f"--results {run.folder}: was made with another {artefact.kind} (files {used or 'of none'}; "
                f"those of {artefact.folder} are {here}); give runs of this one"
            )


def _pulled_fingerprints(staged: Sequence[StagedFile]) -> Iterator[str]:
    """Those of the folder that a pull makes, and of what is fetched for an adapter that the hub names."""
    fetched = [file for file in staged if file.name in _FETCHED]
    for files in (staged, fetched):
        with TemporaryDirectory(prefix="videopro-push-") as folder:
            write_staged(files, Path(folder))
            yield folder_fingerprint(Path(folder))
