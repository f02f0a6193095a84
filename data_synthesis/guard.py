"""The guard of a synthesis: it keeps out questions that are for evaluation, and videos of evaluation splits
of any benchmark, unless they are declared as training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from videopro.benchmarks import BENCHMARKS, CG_BENCH_FILES, Benchmark, Item, downloaded
from videopro.data_synthesis.decontamination import (
    MINI,
    EvaluationVideo,
    EvaluationVideos,
    HeldOutQuestions,
    comparable,
    evaluation_videos,
    find_evaluation_videos,
    mini_questions,
    set_aside,
)
from videopro.data_synthesis.question_settings import QuestionSettings
from videopro.data_synthesis.questions import QuestionSelection
from videopro.errors import ConfigError

MINI_QUESTION = f"question of {MINI}"
HELD_OUT_TEXT = "text of a held-out question"
SET_ASIDE = "video set aside for evaluation"
EVALUATION_VIDEO = "video of an evaluation split"
TRAINED_VIDEO = "video that the planner was fine-tuned on"


class DecontaminationGuard:
    """Keeps evaluation data out, before anything is asked and before anything is written."""

    def __init__(
        self, config: QuestionSettings, source: Benchmark, trained: EvaluationVideos | None = None
    ) -> None:
        """`trained`: videos that the planner in question was fine-tuned on; they are left out."""
        self.trained = trained or EvaluationVideos()
        self.skip = config.evaluation == "skip"
        mini = _mini(config)
        # Its questions are of the same benchmark: they are known one by one, so the other questions about
        # the same videos stay. A video of another benchmark's test set goes with all its questions.
        self.questions = HeldOutQuestions() if mini is None else mini_questions(mini)
        self.excluded = evaluation_videos(
            config.exclude, cg_bench=mini if config.cg_bench_mini == "videos" else None
        )
        self._texts = self.questions.texts | self.excluded.texts
        # Of files that the user names, only their content counts.
        kind = BENCHMARKS[config.source]
        self.seeds = kind.drawn_from(source.split, config.world_seed) if config.root is None else {}
        self.set_aside: frozenset[str] = frozenset()
        if config.held_out_videos is not None:
            self.set_aside = set_aside(source.items, config.held_out_videos, config.seed)

    def allowed(
        self,
        selection: QuestionSelection,
        limit: int | None = None,
        ids: Sequence[str] = (),
        *,
        make_videos: bool = True,
    ) -> list[Item]:
        """The questions to ask: `QuestionSelection.select` of those that are for training. The others are
        counted, or refused. Videos that are made on demand are made here, since their content is unknown
        before, unless `make_videos` is false."""
        fetch = selection.benchmark.fetch if make_videos else None
        self._hold_questions_out(selection)
        if self.trained:
            self._leave_out(selection, TRAINED_VIDEO, self.trained, selection.filters.items)
        if self.skip:
            self._leave_out(selection, EVALUATION_VIDEO, self.excluded, selection.filters.items)
        items = selection.select(limit=limit, ids=ids)
        if not self.skip:
            self._refuse(selection, find_evaluation_videos(items, self.excluded, self.seeds))
        while fetch is not None and items:
            fetch(items)
            splits = find_evaluation_videos(items, self.excluded, self.seeds)
            trained = find_evaluation_videos(items, self.trained, {})
            if not splits and not trained:
                break
            if not self.skip:
                self._refuse(selection, splits)
            # Others take their places, so that a limit is the number of questions that are asked.
            if trained:
                self._leave_out(selection, TRAINED_VIDEO, self.trained, items)
            self._leave_out(selection, EVALUATION_VIDEO, self.excluded, items)
            items = selection.select(limit=limit, ids=ids)
        if not items:
            mini = (
                ", or --cg-bench-mini training if CG-Bench mini is for training" if self.questions.ids else ""
            )
            raise ConfigError(
                f"{selection.benchmark.name}: no question is left to ask ({selection.filters.summary()}); "
                f"pass another split or source{mini}"
            )
        return items

    def held_out(self, question_id: str, text: str, video_key: str) -> str | None:
        """Which filter leaves out a question, other than one of the videos of evaluation splits."""
        if question_id in self.questions.ids:
            return MINI_QUESTION
        if self._texts and comparable(text) in self._texts:
            return HELD_OUT_TEXT
        return SET_ASIDE if video_key in self.set_aside else None

    def _hold_questions_out(self, selection: QuestionSelection) -> None:
        reasons = {
            item.id: self.held_out(item.id, item.question.text, item.video_key)
            for item in selection.filters.items
        }
        for name, applies in (
            (MINI_QUESTION, self.questions.ids),
            (HELD_OUT_TEXT, self._texts),
            (SET_ASIDE, self.set_aside),
        ):
            if applies:
                selection.filters.remove(name, partial(_is_for, reasons, name))

    def _leave_out(
        self, selection: QuestionSelection, name: str, videos: EvaluationVideos, items: Sequence[Item]
    ) -> None:
        splits = find_evaluation_videos(items, videos, self.seeds)

        def reason(item: Item) -> str | None:
            video = splits.get(item.video_key)
            return None if video is None else video.reason

        selection.filters.remove(name, reason)

    def _refuse(self, selection: QuestionSelection, splits: dict[str, EvaluationVideo]) -> None:
        if not splits:
            return
        key, video = sorted(splits.items())[0]
        more = f" (and {len(splits) - 1} more videos)" if len(splits) > 1 else ""
        mini = " (to hold out only its questions: --cg-bench-mini questions)" if MINI in str(video) else ""
        raise ConfigError(
            f"{selection.benchmark.name}: video {key!r} is {video}, which is for evaluation{more}; pass "
            f"another split or source, or skip such videos with --evaluation skip{mini}"
        )


def _is_for(reasons: Mapping[str, str | None], name: str, item: Item) -> bool:
    return reasons[item.id] == name


def _mini(config: QuestionSettings) -> Path | None:
    """The folder with CG-Bench mini's annotations, where its questions matter."""
    if config.source != "cg_bench" or config.root is None or config.cg_bench_mini == "training":
        return None
    root = downloaded(config.root, "cg_bench")
    folder = root if root.is_dir() else root.parent
    if not (folder / CG_BENCH_FILES["mini"]).exists():
        raise ConfigError(
            f"cg_bench: {folder / CG_BENCH_FILES['mini']} is missing, but it lists the evaluation questions; "
            "put it there, or pass --cg-bench-mini training"
        )
    return folder
