"""--help of a command imports no model library, whatever the command does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from videopro.__main__ import main
from videopro.cli import COMMANDS, stored_help

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


def helped(names: list[str], cache: Path) -> str:
    """What a process prints for these helps, with a line of its status and of what it imported after each."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *names],
        env={**os.environ, "VIDEOPRO_CACHE": str(cache), "COLUMNS": "80"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout


def test_no_help_imports_a_model_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [name for name in COMMANDS if name not in ("sft", "grpo")]
    printed = helped(names, tmp_path)
    for name in names:
        assert f"@ {name}: 0 []\n" in printed
        assert f"Usage: videopro {name}" in printed, "a help of its own"
    # Stored: as it was, and it comes from no module of the command.
    monkeypatch.setenv("VIDEOPRO_CACHE", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "80")
    for name in names:
        _, _, rest = printed.partition(f"Usage: videopro {name} ")
        assert (stored_help(name, ["--help"]) or "").partition(f"Usage: videopro {name} ")[2] in rest, name


def test_the_help_of_trl_s_flags_is_stored_and_imports_nothing_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VIDEOPRO_CACHE", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "80")
    assert stored_help("sft") is None
    # In this process, which has imported TRL: the import alone takes seconds.
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["sft", "--help"])
    text = capsys.readouterr().out
    second = helped(["sft"], tmp_path)
    assert "--per_device_train_batch_size" in text, "of transformers"
    assert "--lora_r" in text, "of TRL's model settings"
    assert "--train_data" in text, "ours"
    assert second == f"{text}@ sft: 0 []\n"
    # A flag that changes, another version or another width makes it anew.
    assert stored_help("sft") == text
    monkeypatch.setenv("COLUMNS", "120")
    assert stored_help("sft") is None
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("importlib.metadata.version", lambda package: "0.0")
    assert stored_help("sft") is None
    assert stored_help("grpo") is None
