"""A question about the small world of scenes, and the context in which a method answers it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.support import scenes as world
from tests.support.scenes import QUESTION, SceneBackbone
from videopro.backbones.wrappers import Meter
from videopro.benchmarks import Item, Protocol
from videopro.benchmarks.base import ROBUST
from videopro.methods import MethodContext

NO_MODELS = ("encoder=none", "text_encoder=none", "ocr=none", "detector=none", "tracker=none")


OPTIONS: dict[str, Any] = dict.fromkeys((option.split("=")[0] for option in NO_MODELS), "none")


def item(**changes: Any) -> Item:
    return replace(Item("q1", Path("unused.mp4"), "v", QUESTION, answer="B"), **changes)


def context(backbone: SceneBackbone, **options: Any) -> MethodContext:
    return MethodContext(world.video(), backbone, Protocol(parser=ROBUST), meter=Meter(), **options)
