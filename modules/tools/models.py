"""The models behind the tools, loaded once for any number of videos; and what stands in for one where an
agent brings its own: no tool that asks a model is offered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

from videopro.backbones import (
    DEFAULT_FRAMES,
    Backbone,
    check_scope,
    expected_model,
    load_backbone,
    model_needs,
    own_model,
    read_spec,
)
from videopro.backbones.wrappers import share_backbone
from videopro.cli import Need, build_settings, check_needs
from videopro.errors import BackboneError, ConfigError
from videopro.modules import (
    ModuleModels,
    ModuleSettings,
    VideoContext,
    module_needs,
)
from videopro.video import Subtitles, Video


class NoModel(Backbone):
    """A backbone that serves no request."""

    name = "none"
    frames = DEFAULT_FRAMES
    is_concurrent = True

    def identity(self) -> dict[str, object]:
        return {"model": None}

    def frame_size(self, height: int, width: int, n_frames: int) -> tuple[int, int] | None:
        return None

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise BackboneError("these tools were opened without a model; give one: models={'model': NAME}")

    answer_batch = yes_no_batch = generate_batch = chat = prefix = _refuse

    def adapter(self, enabled: bool) -> AbstractContextManager[None]:
        return nullcontext()

    def close(self) -> None:
        pass


_FLAG = 'models={{"{part}": "none"}}'
# Nothing to download for an agent that brings its own model; OCR comes with the package.
_WITHOUT_MODEL: Mapping[str, Any] = {
    **dict.fromkeys(("encoder", "text_encoder", "detector", "tracker"), "none"),
    "summarize": False,
}


def tool_settings(parts: Mapping[str, Any], *, has_model: bool) -> ModuleSettings:
    """The settings of the models behind the tools. Raises ConfigError."""
    return build_settings(ModuleSettings, parts if has_model else {**_WITHOUT_MODEL, **parts}, "models")


class ToolModels:
    """A model that answers, if there is one, and the models behind the modules. Thread-safe."""

    def __init__(
        self,
        model: str | None = None,
        *,
        backbone: Mapping[str, Any] | None = None,
        load: Callable[..., Backbone] = load_backbone,
        **parts: Any,
    ) -> None:
        """`model` as `--model` of the commands, `backbone` its settings; `parts`: those of `ModuleSettings`.
        Nothing is loaded yet but the model. Raises ConfigError or BackboneError."""
        self.model = model
        self._settings = tool_settings(parts, has_model=model is not None)
        self._backbone_settings = dict(backbone or {})
        if model is None:
            if self._backbone_settings:
                raise ConfigError("models: 'backbone' sets up a model, and none is named; give 'model' too")
            if self._settings.detector == "backbone":
                raise ConfigError(
                    "models: detector 'backbone' asks the model, and none is named; give 'model' too, or "
                    "detector=grounding-dino:NAME"
                )
        if load is load_backbone:
            needs: list[Need] = []
            expected: tuple[Any, ...] = ()
            if model is not None:
                config = read_spec(model, **self._backbone_settings)
                needs, expected = model_needs(config), expected_model(config)
            # All that is missing in one message, before gigabytes are loaded.
            check_needs([*needs, *module_needs(self._settings, *expected, flag=_FLAG)])
        # The base model answers, as in programs, unless an adapter is asked for: others are planners'.
        adapter = None if self._backbone_settings.get("adapter") else False
        self.backbone: Backbone = NoModel()
        if model is not None:
            self.backbone = share_backbone(load(model, **self._backbone_settings), adapter=adapter)
        answering = None if model is None else own_model(self.backbone)
        self.modules = ModuleModels(self._settings, answering=answering, flag=_FLAG)

    def check_video(self, path: Path) -> None:
        """Raise ConfigError for a video that one of the models would be sure of wrong answers about."""
        check_scope({**asdict(self._settings), "model": self.model, **self._backbone_settings}, [path])

    def context(self, video: Video, subtitles: Subtitles | None, *, is_indexed: bool = True) -> VideoContext:
        """The context of a video's modules; its clips are indexed if needed, unless they are not to be.
        Raises VideoProError."""
        without = ("answering",) if self.model is None else ()
        return self.modules.context(video, self.backbone, subtitles, without, is_indexed=is_indexed)

    def close(self) -> None:
        """Release the model's memory and connections."""
        self.backbone.close()


def load_models(model: str | None = None, **settings: Any) -> ToolModels:
    """The models for `open_video(..., models=...)`, loaded once for many videos. `settings`: `backbone`, the
    model's own settings, and those of the modules' models, such as `encoder`, `ocr` and `detector`. Raises
    ConfigError for an unknown one, and BackboneError for a model that cannot be loaded."""
    return ToolModels(model, **settings)


def as_models(models: ToolModels | Mapping[str, Any] | str | None) -> ToolModels:
    """The models that a caller of `open_video` names. Raises as `load_models`."""
    if isinstance(models, ToolModels):
        return models
    return load_models(**({"model": models} if models is None or isinstance(models, str) else models))
