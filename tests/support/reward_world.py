"""Rows about the minute of coloured scenes, and rewards over its modules, for tests of GRPO's rewards.

`make` gives the rewards, `row`, `rows` and `checked` what they score, and `score` calls them as TRL does,
with a `MetricRecorder` for its hooks. The right answer to the question is B (red): the red scene gives B
with 0.9, the whole video D (grey) with 0.4.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.support.scenes import QUESTION, SceneBackbone, SceneIndex, video
from videopro.backbones import MODELS
from videopro.modules.library import VideoContext, shared_cache
from videopro.modules.loading import ModuleModels, ModuleSettings
from videopro.train.rewards import ProgramRewards, RewardRow, read_row


class SceneModels(ModuleModels):
    """The scenes' own index; notes the videos whose contexts were made."""

    def __init__(self) -> None:
        super().__init__(ModuleSettings(), answering=MODELS["pocket"])
        self.index = SceneIndex()
        self.made: list[Path] = []

    def context(self, video: Any, backbone: Any, subtitles: Any, without: Any = ()) -> VideoContext:
        self.made.append(video.path)
        return VideoContext(video, backbone, subtitles=subtitles, index=self.index, without=without)


def make(
    backbone: SceneBackbone | None = None, models: ModuleModels | None = None, **settings: Any
) -> ProgramRewards:
    """Rewards over the scenes, with empty caches."""
    shared_cache().clear()
    return ProgramRewards(backbone or SceneBackbone(), modules=models or SceneModels(), **settings)


def row(**changes: Any) -> dict[str, Any]:
    """An adaptive prompt's row whose oracle mode is "program"."""
    asked = {"question": QUESTION.text, "choices": list(QUESTION.choices), "answer": "B"}
    about = {"id": "q1/plan", "video": str(video().path), "subtitles": None}
    return {**about, **asked, "kind": "plan", "oracle_mode": "program", **changes}


def checked(**changes: Any) -> RewardRow:
    """The same row as our trainer passes it on."""
    return read_row(row(**changes), "test")


def rows(count: int, **changes: Any) -> list[dict[str, Any]]:
    """The same row so many times, as TRL repeats it for a group."""
    return [row(**changes) for _ in range(count)]


class MetricRecorder:
    """What TRL's logging hooks received."""

    def __init__(self) -> None:
        self.metrics: list[tuple[str, float]] = []
        self.columns: dict[str, list[Any]] = {}

    def log_metric(self, name: str, value: float) -> None:
        self.metrics.append((name, value))

    def log_extra(self, name: str, values: list[Any]) -> None:
        self.columns.setdefault(name, []).extend(values)


def score(
    rewards: ProgramRewards,
    given: list[dict[str, Any]],
    replies: list[Any],
    recorder: MetricRecorder | None = None,
    step: int = 7,
) -> list[tuple[float | None, ...]]:
    """(accuracy, format, mode consistency) of each reply, asked for as TRL does."""
    columns: dict[str, Any] = {name: [row[name] for row in given] for name in given[0]}
    if recorder is not None:
        columns |= {"log_metric": recorder.log_metric, "log_extra": recorder.log_extra}
    ids = [list(range(10 * (i + 1))) for i in range(len(replies))]
    columns |= {"prompts": ["?"] * len(replies), "completions": replies, "completion_ids": ids}
    columns |= {"trainer_state": SimpleNamespace(global_step=step)}
    return list(zip(*(function(**columns) for function in rewards.functions), strict=True))
