"""Models that plug-ins provide by short names, and what each knows: which videos, and what goes with it.

[project.entry-points."videopro.backbones"]      # in the pyproject.toml of a package
tiny = "my_package:TINY"                         # an OwnModel; then --model tiny
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from videopro.backbones.base import Backbone, BackboneConfig
from videopro.backbones.model_record import read_model_record
from videopro.errors import BackboneError, ConfigError
from videopro.plugins import Registry
from videopro.question import Question


class OwnModel:
    """A plug-in's model: a checkpoint (`folder`), or its own backbone (`load`).

    Other code reads these fields: no command knows a model by its name."""

    name: ClassVar[str]
    about: ClassVar[str] = ""
    """For `videopro models`."""
    adapters: ClassVar[Mapping[str, str]] = {}
    """What its adapters with short names do, by name; `adapter` finds them."""
    planner: ClassVar[str] = ""
    """The default adapter for writing programs."""
    modules: ClassVar[Mapping[str, str]] = {}
    """The models of modules that go with it, by setting of `ModuleSettings`; empty: the usual ones."""
    summarizes: ClassVar[bool] = True
    """Whether it can summarize long transcripts."""
    converses: ClassVar[bool] = True
    """Whether it reads free questions, earlier messages and detailed instructions."""
    sample: ClassVar[str] = ""
    """A sample video, as `find_video` takes it; empty: none."""
    scope: ClassVar[str] = ""
    """One line of usage advice; empty: it takes any video."""

    def folder(self) -> Path | None:
        """Its checkpoint, as the Auto classes load it. Raises BackboneError if that is missing."""
        return None

    def adapter(self, name: str) -> Path:
        """The folder of an adapter of `adapters`. Raises BackboneError if it is missing."""
        raise BackboneError(f"model {self.name!r} has no adapter {name!r}")

    def load(self, config: BackboneConfig) -> Backbone:
        """Its backbone, for a model without `folder`. Raises BackboneError."""
        raise BackboneError(f"model {self.name!r} has neither a folder nor a backbone")

    def owns(self, name: str) -> bool:
        """Whether a name that a command takes is of what this plug-in made, and knows no more than it: a
        model, an adapter, a planner or an encoder."""
        return name == self.name

    def refusal(self, role: str, name: str, video: Path) -> str:
        """Why what it owns cannot answer about a video, and what to take instead; "": it can. `role`: what
        the name is of, such as "model" or "encoder"."""
        return ""

    def questions_about(self, video: Path) -> Sequence[Question] | None:
        """The only questions about a video that it can answer, with or without their choices; None: it takes
        any question."""
        return None

    def find_video(self, name: str) -> Path:
        """The file of a video that it knows by a name, which is made if it is missing. Raises
        BenchmarkError."""
        raise ConfigError(f"{self.name}:{name}: model {self.name} has no built-in videos; pass a file")

    def mark_copy(self, video: Path, digest: str) -> None:
        """Note next to a copy of one of its videos that it knows it; `digest`: the copy's SHA-256. Other
        files do not change."""

    def is_at(self, name: str) -> bool:
        """Whether this name, or folder, is its own checkpoint."""
        if name == self.name:
            return True
        try:
            folder = self.folder()
            return folder is not None and Path(name).expanduser().resolve() == folder.resolve()
        except (BackboneError, OSError, RuntimeError, ValueError):  # "~nobody", a NUL in the name
            return False


MODELS: Registry[OwnModel] = Registry(
    "backbone",
    lambda value: isinstance(value, OwnModel),
    {},
    what="an OwnModel (videopro.backbones)",
)


def own_model(model: Backbone | str) -> OwnModel | None:
    """Whose checkpoint a backbone has, or the one of this name as `--model` takes it, with or without an
    adapter, here or behind a server; None: a model of no plug-in."""
    name = _model_in(model) if isinstance(model, str) else str(model.checkpoint or model.name)
    return MODELS.of_file(name) or next((own for own in MODELS.working() if own.is_at(name)), None)


def _model_in(spec: str) -> str:
    """The model of MODEL, MODEL+ADAPTER or server:MODEL@URL."""
    if spec.startswith("server:"):
        spec = spec.removeprefix("server:").rpartition("@")[0]
    try:
        if Path(spec).expanduser().exists():  # A folder's own name may contain a +.
            return spec
    except (OSError, RuntimeError, ValueError):
        return spec
    return spec.partition("+")[0]


def expected_model(config: BackboneConfig) -> tuple[OwnModel | None, bool]:
    """As `own_model`, before the model is loaded; and whether that is certain: it is not for a served model
    that may be a plug-in's, and for a planner that was made from one, whose base answers."""
    if config.kind == "server":
        served = f"{config.model} {config.adapter_model}"
        return None, not any(own.name in served for own in MODELS.working())
    own = own_model(config.model)
    if own is not None:
        return own, True
    try:
        planner = read_model_record(Path(config.model)).planner
    except (ConfigError, OSError, ValueError):
        planner = None
    return None, planner is None or not planner.base or own_model(planner.base) is None


def missing_folder(role: str) -> str:
    """The message for a name that is neither a folder nor a hub name. `role`: "adapter", or another."""
    if role != "adapter":
        return "there is no such folder; pass an existing one or a hub name such as Qwen/Qwen3-VL-8B-Instruct"
    shipped = ", ".join(name for own in MODELS.working() for name in own.adapters)
    return f"there is no such folder; pass an existing one, a hub name (OWNER/NAME), or one of {shipped}"


def owner_of(name: str) -> OwnModel | None:
    """The plug-in model that made what a name refers to."""
    if (of_file := MODELS.of_file(name)) is not None:
        return of_file
    try:
        return next((own for own in MODELS.working() if own.owns(name)), None)
    except OSError as error:
        # A program or a prompt, which are settings too, is longer than any file's name.
        if error.errno == errno.ENAMETOOLONG:
            return None
        raise


def check_scope(parts: Mapping[str, Any], videos: Iterable[Path]) -> None:
    """Raise ConfigError if the owner of one of `parts` cannot answer about one of `videos`. A video that is
    not there is passed over: that is another error.

    `parts`: by setting, the names that were given (in lists and mappings too), such as {"model": "pocket"}.
    """
    owned = next(((setting, name, own) for setting, name in _names(parts) if (own := owner_of(name))), None)
    if owned is None:
        return
    setting, name, own = owned
    for video in videos:
        if video.is_file() and (reason := own.refusal(setting, name, video)):
            raise ConfigError(f"{video}: {setting} {name!r} {reason}")


def _names(value: Any, setting: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, str | Path):
        yield setting, str(value)
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _names(each, setting or str(key))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _names(each, setting)


def knowing_models(video: Path) -> tuple[str, ...]:
    """The plug-ins' models that can answer about a video."""
    return tuple(own.name for own in MODELS.working() if not own.refusal("model", own.name, video))


def find_video(path: Path) -> Path:
    """The file of a video that is named as NAME:VIDEO, of a plug-in's model with its own videos; any other
    path is returned unchanged. Raises VideoProError."""
    owner, colon, name = str(path).partition(":")
    return MODELS[owner].find_video(name) if colon and owner in tuple(MODELS) else path


def lasting_name(source: str) -> str:
    """The name by which another command finds a model: a plug-in's, a hub name, or a folder's whole path."""
    path = Path(source).expanduser()
    if not path.is_dir():
        return source
    own = own_model(str(path))
    return own.name if own is not None else str(path.resolve())
