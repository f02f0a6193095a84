"""Plug-ins: what `--method`, `--benchmark`, `--planner` and similar options name: built-in, from an installed
package, or in your own file.

    METHODS = Registry("method", accepts, {"native": NativeMethod})
    METHODS["native"]                  # built-in
    METHODS["middle"]                  # an entry point of the group "videopro.methods"
    METHODS["path/to/file.py"]         # the one method that the file defines
    METHODS["path/to/file.py@middle"]  # one of several

Listing names imports nothing, so a broken plug-in affects only commands that use it. The content of a plug-in
that is not built-in is part of a run's key (`Plugin.version`), and workers on other machines compare it
(`check_same`).
"""

from __future__ import annotations

import hashlib
import re
import sys
import traceback
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, Generic, TypeVar

from videopro.cli import did_you_mean
from videopro.errors import ConfigError, VideoProError

T = TypeVar("T")
_FILE = re.compile(r"(?P<path>.+\.py)(?:@(?P<name>[\w.-]+))?")
_OURS = "videopro"
_DEFINED = (type, types.FunctionType)


@dataclass(frozen=True)
class Plugin(Generic[T]):
    """An object with a name."""

    kind: str
    name: str
    value: T
    address: str
    """The address for other processes: its name, or the absolute path of its file."""
    version: str = ""
    """For a plug-in that is not built-in, a hash of its source files, after the package's version if it is
    installed."""
    file: Path | None = None
    """Where it is defined, if it is not built-in."""

    @contextmanager
    def located(self, error: type[VideoProError] = ConfigError) -> Iterator[None]:
        """Turn an exception of its code into one line with the file and the line number. VideoPro's own
        errors pass."""
        try:
            yield
        except VideoProError:
            raise
        except Exception as exception:
            if self.file is None:
                raise
            raise error(fault(exception, self.file)) from exception


class Registry(Mapping[str, T]):
    """The plug-ins of one kind, by name. As a mapping, it raises `error` instead of KeyError, and
    iterates over the names of built-in and installed plug-ins."""

    def __init__(
        self,
        kind: str,
        accepts: Callable[[object], bool],
        ours: Mapping[str, str | T],
        *,
        what: str,
        error: type[VideoProError] = ConfigError,
        more_names: Iterable[str] = (),
    ) -> None:
        """`accepts`: whether an object is a plug-in of this kind; `what`: what it must be, for messages;
        `ours`: the built-in ones, as objects or as "module:object"; `more_names`: reserved names."""
        self.kind, self.group, self.error = kind, f"videopro.{kind}s", error
        self._accepts, self._what, self._ours = accepts, what, ours
        self._more_names = tuple(more_names)
        self._loaded: dict[tuple[str, tuple[str, ...]], Plugin[T]] = {}
        self._of_files: dict[str, Plugin[T]] = {}
        _REGISTRIES[kind] = self

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._ours, *(entry.name for entry in self._entries()))))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (name in tuple(self) or is_file(name))

    def __getitem__(self, name: str) -> T:
        return self.find(name).value

    def ours(self) -> tuple[str, ...]:
        """The built-in names, including this package's entry points."""
        entries = (entry.name for entry in self._entries() if _owner(entry) == _OURS)
        return tuple(dict.fromkeys((*self._ours, *entries)))

    def working(self) -> Iterator[T]:
        """All that can be loaded, and those of files that this process has used; broken ones are skipped."""
        for name in self:
            try:
                yield self[name]
            except VideoProError:
                continue
        yield from {plugin.address: plugin.value for plugin in self._of_files.values()}.values()

    def of_file(self, name: str) -> T | None:
        """The plug-in of a file that this process has used; None for other names."""
        return self._of_files[name].value if name in self._of_files else None

    def broken(self) -> Iterator[str]:
        """The error of each plug-in that cannot be loaded."""
        for name in self:
            try:
                self.find(name)
            except VideoProError as error:
                yield str(error)

    def find(self, name: str) -> Plugin[T]:
        """The plug-in of a name, a file, or a name in a file. Raises `error`, in one line, if it does
        not exist, exists twice, cannot be loaded or is of another kind."""
        if is_file(name):
            return self._in_file(name)
        entries = [entry for entry in self._entries() if entry.name == name]
        taken = [_OURS] if name in self._ours or name in self._more_names else []
        owners = [*taken, *map(_owner, entries)]
        if len(owners) > 1:
            raise self.error(
                f"{self.kind} {name!r} is in several packages ({', '.join(owners)}); remove one, or pass its "
                "file"
            )
        if entries:
            # Once in a process, for what is installed does not change; tests have other paths.
            key = name, tuple(sys.path)
            if key not in self._loaded:
                self._loaded[key] = _of_entry(self, entries[0])
            return self._loaded[key]
        if name not in self._ours:
            raise self.error(
                f"unknown {self.kind} {name!r}; {did_you_mean(name, list(self))} (for your own, pass its "
                "file, path/to/file.py, or install its package)"
            )
        value = self._ours[name]
        if isinstance(value, str):
            module, _, attribute = value.partition(":")
            value = getattr(import_module(module), attribute)
        return Plugin(self.kind, name, value, name)

    def _in_file(self, spelling: str) -> Plugin[T]:
        match = _FILE.fullmatch(spelling)
        assert match is not None
        path, named = Path(match["path"]).expanduser().absolute(), match["name"]
        try:
            content = path.read_bytes()
        except OSError as error:
            raise self.error(
                f"{self.kind} {spelling!r} cannot be read ({error.strerror}); pass a .py file on this machine"
            ) from error
        try:
            module = _run(path, content)
        # SystemExit too: a file that ends the process must not end the command without a word.
        except (Exception, SystemExit) as error:
            raise self.error(fault(error, path)) from error
        # A class or a function that the file imports is not meant.
        own = {
            attribute: value
            for attribute, value in vars(module).items()
            if self._accepts(value)
            and (not isinstance(value, _DEFINED) or value.__module__ == module.__name__)
        }
        chosen = {a: value for a, value in own.items() if named in (None, a, _name_of(value, a))}
        if not chosen or len({id(value) for value in chosen.values()}) > 1:
            names = ", ".join(_name_of(value, attribute) for attribute, value in own.items())
            problem = f"no {self.kind} {named!r}" if named else f"no {self.kind}"
            if own:
                problem = f"{problem}, but {names}" if named else f"several ({names}); add @NAME to the file"
            raise self.error(f"{path}: defines {problem}; a {self.kind} is {self._what}")
        attribute, value = next(iter(chosen.items()))
        if (taken := _name_of(value, attribute)) in (*self.ours(), *self._more_names):
            raise self.error(f"{path}: {self.kind} {taken!r} has a built-in name; rename it")
        address = f"{path}@{named}" if named else str(path)
        plugin = Plugin(self.kind, _name_of(value, attribute), value, address, _hash([content]), path)
        self._of_files |= {address: plugin, spelling: plugin}
        return plugin

    def _entries(self) -> tuple[metadata.EntryPoint, ...]:
        return _entry_points(self.group, tuple(sys.path))

    def _checked(self, name: str, value: object, where: str) -> None:
        if not self._accepts(value):
            raise self.error(f"{where} is {type(value).__name__} {value!r}; it must be {self._what}")
        if (own := _name_of(value, name)) != name:
            raise self.error(f"{where} has the name {own!r}; give the entry point the same name")


_REGISTRIES: dict[str, Registry[Any]] = {}


def is_file(name: str) -> bool:
    """Whether a name is a plug-in's file."""
    return _FILE.fullmatch(name) is not None


@dataclass(frozen=True)
class Used:
    """A plug-in used by a run that is not built-in."""

    kind: str
    name: str
    address: str
    version: str


def used_plugins(named: Iterable[tuple[str, str]]) -> tuple[Used, ...]:
    """The named plug-ins (kinds and names) that are not built-in. Raises VideoProError for one that cannot be
    loaded."""
    found = [_REGISTRIES[kind].find(name) for kind, name in named]
    used = [Used(each.kind, each.name, each.address, each.version) for each in found if each.version]
    return tuple(dict.fromkeys(used))


def check_same(used: Iterable[Used], where: str) -> None:
    """Raise ConfigError, before a worker loads a model, if a plug-in of the run is missing or different
    there. `where`: the worker, for the message."""
    for plugin in used:
        try:
            version = _REGISTRIES[plugin.kind].find(plugin.address).version
        except VideoProError as error:
            raise ConfigError(f"{where}: {error}; a worker needs the same plug-ins as the command") from error
        if version != plugin.version:
            raise ConfigError(
                f"{where}: {plugin.kind} {plugin.address} differs from the command's (here {version}, there "
                f"{plugin.version}); install the same version, or restart"
            )


@cache
def _entry_points(group: str, path: tuple[str, ...]) -> tuple[metadata.EntryPoint, ...]:
    # Reading what is installed takes 10 ms; `path` so that another one is seen.
    return tuple(metadata.entry_points(group=group))


def _of_entry(registry: Registry[T], entry: metadata.EntryPoint) -> Plugin[T]:
    where = f"{registry.kind} {entry.name!r} of package {_owner(entry)} ({entry.value})"
    try:
        value = entry.load()
    except (Exception, SystemExit) as error:
        said = " ".join(str(error).split())
        raise registry.error(
            f"{where} cannot be loaded ({type(error).__name__}: {said}); fix the package, or uninstall it"
        ) from error
    registry._checked(entry.name, value, where)
    if _owner(entry) == _OURS:
        return Plugin(registry.kind, entry.name, value, entry.name)
    file = Path(sys.modules[entry.module].__file__ or "")
    version = entry.dist.version if entry.dist is not None else "?"
    version = f"{version} {_hash(path.read_bytes() for path in _sources(entry.module))}"
    return Plugin(registry.kind, entry.name, value, entry.name, version, file)


def _sources(module: str) -> list[Path]:
    """The source files of the package that a module is in, or its own."""
    top = sys.modules[module.partition(".")[0]]
    folders = [Path(folder) for folder in getattr(top, "__path__", ())]
    return sorted(file for folder in folders for file in folder.rglob("*.py")) or [Path(top.__file__ or "")]


def _owner(entry: metadata.EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else entry.value


def _name_of(value: object, attribute: str) -> str:
    """A plug-in's name: its `name`, its function's, or its variable's."""
    name = getattr(value, "name", None) or (value.__name__ if isinstance(value, types.FunctionType) else None)
    return name if isinstance(name, str) else attribute


def _hash(contents: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for content in contents:
        digest.update(content)
    return digest.hexdigest()[:16]


@cache
def _run(path: Path, content: bytes) -> types.ModuleType:
    """Run a file with this content, once in a process."""
    # A name with the content's hash: two versions of one file in a process must not replace each other.
    module = types.ModuleType(f"videopro_plugin_{path.stem}_{_hash([content])}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # dataclasses look their module up
    exec(compile(content, str(path), "exec"), module.__dict__)
    return module


def fault(error: BaseException, file: Path) -> str:
    """The fault in a user's file, in one line: where, what, and the record that was being read."""
    if isinstance(error, SyntaxError) and error.filename == str(file):
        return f"{file}, line {error.lineno}: {error.msg}; fix the file"
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == str(file) and frame.lineno is not None
    ]
    where = f"{file}, line {lines[-1]}" if lines else str(file)
    if isinstance(error, VideoProError):
        return f"{where}: {error}"
    notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
    return f"{where}: {type(error).__name__}: {error}{notes}; fix the file"
