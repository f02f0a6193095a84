"""Makes the shipped pocket models from nothing, on two cores.

    python -m videopro.train.pocket FOLDER                      all of them, in hours
    python -m videopro.train.pocket FOLDER --parts poolings     some of them

`model` makes FOLDER/model, `encoder` FOLDER/encoder/model, and `poolings`, on the shipped encoder,
FOLDER/poolings: `videopro/pocket` ships them as `model`, `encoder` and `asp`. Re-run the same command to
resume. How long each part took, and what it reached, is in the `RECORD.md` beside the weights.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from videopro.cli import CommandLine, exit_status, option, setting
from videopro.train.pocket.asp_pocket import SPLITS, compare_poolings
from videopro.train.pocket.chunk_features import write_features
from videopro.train.pocket.encoder import train_encoder
from videopro.train.pocket.frames import draw_pool
from videopro.train.pocket.language import train_model
from videopro.train.pocket.vision import train_vision


@dataclass(frozen=True)
class PocketSettings:
    """What is made, and where."""

    folder: Path = field(metadata=setting("folder for all of it", positional=True))
    parts: tuple[Literal["model", "encoder", "poolings"], ...] = option(
        ("model", "encoder", "poolings"), "what to make"
    )


COMMAND = CommandLine(
    "videopro.train.pocket", PocketSettings, summary="Make the shipped pocket models from nothing."
)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status."""
    with exit_status() as status:
        settings = COMMAND.parse(argv)
        folder = settings.folder
        frames, features = folder / "frames", folder / "features"
        if "model" in settings.parts or "encoder" in settings.parts:
            draw_pool(frames)
        if "model" in settings.parts:
            train_vision(frames, folder / "vision")
            train_model(folder)
        if "encoder" in settings.parts:
            train_encoder(frames, folder / "encoder")
        if "poolings" in settings.parts:
            write_features(features, ("train", *SPLITS))
            compare_poolings(features, folder / "poolings")
    return status.code


if __name__ == "__main__":
    sys.exit(main())
