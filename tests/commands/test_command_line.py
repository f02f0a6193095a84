"""`videopro` and how its commands read their settings: names, help, files, flags, completion."""

import re
import subprocess
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml

from tests.support import ROOT
from videopro import __version__
from videopro.__main__ import main
from videopro.cli import (
    COMMANDS,
    CONFIGS,
    CommandLine,
    OptionFlags,
    config_file,
    setting,
)
from videopro.commands.completion import script
from videopro.errors import ConfigError


@dataclass(frozen=True)
class Toy:
    """Every kind of setting."""

    video: Path = field(metadata=setting("the video", positional=True))
    words: tuple[str, ...] = field(default=(), metadata=setting("more words", positional=True))
    count: int = field(default=1, metadata=setting("how many"))
    share: int | float | None = field(default=None, metadata=setting("a number or a share"))
    kind: Literal["a", "b"] = field(default="a", metadata=setting("a or b", group="Kinds"))
    loud: bool = field(default=False, metadata=setting("100 % [loud]", group="Kinds"))
    ids: tuple[str, ...] = field(default=(), metadata=setting("some"))
    names: str = field(default="", metadata=setting("joined names", joined=True))
    options: dict[str, Any] = field(default_factory=dict, metadata=setting("more"))


TOY = CommandLine("videopro.toy", Toy, summary="A toy.", configs="compare")


@dataclass(frozen=True)
class Quick:
    depth: int = field(default=2, metadata=setting("how deep a quick one goes"))
    size: Literal["few", "many"] = field(default="few", metadata=setting("how many"))
    time: int = field(default=1, metadata=setting("whole seconds"))


@dataclass(frozen=True)
class Deep:
    depth: int | None = field(default=None, metadata=setting("how deep a deep one goes"))
    share: float = field(default=0.5, metadata=setting("how much"))
    time: float = field(default=1.0, metadata=setting("seconds"))
    tools: tuple[str, ...] = field(default=(), metadata=setting("which tools"))
    file: Path | str | None = field(default=None, metadata=setting("a file"))
    count: int = field(default=0, metadata=setting("hidden by the command's own count"))


@dataclass(frozen=True)
class Chooser:
    """A command that runs one of several ways."""

    way: str = field(default="quick", metadata=setting("which way"))
    count: int = field(default=1, metadata=setting("the command's own"))
    options: dict[str, Any] = field(default_factory=dict, metadata=setting("options of the way"))


WAYS = OptionFlags({"quick": Quick, "deep": Deep}, "way", default_choices=("quick",))
CHOOSER = CommandLine("videopro.chooser", Chooser, summary="A chooser.", options=WAYS)


def status_of(argv: list[str]) -> object:
    """The status that a command ends with, whether it returns it or exits."""
    try:
        return main(argv)
    except SystemExit as stopped:
        return stopped.code


def test_help_and_version_wherever_they_stand(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["--help", "merge"]) == 0
    assert "Usage: videopro merge" in capsys.readouterr().out
    assert status_of(["compare", "runs/a", "--help"]) == 0
    assert "Usage: videopro compare" in capsys.readouterr().out
    for words in (["--version"], ["--version", "merge"]):
        assert main(words) == 0
        assert capsys.readouterr().out.strip() == __version__


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_its_examples(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of([*name.split(), "--help"]) == 0
    said = capsys.readouterr().out
    assert all(line in said for line in COMMANDS[name].help_examples().splitlines())
    assert callable(import_module(COMMANDS[name].module).main)


def test_every_kind_of_flag() -> None:
    words = "video.mp4 one two --count 2 --share 0.5 --kind b --loud --ids x y --ids z --names m n --names=o"
    assert TOY.parse([*words.split(), "--options", "a=1", "b=[2, c]"]) == Toy(
        video=Path("video.mp4"),
        words=("one", "two"),
        count=2,
        share=0.5,
        kind="b",
        loud=True,
        ids=("x", "y", "z"),
        names="m,n,o",
        options={"a": 1, "b": [2, "c"]},
    )
    assert TOY.parse(["f", "--share", "66", "--no-loud", "--count", "4"]) == Toy(Path("f"), count=4, share=66)
    # A script's own flag comes first and is overridden.
    assert TOY.parse(["f", "--count", "2", "--count", "3"]).count == 3


def test_flags_override_a_file_key_by_key(tmp_path: Path) -> None:
    file = tmp_path / "toy.yaml"
    file.write_text("video: v.mp4\ncount: 5\nids: only\noptions: {a: 1, b: 2}\n")
    read = TOY.parse(["--config", str(file), "--count", "6", "--options", "b=3"])
    assert (read.count, read.ids, read.options) == (6, ("only",), {"a": 1, "b": 3})
    assert TOY.parse(["--config", str(file)]).count == 5


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("video: v\ncuont: 1\n", "'cuont'; did you mean 'count'"),
        ("video: v\ncount: many\n", "count is 'many'"),
        ("video: v\ncount: true\n", "count is True"),
        ("video: v\nshare: much\n", "share is 'much'"),
        ("video: v\nshare: true\n", "share is True"),
        ("video: v\nkind: c\n", "kind is 'c'; it must be one of a, b"),
        ("video: v\noptions: [1]\n", "options is [1]"),
        ("video: v\nids: {a: 1}\n", "ids is {'a': 1}"),
        (f"video: v\nids: {{a: {'x' * 10_000}}}\n", "ids is {'a': 'xxx"),
        ("count: 1\n", "'video' is missing"),
    ],
)
def test_a_file_with_a_mistake_names_it_in_one_short_line(text: str, named: str, tmp_path: Path) -> None:
    file = tmp_path / "toy.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=re.escape(f"{file}: ")) as error:
        TOY.parse(["--config", str(file)])
    assert named in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 500


def test_options_of_what_is_chosen_are_flags_too(tmp_path: Path) -> None:
    spelt = CHOOSER.parse(["--way", "deep", "--options", "share=0.25", "tools=[a, b]", "depth=3", "file=7"])
    words = ["--way", "deep", "--share", "0.25", "--tools", "a", "b", "--depth", "3", "--file", "7"]
    assert CHOOSER.parse(words).options == {"share": 0.25, "tools": ["a", "b"], "depth": 3, "file": "7"}
    assert {**spelt.options, "file": "7"} == CHOOSER.parse(words).options
    # The command's own setting of the same name goes before an option's.
    assert CHOOSER.parse(["--way", "deep", "--count", "4", "--options", "count=5"]) == Chooser(
        "deep", 4, {"count": 5}
    )
    # A file may have them beside the command's settings.
    file = tmp_path / "run.yaml"
    file.write_text("way: deep\ncount: 2\noptions: {depth: 5}\nshare: 0.75\nsize: null\n")
    read = CHOOSER.parse(["--config", str(file)])
    assert read == Chooser("deep", 2, {"depth": 5, "share": 0.75})
    assert CHOOSER.parse(["--way", "deep", "--time", "1.5"]).options == {"time": 1.5}
    assert CHOOSER.parse(["--time", "2"]).options == {"time": 2}
    changed = CHOOSER.parse(["--config", str(file), "--depth", "6", "--options", "share=1"])
    assert changed.options == {"depth": 6, "share": 1}


@pytest.mark.parametrize(
    ("words", "text", "expected"),
    [
        (["--time", "{"], "", "--time: cannot read the value '{': "),
        (["--depth", "x"], "", 'invalid value for --depth: unable to convert "x" into int'),
        ([], "share: 1", "FILE: share: way 'quick' has no such setting; it belongs to deep"),
        ([], "size: few\noptions: {size: many}", "FILE: size is 'few', but options sets size='many'"),
        ([], "size: few\noptions: [1]", "FILE: options must be a mapping, not [1]"),
    ],
)
def test_an_option_that_cannot_be_read_names_itself(
    words: list[str], text: str, expected: str, tmp_path: Path
) -> None:
    file = tmp_path / "toy.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as error:
        CHOOSER.parse([*words, "--config", str(file)])
    assert expected.replace("FILE", str(file)) in str(error.value)
    assert str(error.value).count("\n") == 0 or "{" in words


def test_print_config_is_a_config(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["a video.mp4", "--share", "0.1", "--ids", "x", "--options", "a=1", "--kind", "b"]
    with pytest.raises(SystemExit) as stopped:
        TOY.parse([*words, "--print-config"])
    assert stopped.value.code == 0
    said = capsys.readouterr().out
    assert yaml.safe_load(said)["options"] == {"a": 1}
    assert "# a number or a share\nshare: 0.1\n" in said
    file = tmp_path / "printed.yaml"
    file.write_text(said)
    assert TOY.parse(["--config", str(file)]) == TOY.parse(words)


def test_shipped_configs_have_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert CONFIGS.resolve() == ROOT / "configs"
    assert config_file("pocket", "compare") == CONFIGS / "compare" / "pocket.yaml"
    # A file of that name comes first, and a path is never taken for a name.
    monkeypatch.chdir(tmp_path)
    assert config_file("./pocket", "compare") == Path("./pocket")
    (tmp_path / "pocket").write_text("")
    assert config_file("pocket", "compare") == Path("pocket")
    # A folder does not: nothing could be read from it.
    (tmp_path / "pocket").unlink()
    (tmp_path / "pocket").mkdir()
    assert config_file("pocket", "compare") == CONFIGS / "compare" / "pocket.yaml"
    with pytest.raises(ConfigError, match="this command has no shipped configs"):
        config_file("pocket2", "")


def test_bash_completes_commands_and_settings(tmp_path: Path) -> None:
    (tmp_path / "completion").write_text(script("bash"))
    expected = {
        "inf": {"infer"},
        "benchmarks ch": {"check"},
        "infer --red": {"--redo-errors", "--redo-changed"},
        "report --expo": {"--export"},
    }
    program = f"source {tmp_path}/completion\n"
    for typed in expected:
        words = f"videopro {typed}"
        program += f"""COMP_WORDS=({words}); COMP_CWORD={len(typed.split())}; COMP_LINE="{words}"
COMP_POINT={len(words)}; _videopro; echo "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
    assert [set(line.split()) for line in done.stdout.splitlines()] == list(expected.values())
