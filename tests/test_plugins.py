"""Plug-ins by name, by entry point and by file: what is found, what is said of what is not, and what the
run's key has of them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from videopro.errors import ConfigError
from videopro.plugins import Registry, Used, check_same, is_file, used_plugins


class Fruit:
    """What the registry of these tests holds."""

    def __init__(self, name: str) -> None:
        self.name = name


APPLE = Fruit("apple")
HEAD = f"from {__name__} import APPLE, Fruit\n"


@pytest.fixture
def fruits() -> Registry[Fruit]:
    ours: dict[str, str | Fruit] = {"pear": Fruit("pear"), "apple": f"{__name__}:APPLE"}
    return Registry(
        "fruit", lambda value: type(value).__name__ == "Fruit", ours, what="a Fruit", more_names=("bowl",)
    )


def install(site: Path, name: str, version: str, module: str, *entries: str) -> None:
    """A package as pip installs it: one module, and entry points of the group of these tests."""
    about = site / f"{name.replace('-', '_')}-{version}.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
    (about / "entry_points.txt").write_text("[videopro.fruits]\n" + "\n".join(entries) + "\n")
    (site / f"{name.replace('-', '_')}.py").write_text(module)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where packages are installed for one test."""
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    (tmp_path / "site").mkdir()
    yield tmp_path / "site"
    for name in [name for name in sys.modules if name.startswith("fruit_")]:
        del sys.modules[name]


def test_ours_are_found_by_name(fruits: Registry[Fruit]) -> None:
    assert list(fruits) == ["pear", "apple"]
    assert fruits["apple"] is APPLE
    assert ("apple" in fruits, "plum" in fruits, "x/plum.py" in fruits) == (True, False, True)
    assert fruits.find("pear").version == ""
    with pytest.raises(ConfigError, match=r"^unknown fruit 'aple'; did you mean 'apple'\?"):
        fruits["aple"]


def test_an_installed_one_and_its_version(fruits: Registry[Fruit], site: Path) -> None:
    install(site, "fruit-basket", "2.1", HEAD + "FIG = Fruit('fig')\n", "fig = fruit_basket:FIG")
    assert list(fruits) == ["pear", "apple", "fig"]
    assert fruits.ours() == ("pear", "apple")
    plugin = fruits.find("fig")
    assert (plugin.value.name, plugin.address, plugin.file) == ("fig", "fig", site / "fruit_basket.py")
    package, digest = plugin.version.split()
    assert (package, len(digest)) == ("2.1", 16)


def test_what_is_broken_stops_only_who_uses_it(fruits: Registry[Fruit], site: Path) -> None:
    install(site, "fruit-rot", "1.0", "import no_such_library\n", "fig = fruit_rot:FIG")
    assert fruits["apple"] is APPLE
    assert [each.name for each in fruits.working()] == ["pear", "apple"]
    (message,) = fruits.broken()
    assert message.startswith("fruit 'fig' of package fruit-rot (fruit_rot:FIG) cannot be loaded")
    with pytest.raises(ConfigError, match=re.escape(message)):
        fruits["fig"]


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("pear = fruit_two:FIG", r"'pear' is in several packages \(videopro, fruit-two\)"),
        ("bowl = fruit_two:FIG", r"'bowl' is in several packages \(videopro, fruit-two\)"),
        ("fig = fruit_two:NUMBER", r"\(fruit_two:NUMBER\) is int 7"),
        ("plum = fruit_two:FIG", r"\(fruit_two:FIG\) has the name 'fig'"),
        ("plum = fruit_two:NONE", r"\(fruit_two:NONE\) cannot be loaded \(AttributeError: "),
    ],
)
def test_an_entry_point_that_is_none(fruits: Registry[Fruit], site: Path, entry: str, expected: str) -> None:
    install(site, "fruit-two", "1.0", HEAD + "FIG, NUMBER = Fruit('fig'), 7\n", entry)
    with pytest.raises(ConfigError, match=expected):
        fruits[entry.partition(" ")[0]]


def test_two_packages_with_one_name(fruits: Registry[Fruit], site: Path) -> None:
    for name in ("fruit-one", "fruit-two"):
        install(site, name, "1.0", HEAD + "FIG = Fruit('fig')\n", f"fig = {name.replace('-', '_')}:FIG")
    with pytest.raises(ConfigError, match=r"'fig' is in several packages \((fruit-\w+, fruit-\w+)\)"):
        fruits["fig"]


def test_one_in_a_file(fruits: Registry[Fruit], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "garden.py"
    file.write_text(HEAD.replace("APPLE, ", "") + "FIG = Fruit('fig')\n")
    monkeypatch.chdir(tmp_path)
    plugin = fruits.find("garden.py")
    # Another process may run elsewhere.
    assert (plugin.name, plugin.address, plugin.value.name) == ("fig", str(file), "fig")
    assert fruits["garden.py@fig"] is fruits["garden.py@FIG"] is plugin.value
    file.write_text(file.read_text() + "PLUM = Fruit('plum')\n")
    with pytest.raises(ConfigError, match=r"garden.py: defines several \(fig, plum\); add @NAME to the file"):
        fruits["garden.py"]
    assert fruits["garden.py@plum"].name == "plum"
    assert fruits.find("garden.py@plum").version != plugin.version
    with pytest.raises(ConfigError, match=r"garden.py: defines no fruit 'kiwi', but fig, plum"):
        fruits["garden.py@kiwi"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, r"fruit '.*none.py': .*none.py cannot be read \(No such file or directory\); give a .py file"),
        ("x = 1", r"none.py: defines no fruit; a fruit is a Fruit$"),
        ("x = (", r"none.py, line 1: '\(' was never closed; correct the file$"),
        ("x = 1\n1 / 0", r"none.py, line 2: ZeroDivisionError: division by zero; correct the file$"),
        ("raise SystemExit(3)", r"none.py, line 1: SystemExit: 3; correct the file$"),
    ],
)
def test_a_file_that_is_none(
    fruits: Registry[Fruit], tmp_path: Path, content: str | None, expected: str
) -> None:
    if content is not None:
        (tmp_path / "none.py").write_text(content)
    with pytest.raises(ConfigError, match=expected) as raised:
        fruits[str(tmp_path / "none.py")]
    assert "\n" not in str(raised.value)


def test_which_names_are_files() -> None:
    assert [is_file(name) for name in ("a.py", "b/a.py@c", "a.python", "owner/name", "a@b.py@")] == [
        *(True, True, False, False, False)
    ]


def test_a_worker_has_the_same(fruits: Registry[Fruit], tmp_path: Path) -> None:
    file = tmp_path / "garden.py"
    file.write_text(HEAD.replace("APPLE, ", "") + "FIG = Fruit('fig')\n")
    used = used_plugins([("fruit", "pear"), ("fruit", str(file)), ("fruit", str(file))])
    assert [(each.kind, each.name, each.address) for each in used] == [("fruit", "fig", str(file))]
    check_same(used, "worker on node7")
    file.write_text(file.read_text() + "# other\n")
    with pytest.raises(ConfigError, match=r"^worker on node7: fruit .*garden.py is not the command's"):
        check_same(used, "worker on node7")
    file.unlink()
    with pytest.raises(ConfigError, match=r"^worker on node7: fruit .* cannot be read"):
        check_same(used, "worker on node7")
    missing: Any = Used("fruit", "fig", "fig", "1.0 abc")
    with pytest.raises(ConfigError, match=r"^worker on node7: unknown fruit 'fig'"):
        check_same([missing], "worker on node7")
