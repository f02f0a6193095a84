"""Measures how well a model in training plans. On held-out questions it writes programs with its adapter on;
they run with the executor and modules of inference, and its base (the adapter off) answers inside them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, replace
from pathlib import Path
from typing import Any

from accelerate.utils import gather_object, is_peft_model
from transformers import Trainer
from trl.models import unwrap_model_for_generation

from videopro import benchmarks, methods
from videopro.backbones import Backbone, folder_fingerprint
from videopro.backbones.qwen import Checkpoint, LoadedModel, QwenBackbone
from videopro.backbones.wrappers import Meter
from videopro.benchmarks import ROBUST, Benchmark, Item, Protocol
from videopro.cli import build_settings
from videopro.errors import QUESTION_ERRORS, DatasetError, NativeError, failure_lines, unexpected_as
from videopro.methods import AdaptiveMethod, Method, MethodContext, answer_each
from videopro.methods.program import ReasoningSettings
from videopro.modules import json_flag
from videopro.question import right_letters
from videopro.storage import read_json_lines, write_atomically
from videopro.traces import ReferenceForm, Result, failed_result
from videopro.traces.scoring import Mode, PlanRecord, oracle_mode, plan_record, planning_metrics
from videopro.train.rewards import read_row
from videopro.video import Video


@dataclass(frozen=True)
class EvalQuestions:
    """Questions by video, and the oracle mode (A.3) of those that came with one."""

    items: tuple[Item, ...]
    protocol: Protocol
    oracle: Mapping[str, Mode]

    def by_video(self) -> list[list[Item]]:
        """The questions grouped by video, in the order in which the videos first appear."""
        groups: dict[str, list[Item]] = {}
        for item in self.items:
            groups.setdefault(item.video_key, []).append(item)
        return list(groups.values())


def load_eval_questions(spec: str, *, limit: int | None, seed: int) -> EvalQuestions:
    """The questions that a setting names: FILE.jsonl, a folder, or "pocket:SPLIT". At most `limit` are taken,
    by whole videos in a random order given by `seed`. Raises DatasetError or BenchmarkError, naming the fix.
    """
    oracle: dict[str, Mode] = {}
    if spec.startswith("pocket:"):
        benchmark = benchmarks.load("pocket", split=spec.removeprefix("pocket:"))
    elif Path(spec).is_dir():
        benchmark = benchmarks.load("jsonl", root=Path(spec))
    else:
        benchmark, oracle = _read(Path(spec))
    items = benchmark.select(limit=limit, seed=seed)
    nameless = next((item for item in items if item.answer is None), None)
    if nameless is not None and nameless.question.is_open:
        raise DatasetError(
            f"{spec}: question {nameless.id!r} is open-ended, but planners are evaluated on multiple-choice "
            "questions; add 'choices' and 'answer', or remove it"
        )
    if nameless is not None:
        raise DatasetError(f"{spec}: question {nameless.id!r} has no answer; add one, or remove it")
    # Only now, and only for the questions that were drawn.
    if benchmark.fetch is not None:
        benchmark.fetch(items)
    return EvalQuestions(tuple(items), benchmark.protocol, oracle)


def _read(path: Path) -> tuple[Benchmark, dict[str, Mode]]:
    items: list[Item] = []
    oracle: dict[str, Mode] = {}
    for _, where, record in read_json_lines(
        path, "a grpo.jsonl, a folder with questions.jsonl, or pocket:SPLIT"
    ):
        # The other kinds are later prompts about the same questions.
        if record.get("kind", "plan") != "plan":
            continue
        if "question" not in record:
            raise DatasetError(
                f"{where}: no column 'question'; eval_questions takes a grpo.jsonl of videopro synthesize, "
                "or rows with its columns id, video, question, choices and answer"
            )
        row = read_row({"kind": "plan", **record}, where, folder=path.parent)
        items.append(
            Item(
                id=row.id,
                video=row.video,
                video_key=record["video"],
                question=row.question,
                answer=row.answer,
                subtitles=row.subtitles,
                subtitle_track=row.subtitle_track,
                groups={"family": record["family"]} if record.get("family") else {},
            )
        )
        if row.oracle_mode is not None:
            oracle[row.id] = row.oracle_mode
    if not items:
        raise DatasetError(f"{path}: no questions of kind 'plan'")
    return Benchmark(name=str(path), split="", items=items, protocol=Protocol(parser=ROBUST)), oracle


def in_memory(checkpoint: Checkpoint, model: Any, *, frames: int, pixels: int) -> LoadedModel:
    """A checkpoint whose model is in training, without its adapter, as a backbone takes it."""
    identity = {
        "kind": "qwen",
        "model": Path(checkpoint.source).name,
        "weights": folder_fingerprint(checkpoint.folder),
        "adapter": None,
        "dtype": str(model.dtype).removeprefix("torch."),
        "frames": frames,
        "pixels": pixels,
    }
    return LoadedModel(model, None, checkpoint.processor, frames, pixels, identity)


@dataclass
class ProgramEvaluation:
    """Measures a trainer's model on held-out questions, which the ranks share out by video.

    Planning is greedy and adaptive, without refinement. Missing oracle modes are determined once, from the
    base's native answers (A.3). The base is the model with its adapter off, or what a merged planner records;
    a model trained without either has no base to ask. Not for FSDP, whose ranks hold shards of the weights.
    Raises ConfigError for unknown modules.
    """

    held_out: EvalQuestions
    checkpoint: Checkpoint
    _: KW_ONLY
    frames: int
    pixels: int
    modules: Mapping[str, Any]
    fallback: str
    """The fallback for programs without an answer, as in inference."""
    max_new_tokens: int
    log: Path
    """Folder to which each evaluation writes its results per question, as JSON lines."""
    modules_setting: str = "eval_modules"
    """The setting that holds `modules`, for messages."""
    prompts: Mapping[str, str] | None = None
    """The texts of the user's prompts; None: the default prompts."""
    reference: ReferenceForm = "none"
    """How the rows' prompts describe the modules."""
    nearest_intact: float = 0.0
    """As of `Video.open`."""

    def __post_init__(self) -> None:
        prompts = self.prompts
        options = {
            **({"planner_prompt": "short"} if prompts is None else {"prompts": dict(prompts)}),
            # Without a reference a planner with its own prompts is asked as by default.
            **({} if self.reference == "none" else {"reference": self.reference}),
            "temperature": 0.0,
            "max_new_tokens": self.max_new_tokens,
            "fallback": self.fallback,
            **self.modules,
        }
        self._planner = AdaptiveMethod(build_settings(AdaptiveMethod.Settings, options, "method adaptive"))
        self._planner.flag_without_model = json_flag(self.modules_setting)
        # A.3 asks the base for a direct answer, whose correctness and confidence decide the mode.
        self._native = methods.create("native", {})
        self._oracle: dict[str, Mode] = dict(self.held_out.oracle)
        self._backbone: QwenBackbone | None = None

    def __call__(self, trainer: Trainer) -> dict[str, float]:
        """The metrics of `planning_metrics` over all ranks' questions; the same on every rank."""
        accelerator = trainer.accelerator
        own_share = self.held_out.by_video()[accelerator.process_index :: accelerator.num_processes]
        # Already parsed by TrainingArguments.
        checkpointing: Any = trainer.args.gradient_checkpointing_kwargs
        with unwrap_model_for_generation(
            trainer.model_wrapped,
            accelerator,
            gradient_checkpointing_kwargs=checkpointing,
        ) as model:
            was_training = model.training
            model.eval()
            try:
                backbone = self._around(model)
                # Module calls are cached per model: the base's stay valid, those of the trained model do not.
                backbone.mark_retrained(f"{self.log}, step {trainer.state.global_step}")
                planned = [record for items in own_share for record in self._video(items, backbone)]
            finally:
                model.train(was_training)
        gathered = [PlanRecord(**fields) for fields in gather_object([asdict(record) for record in planned])]
        if accelerator.is_main_process:
            self._keep(gathered, trainer.state.global_step)
        return planning_metrics(gathered)

    def _around(self, model: Any) -> QwenBackbone:
        """The model as a backbone: the same object at every evaluation, so that modules are loaded once."""
        if self._backbone is None:
            adapter = model if is_peft_model(model) else None
            base = model.get_base_model() if adapter is not None else model
            loaded = in_memory(self.checkpoint, base, frames=self.frames, pixels=self.pixels)
            loaded = replace(loaded, adapter=adapter, planner=self.checkpoint.planner)
            self._backbone = QwenBackbone.from_loaded(loaded, name=self.checkpoint.name)
            self._adapted = adapter is not None
        return self._backbone

    def _video(self, items: Sequence[Item], backbone: QwenBackbone) -> Iterator[PlanRecord]:
        # Once per question: training does not change the base.
        lacking = [item for item in items if item.id not in self._oracle]
        base = self._planner.answerer(backbone) if lacking else backbone
        if lacking and (self._adapted or base is not backbone):
            with base.adapter(False):
                for item, result in self._results(self._native, lacking, base):
                    if result.error is None:
                        (only,) = result.rounds
                        assert only.execution is not None
                        tau = ReasoningSettings().tau
                        right = right_letters(item.answer, item.question.choices)
                        self._oracle[item.id] = oracle_mode(only.execution, right, tau)
        for item, result in self._results(self._planner, items, backbone):
            yield plan_record(item.id, result, self._oracle, gold=item.answer, choices=item.question.choices)

    def _results(
        self, method: Method, items: Sequence[Item], backbone: Backbone
    ) -> Iterator[tuple[Item, Result]]:
        try:
            with unexpected_as(NativeError):
                video = Video.open(items[0].video, nearest_intact=self.nearest_intact)
        except QUESTION_ERRORS as error:
            yield from ((item, failed_result(error)) for item in items)
            return
        protocol = self.held_out.protocol
        yield from answer_each(method, items, lambda: MethodContext(video, backbone, protocol, meter=Meter()))

    def _keep(self, planned: Sequence[PlanRecord], step: int) -> None:
        self.log.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps(asdict(record), ensure_ascii=False) + "\n" for record in planned]
        write_atomically(self.log / f"step-{step:06d}.jsonl", "".join(lines))
        if skipped := [(record.id, "", record.error) for record in planned if record.error is not None]:
            print("evaluation: skipped questions:", *failure_lines(skipped), sep="\n", file=sys.stderr)
