"""The card of a dataset: the data card that synthesis wrote, how to train on it, and where its videos are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from huggingface_hub import DatasetCard, DatasetCardData

from videopro.commands.publishing.artefacts import GRPO, SFT, VIDEOS
from videopro.commands.publishing.card_text import marked

_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))


def data_card(
    name: str, card: Mapping[str, Any], text: str, files: Mapping[str, int], *, license: str | None = None
) -> DatasetCard:
    """The card. `card` and `text`: card.json and CARD.md as they go up; `files`: the rows of each file."""
    rows = {file: files[file] for file in (SFT, GRPO) if file in files}
    data = DatasetCardData(
        tags=["videopro", "video"],
        task_categories=["video-text-to-text"],
        license=license,
        size_categories=[_size(sum(rows.values()))],
        configs=[
            {"config_name": file.removesuffix(".jsonl"), "data_files": file, "default": number == 0}
            for number, file in enumerate(rows)
        ],
    )
    short = name.rpartition("/")[2]
    parts = [
        "## Train on it",
        f"```bash\nvideopro pull {name} {short} --videos FOLDER\n"
        + "\n".join(train_commands(short, rows))
        + "\n```",
        f"The videos are not in it: rows name them below `{VIDEOS}/`. `--videos` says where they are on your "
        "machine; those that a benchmark draws are made.",
        "## What was not run",
        "\n".join(f"- {line}" for line in _missing(card)),
        text.strip() or "No data card was written.",
    ]
    text = "\n\n".join(parts)
    return DatasetCard(f"---\n{data.to_yaml()}\n---\n\n# {short}\n\n{marked(text)}\n")


def train_commands(folder: str, files: Mapping[str, int]) -> list[str]:
    """The commands that train on the files of rows in a folder."""
    commands = {
        SFT: f"videopro sft --model_name_or_path MODEL --train_data {folder}/{SFT} --output_dir runs/sft",
        GRPO: f"videopro grpo --model_name_or_path MODEL --train_data {folder}/{GRPO} --output_dir runs/grpo",
    }
    return [command for file, command in commands.items() if file in files]


def _missing(card: Mapping[str, Any]) -> list[str]:
    questions = card.get("questions")
    lines = []
    if isinstance(questions, Mapping):
        for group in ("without a result", "not asked"):
            counts = questions.get(group)
            if isinstance(counts, Mapping) and counts:
                lines.append(
                    f"questions {group}: " + ", ".join(f"{count} {name}" for name, count in counts.items())
                )
    for file, name in (("sft", SFT), ("grpo", GRPO)):
        part = card.get(file)
        if isinstance(part, Mapping) and part.get("rows") == 0:
            lines.append(f"`{name}` has no rows")
    lines.append("no model was trained on it, as far as this record says")
    return lines


def _size(rows: int) -> str:
    return next((name for most, name in _SIZES if rows < most), "1M<n<10M")
