"""--help of a command imports no model library, whatever the command does."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields

from transformers import TrainingArguments
from trl import GRPOConfig, ModelConfig, SFTConfig

from videopro.cli import COMMANDS
from videopro.train.settings.help import MODEL, OF_STAGE, TRAINING

HEAVY = ("torch", "transformers", "trl", "openai", "peft", "accelerate", "datasets")
_PROGRAM = f"""
import sys
from videopro.__main__ import main

for name in sys.argv[1:]:
    try:
        status = main([*name.split(), "--help"])
    except SystemExit as exit:
        status = exit.code or 0
    loaded = [module for module in {HEAVY} if module in sys.modules]
    print(f"@ {{name}}: {{status}} {{loaded}}", flush=True)
"""


def test_no_help_imports_a_model_library() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *COMMANDS], stdout=subprocess.PIPE, text=True, check=True
    )
    for name in COMMANDS:
        assert f"@ {name}: 0 []\n" in done.stdout
        assert f"sage: videopro {name}" in done.stdout, "a help of its own"
    for flag in ("--per_device_train_batch_size", "--lora_r", "--num_generations", "--train_data"):
        assert flag in done.stdout


def test_the_libraries_have_the_settings_that_help_shows() -> None:
    for kind, shown in (
        (ModelConfig, MODEL),
        (TrainingArguments, TRAINING),
        (SFTConfig, OF_STAGE["sft"]),
        (GRPOConfig, OF_STAGE["grpo"]),
    ):
        assert shown.keys() <= {option.name for option in fields(kind)}
