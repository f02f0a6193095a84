"""What cards say of a run: its table, its metrics, and what it did not answer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import DatasetCard, DatasetCardData

from videopro.cli import read_yaml
from videopro.commands.publishing.artefacts import Artefact, read_artefact
from videopro.commands.publishing.card_text import marked
from videopro.commands.publishing.portable import Portable
from videopro.errors import ConfigError
from videopro.runs import RunFolder, recorded_protocol, summary_table


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
            raise ConfigError(
                f"{folder}: is no run, but of kind {artefact.kind}; give a folder of videopro infer"
            )
        return cls(folder, read_yaml(folder / "config.yaml"), artefact.json("summary.json"))

    @property
    def benchmark(self) -> str:
        return str(self.summary.get("benchmark") or self.config.get("benchmark"))

    @property
    def split(self) -> str:
        return str(self.summary.get("split") or "")

    @property
    def dataset(self) -> str:
        """Benchmark and split."""
        return f"{self.benchmark} {self.split}".strip()

    @property
    def method(self) -> str:
        return str(self.summary.get("method") or self.config.get("method"))

    @property
    def model_identity(self) -> Mapping[str, Any]:
        """What the run recorded of its model."""
        model = (self.config.get("identity") or {}).get("model")
        return model if isinstance(model, Mapping) else {}

    def table(self) -> str:
        """The summary's table in Markdown."""
        protocol = recorded_protocol(RunFolder(self.folder))
        table = summary_table(self.summary, protocol.groups, Path("."))
        return Portable(()).text(table.markdown)

    def metrics(self) -> Iterator[tuple[str, float]]:
        """(name, percentage or mean) of what the run measured."""
        for name in ("accuracy", "official_accuracy"):
            if self.summary.get(name) is not None:
                yield name, round(100 * self.summary[name], 2)
        for name, value in (self.summary.get("metrics") or {}).items():
            if value.get("robust") is not None:
                scale = 1 if value.get("valid") is not None else 100
                yield name, round(scale * value["robust"], 2)

    def missing(self) -> Iterator[str]:
        """What it did not do, one line each."""
        limit, ids = self.config.get("limit"), self.config.get("ids")
        if limit is not None or ids:
            yield f"only {self.summary.get('questions')} of the questions were asked"
        errors = self.summary.get("errors") or {}
        if errors:
            yield "without an answer: " + ", ".join(f"{count} {kind}" for kind, count in errors.items())
        if self.summary.get("ungraded"):
            yield f"{self.summary['ungraded']} open answers have no grade of a judge"
        if self.summary.get("broken_records"):
            yield f"{self.summary['broken_records']} broken records of the benchmark were left out"
        coverage = self.summary.get("coverage")
        if coverage is not None and coverage < 1:
            yield f"{100 * (1 - coverage):.1f} % of the videos could not be read"


def run_card(
    artefact: Artefact, name: str, settings: Mapping[str, Any], *, license: str | None = None
) -> DatasetCard:
    """The card of a run. `settings`: its config.yaml as it goes up."""
    run = RunSummary.read(artefact.folder)
    data = DatasetCardData(
        tags=["videopro", "traces"],
        license=license,
        configs=[{"config_name": "traces", "data_files": "traces.jsonl"}],
    )
    missing = list(run.missing()) or ["nothing that it was asked for"]
    short = name.rpartition("/")[2]
    parts = [
        f"A run of VideoPro: the answers of method {run.method} to the questions of {run.dataset}. Each line "
        "of `traces.jsonl` has every prompt, program, call and answer of one question, with its cost. Videos "
        "are not in it.",
        "## Look at it\n\n```bash\n"
        f"videopro pull {name} {short}\nvideopro view {short} --open\n"
        f"videopro report {short} --output report\n```",
        "## Results\n\n" + run.table(),
        "## What was not run\n\n" + "\n".join(f"- {line}" for line in missing),
        f"## Settings\n\n```json\n{json.dumps(dict(settings), indent=1, ensure_ascii=False)}\n```",
    ]
    text = "\n\n".join(part.strip() for part in parts)
    return DatasetCard(f"---\n{data.to_yaml()}\n---\n\n# {short}\n\n{marked(text)}\n")
