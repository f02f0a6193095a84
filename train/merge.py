"""videopro merge: merges an adapter into its base model, as a plain checkpoint.

    videopro merge --base Qwen/Qwen3-VL-8B-Instruct --adapter runs/sft \\
        --output runs/sft-merged

Any tool that loads the base loads the result. It has no adapter to turn off, so it records its base, which
then answers inside programs, and the prompts that it was trained on (`videopro.json`).
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from videopro.backbones import ModelRecord, library_versions, read_spec, write_model_record
from videopro.backbones.qwen import adapter_folder, find_checkpoint, keep_beyond, load_model, made_from
from videopro.cli import exit_status, needs_extra
from videopro.errors import ConfigError, writing
from videopro.storage import non_finite, sole_writer
from videopro.train.settings import MERGE, MergeConfig

with needs_extra("train", "videopro merge", __name__):
    from videopro.train.runtime import RECORD, publish, recorded_videos


def merge(config: MergeConfig) -> None:
    """Write base + adapter to `config.output`, in the base's dtype. Raises VideoProError."""
    aside = config.output.with_name(config.output.name + ".part")
    with sole_writer(aside):
        try:
            _merge(config, aside / "merged")
        finally:
            shutil.rmtree(aside, ignore_errors=True)


def _merge(config: MergeConfig, part: Path) -> None:
    """Write the checkpoint to `part`, and move it from there."""
    output = config.output
    if output.exists():
        raise ConfigError(f"{output}: already exists; pass a new folder")
    # Merged in fp32 and rounded once, on the CPU, where every model fits.
    spec = read_spec(config.base, adapter=config.adapter, dtype="fp32", device_map="cpu")
    checkpoint = find_checkpoint(spec.model)
    loaded = load_model(spec)
    assert loaded.adapter is not None
    assert spec.adapter is not None
    merged: Any = loaded.adapter.merge_and_unload()
    stored = checkpoint.settings.dtype
    merged = merged.to(stored if isinstance(stored, torch.dtype) else torch.float32)
    if (damaged := non_finite(merged.named_parameters())) is not None:
        raise ConfigError(
            f"{config.adapter}: merging it into {config.base} gives weights that {merged.dtype} cannot hold "
            f"(first: {damaged}); load the base and the adapter unmerged"
        )
    # Left by a killed command.
    shutil.rmtree(part, ignore_errors=True)
    with writing(output.name, output.parent, then="re-run the command, or pass another --output"):
        merged.save_pretrained(part)
        keep_beyond(merged, checkpoint.folder, part)
        # Not the base's: with this chat template, engines make the prompts that the planner was trained on.
        loaded.processor.save_pretrained(part)
        planner = made_from(checkpoint, loaded.planner)
        marks: Any = loaded.identity["video_marks"]
        budgets, versions = (loaded.frames, loaded.pixels), library_versions()
        record = ModelRecord(*budgets, checkpoint.as_base, planner, versions, marks)
        write_model_record(part, record)
        if videos := recorded_videos(adapter_folder(spec.adapter) / RECORD):
            # GRPO of the merged planner compares its own with them.
            (part / RECORD).write_text(json.dumps({"videos": videos}) + "\n", encoding="utf-8")
        publish(part, output)


COMMAND = MERGE


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status: 0, or 2 for errors the user can fix."""
    with exit_status("stopped; nothing was written") as status:
        config = MERGE.parse(argv)
        merge(config)
        print(f"merged checkpoint: {config.output}")
    return status.code


if __name__ == "__main__":
    sys.exit(main())
