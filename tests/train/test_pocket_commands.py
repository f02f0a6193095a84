"""The commands that made the pocket world's model, encoder and adapters: their flags are those that records,
pages and launch scripts give."""

from __future__ import annotations

import re
import shlex
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support import ROOT
from videopro.errors import ConfigError

MODULES = (
    *(
        f"pocket.{name}"
        for name in ("asp_pocket", "average", "chunk_features", "encoder", "frames", "language", "vision")
    ),
)
PLACES = (
    *("train/**/*.py", "docs/**/*.md", "README.md", "launch/*.sh"),
    "videopro/pocket/**/RECORD.md",
)
# Without these, the scripts' variables stay words that are numbers where numbers are needed.
VARIABLES = {"steps": "7", "seed": "1"}


def written_commands() -> list[tuple[str, tuple[str, ...]]]:
    """Every call of one of the modules that is written anywhere, as its name and its words; without those of
    which a sentence leaves words out."""
    found = set()
    for path in (path for place in PLACES for path in ROOT.glob(place)):
        # A docstring has its line ends escaped.
        text = path.read_text(encoding="utf-8").replace("\\\\\n", " ").replace("\\\n", " ")
        for line in re.findall(r"python -m videopro\.train\.([^\n`)]+)", text):
            line = re.sub(r"\$\{?(\w+)\}?", lambda name: VARIABLES.get(name[1], "word"), line)
            name, *words = shlex.split(line.replace("[", "").replace("]", ""), comments=True)
            if name in MODULES and "--output" in words and "..." not in words:
                found.add((name, tuple(word for word in words if word not in ("word@", "$@"))))
    return sorted(found)


def test_every_module_is_called_somewhere() -> None:
    assert {name for name, _ in written_commands()} == {*MODULES}


@pytest.mark.parametrize(("name", "words"), written_commands(), ids=lambda value: str(value)[:60])
def test_a_written_command_is_understood(name: str, words: tuple[str, ...]) -> None:
    command = import_module(f"videopro.train.{name}").COMMAND
    settings = command.parse(words)
    for flag, value in pairwise(words):
        if flag.startswith("--") and not value.startswith("--"):
            found = getattr(settings, flag[2:].replace("-", "_"))
            assert found is True or found in (Path(value), value) or float(found) == float(value), flag


@pytest.mark.parametrize("name", MODULES)
def test_a_flag_that_does_not_exist_is_one_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    module = import_module(f"videopro.train.{name}")
    assert module.main(["--outptu", "x"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith(f"error: python -m videopro.train.{name}: unknown argument")
    assert "--outptu" in said


@pytest.mark.parametrize(
    ("name", "words", "message"),
    [
        ("pocket.average", ["a", "b", "--share", "1.5", "--output", "o"], "--share is 1.5; it must be from"),
        ("pocket.language", ["--output", "o"], "'steps' is missing"),
        ("pocket.asp_pocket", ["--features", "f", "--output", "o", "--splits"], "give at least one of"),
    ],
)
def test_a_mistake_is_one_line(
    name: str, words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert import_module(f"videopro.train.{name}").main(words) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_lists_may_be_empty() -> None:
    """`--splits` without a word meant no split, and still does."""
    encoder = import_module("videopro.train.pocket.encoder").COMMAND
    words = ["--frames", "f", "--output", "o"]
    assert encoder.parse(words).splits == ("val", "test")
    assert encoder.parse([*words, "--splits"]).splits == ()
    poolings = import_module("videopro.train.pocket.asp_pocket").COMMAND
    assert poolings.parse(["--features", "f", "--output", "o", "--seeds", "4", "5"]).seeds == (4, 5)
    with pytest.raises(ConfigError, match="valid integer"):
        poolings.parse(["--features", "f", "--output", "o", "--seeds", "many"])
