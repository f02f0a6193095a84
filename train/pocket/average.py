"""Averages the weights of two checkpoints of one pocket model, which keeps most of what a later stage of its
training gained and forgets less.

    python -m videopro.train.pocket.average F/writing2/model F/all/model --share 0.75 --output F/average

`--share` is the weight of the second folder.
"""

import argparse
from pathlib import Path
from typing import Any

import torch
from transformers import Qwen3VLForConditionalGeneration

from videopro.pocket import checkpoint


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m videopro.train.pocket.average", description=__doc__)
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    parser.add_argument("--share", type=float, required=True, help="weight of the second folder, 0 to 1")
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()
    if not 0 <= args.share <= 1:
        parser.error(f"--share is {args.share}; it must be from 0 to 1")
    average(args.first, args.second, args.share, args.output)


def average(first: Path, second: Path, share: float, output: Path) -> None:
    """Write the model whose weights are (1 - share) of `first`'s and `share` of `second`'s, in bf16."""
    models: list[Any] = [
        Qwen3VLForConditionalGeneration.from_pretrained(folder, dtype=torch.float32)
        for folder in (first, second)
    ]
    theirs = models[1].state_dict()
    for name, weight in models[0].state_dict().items():
        if weight.is_floating_point():
            weight.lerp_(theirs[name], share)
    checkpoint.save(models[0].bfloat16(), checkpoint.build_processor(), output)


if __name__ == "__main__":
    main()
