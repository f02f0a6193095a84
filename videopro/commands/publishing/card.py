"""The card of a pushed folder: its metadata for the hub, and one template for the four kinds, filled from the
records. Text that its owner wrote around it on the hub is kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import DatasetCard, DatasetCardData, EvalResult, ModelCard, ModelCardData

from videopro.backbones import MODELS, folder_fingerprint, read_model_record
from videopro.cli import TextTable, is_hub_name, parse_yaml, read_yaml
from videopro.commands.publishing.artefacts import (
    ADAPTER_CONFIG,
    CARD_JSON,
    CARD_MD,
    GRPO,
    MODEL_RECORD,
    SFT,
    Artefact,
    read_artefact,
)
from videopro.commands.publishing.portable import portable
from videopro.errors import ConfigError
from videopro.runs import RunFolder, recorded_protocol, summary_table

Card = ModelCard | DatasetCard

TEMPLATE = Path(__file__).with_name("card.md.j2")
BEGIN = "<!-- videopro: this part is made again by each `videopro push`; write above or below it -->"
END = "<!-- videopro: end of that part -->"
_MARKED = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.DOTALL)

_LOGGED = 6
"""Rows of the training log's table, not counting its evaluations."""
_COLUMNS = ("step", "epoch", "loss", "reward", "mean_token_accuracy", "grad_norm", "learning_rate")
# Where the hub's client keeps a model: models--OWNER--NAME/snapshots/COMMIT.
_CACHED = re.compile(r"models--(?P<owner>[^/]+?)--(?P<name>[^/]+)/snapshots/")


def with_edits(card: Card, before: Card) -> Card:
    """The card with what its owner wrote into the one that is on the hub: the text outside the marked part,
    and metadata that the records do not decide. Raises ConfigError if one of the marks is gone."""
    generated, edited = dict(card.data.to_dict()), dict(before.data.to_dict())  # type: ignore[no-untyped-call]
    # What an earlier push evaluated, and this one may not.
    edited.pop("model-index", None)
    tags = list(dict.fromkeys([*(edited.get("tags") or ()), *(generated.get("tags") or ())]))
    data = type(card.data)(**{**edited, **generated, "tags": tags})
    part = _MARKED.search(card.text)
    assert part is not None
    if before.text.count(BEGIN) != before.text.count(END):
        # Which text is ours cannot be determined.
        raise ConfigError(f"the card on the hub lacks {BEGIN} or {END}; restore both, or remove both")
    if _MARKED.search(before.text):
        text = _MARKED.sub(lambda _: part[0], before.text)
    else:
        text = f"{before.text.rstrip()}\n\n{part[0]}\n" if before.text.strip() else card.text
    return type(card)(f"---\n{data.to_yaml()}\n---\n{text}")


def _filled(form: type[Card], data: ModelCardData | DatasetCardData, name: str, /, **values: Any) -> Card:
    short = name.rpartition("/")[2]
    card: Card = form.from_template(
        data,  # type: ignore[arg-type]
        template_path=str(TEMPLATE),
        **{"name": name, "short": short, "begin": BEGIN, "end": END, **values},
    )
    return card


# ---- datasets and runs -------------------------------------------------------------------------------------


def train_commands(folder: str, files: Sequence[str]) -> list[str]:
    """The commands that train on the files of rows in a folder."""
    return [
        f"videopro {stage} --model_name_or_path MODEL --train_data {folder}/{file} --output_dir runs/{stage}"
        for file, stage in ((SFT, "sft"), (GRPO, "grpo"))
        if file in files
    ]


def data_card(name: str, texts: Mapping[str, str]) -> Card:
    """The card of a dataset, from the texts of its files as they go up."""
    rows = [file for file in (SFT, GRPO) if file in texts]
    data = DatasetCardData(
        tags=["videopro", "video"],
        task_categories=["video-text-to-text"],
        configs=[
            {"config_name": Path(file).stem, "data_files": file, "default": number == 0}
            for number, file in enumerate(rows)
        ],
    )
    return _filled(
        DatasetCard,
        data,
        name,
        kind="dataset",
        commands=train_commands(name.rpartition("/")[2], rows),
        about=texts.get(CARD_MD, ""),
        missing=[*_unasked(json.loads(texts[CARD_JSON])), "no training on it is recorded"],
    )


def _unasked(card: Mapping[str, Any]) -> Iterator[str]:
    for group in ("without a result", "not asked"):
        if counts := (card.get("questions") or {}).get(group):
            yield f"questions {group}: " + ", ".join(f"{count} {name}" for name, count in counts.items())


@dataclass(frozen=True)
class RunSummary:
    """A finished run."""

    folder: Path
    config: Mapping[str, Any]
    summary: Mapping[str, Any]

    @classmethod
    def read(cls, folder: Path) -> RunSummary:
        """The run in a folder. Raises ConfigError for a folder of another kind."""
        artefact = read_artefact(folder)
        if artefact.kind != "run":
            raise ConfigError(f"{folder}: is a {artefact.kind}, not a run; pass a folder of videopro infer")
        return cls(folder, read_yaml(folder / "config.yaml"), artefact.json("summary.json"))

    @property
    def dataset(self) -> str:
        """Benchmark and split."""
        return f"{self.summary['benchmark']} {self.summary.get('split') or ''}".strip()

    @property
    def method(self) -> str:
        """Its name."""
        return str(self.summary["method"])

    def table(self) -> str:
        """The summary's table in Markdown."""
        protocol = recorded_protocol(RunFolder(self.folder))
        return portable(summary_table(self.summary, protocol.groups, Path(".")).markdown, {})

    def eval_results(self) -> Iterator[EvalResult]:
        """Its metrics for the hub's page: percentages and means."""
        measured = {
            name: 100 * self.summary[name]
            for name in ("accuracy", "official_accuracy")
            if self.summary.get(name) is not None
        }
        for name, value in (self.summary.get("metrics") or {}).items():
            if value.get("robust") is not None:
                # With a share of valid replies, it is a mean on its own scale, else a share.
                measured[name] = value["robust"] * (1 if value.get("valid") is not None else 100)
        for name, number in measured.items():
            yield EvalResult(
                task_type="video-text-to-text",
                task_name="Video question answering",
                dataset_type=self.summary["benchmark"],
                dataset_name=self.dataset,
                dataset_split=self.summary.get("split") or None,
                metric_type=name,
                metric_name=f"{name} %, method {self.method}",
                metric_value=round(number, 2),
            )

    def missing(self) -> Iterator[str]:
        """What it did not do, one line each."""
        if self.config.get("limit") is not None or self.config.get("ids"):
            yield f"only {self.summary.get('questions')} questions were asked"
        if errors := self.summary.get("errors"):
            yield "ended in an error: " + ", ".join(f"{count} {kind}" for kind, count in errors.items())
        if ungraded := self.summary.get("ungraded"):
            yield f"{ungraded} open answers were not graded by a judge"
        if broken := self.summary.get("broken_records"):
            yield f"{len(broken)} broken records of the benchmark were skipped"
        if (coverage := self.summary.get("coverage")) is not None and coverage < 1:
            yield f"{100 * (1 - coverage):.1f} % of the videos could not be read"


def run_card(folder: Path, name: str, config: str) -> Card:
    """The card of a run. `config`: its config.yaml as it goes up."""
    run = RunSummary.read(folder)
    traces = {"config_name": "traces", "data_files": "traces.jsonl"}
    data = DatasetCardData(tags=["videopro", "traces"], configs=[traces])
    return _filled(
        DatasetCard,
        data,
        name,
        kind="run",
        run=run,
        tables=run.table(),
        settings=json.dumps(parse_yaml(config), indent=1, ensure_ascii=False),
        missing=list(run.missing()) or ["nothing is missing"],
    )


# ---- adapters and planners ---------------------------------------------------------------------------------


def recorded_base(artefact: Artefact) -> str:
    """The model that an adapter or a planner was made from, as its record names it: a plug-in's model, a name
    on the hub, a folder, or ""."""
    record = read_model_record(artefact.folder)
    if record.planner is not None and record.planner.base:
        return record.planner.base
    if record.base is not None:
        return record.base.name
    return str(artefact.json(ADAPTER_CONFIG).get("base_model_name_or_path") or "")


def base_name(artefact: Artefact, named: str | None = None) -> str:
    """The base's hub name, or the name of a plug-in's model; "" if unknown. `named`: the name that the user
    gives. Raises ConfigError if that is not a hub name, or contradicts the record."""
    base = recorded_base(artefact)
    if cached := _CACHED.search(base):
        base = f"{cached['owner']}/{cached['name']}"
    known = base if base in MODELS or is_hub_name(base) else ""
    if named is None:
        return known
    if not is_hub_name(named):
        raise ConfigError(f"--base {named}: is not a hub name, such as Qwen/Qwen3-VL-8B-Instruct")
    if known and known != named:
        raise ConfigError(
            f"--base {named}: {artefact.folder / MODEL_RECORD} says that it was trained on {known}; "
            "leave out --base"
        )
    return named


def use_command(artefact: Artefact, folder: str, base: str) -> str:
    """A command that runs a planner; `folder`: where it is, or its name on the hub."""
    model = folder if artefact.kind == "planner" else f"{base or 'BASE'} --backbone adapter={folder}"
    sample = MODELS[base].sample if base in MODELS else ""
    path = f"{base}:{sample}" if sample else "VIDEO.mp4"
    return f'videopro ask {path} "What happens?" --choices "a cup" "a book" --method videopro --model {model}'


def model_card(
    artefact: Artefact,
    name: str,
    record: str,
    *,
    base: str,
    results: Sequence[RunSummary],
) -> Card:
    """The card of an adapter or a planner. `record`: its training's as it goes up; `base`: see `base_name`;
    `results`: runs with it. Raises ConfigError for a run with another model."""
    fingerprint = folder_fingerprint(artefact.folder)
    for run in results:
        _check_model(run, artefact, fingerprint)
    training: dict[str, Any] = json.loads(record)
    # What is not set is the libraries' default.
    settings = {key: value for key, value in (training.get("run") or {}).items() if value is not None}
    # Only GRPO samples several replies to a prompt.
    way = "" if not settings else "GRPO" if "num_generations" in settings else "SFT"
    is_on_hub, is_adapter = base != "" and base not in MODELS, artefact.kind == "adapter"
    data = ModelCardData(
        base_model=base if is_on_hub else None,
        library_name="peft" if is_adapter else "transformers",
        pipeline_tag="video-text-to-text",
        tags=["videopro", *([way.lower()] if way else [])],
        # The client wants a name for what was evaluated.
        model_name=name.rpartition("/")[2] if results else None,
        eval_results=[each for run in results for each in run.eval_results()] or None,
    )
    if is_on_hub:
        data["base_model_relation"] = "adapter" if is_adapter else "finetune"
    return _filled(
        ModelCard,
        data,
        name,
        kind=artefact.kind,
        way=way,
        base=_base_text(base, recorded_base(artefact)),
        base_name=base,
        record=read_model_record(artefact.folder),
        command=use_command(artefact, name, base),
        training=training,
        history=_history(training.get("history") or []),
        settings=json.dumps(settings, indent=1, ensure_ascii=False),
        fingerprint=fingerprint,
        tables="\n".join(run.table() for run in results),
        missing=list(_not_run(training, results)),
    )


def _check_model(run: RunSummary, artefact: Artefact, fingerprint: str) -> None:
    """Raise ConfigError for a run whose model has other files than the artefact."""
    model = (run.config.get("identity") or {}).get("model") or {}
    used = model.get("adapter" if artefact.kind == "adapter" else "weights")
    # A server does not say which files it serves.
    if model.get("kind") != "server" and used != fingerprint:
        raise ConfigError(
            f"--results {run.folder}: was made with another {artefact.kind} (fingerprint {used or 'none'}, "
            f"but {artefact.folder} has {fingerprint}); pass runs of this {artefact.kind}"
        )


def _base_text(base: str, recorded: str) -> str:
    if base in MODELS:
        return f"{base}, {MODELS[base].about}"
    if base:
        return f"[{base}](https://huggingface.co/{base})"
    if not recorded:
        return "not recorded"
    return f"`{Path(recorded).name}`, a folder on the machine that trained it; its hub name is unknown"


def _history(logged: Sequence[Mapping[str, Any]]) -> str:
    """A table of some of what was logged, and of all evaluations."""
    steps = [row for row in logged if "loss" in row or "reward" in row]
    every = max(1, len(steps) // _LOGGED)
    shown = [
        *steps[every - 1 :: every],
        *(row for row in logged if any(key.startswith("eval_") for key in row)),
    ]
    if not shown:
        return ""
    evaluated = sorted({key for row in shown for key in row if key.startswith("eval_")})
    names = (*(name for name in _COLUMNS if any(name in row for row in shown)), *evaluated)
    rows = tuple(tuple(_number(row.get(name)) for name in names) for row in shown)
    return TextTable("training log", names, rows).markdown


def _number(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _not_run(training: Mapping[str, Any], results: Sequence[RunSummary]) -> Iterator[str]:
    if not results:
        yield "no benchmark"
    else:
        yield f"no benchmark other than {', '.join(dict.fromkeys(run.dataset for run in results))}"
    for run in results:
        yield from (f"{run.dataset}, {run.method}: {line}" for line in run.missing())
    if not any(key.startswith("eval_") for row in training.get("history") or () for key in row):
        yield "no evaluation during training"
    seed = (training.get("run") or {}).get("seed")
    yield f"no seed other than {'one that is not recorded' if seed is None else seed}"
