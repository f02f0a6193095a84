"""Code shared by training runs before their first step: finding the checkpoint, decoding videos, dropping
rows with unreadable videos, and setting up the evaluation.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Generic, TypeVar

import torch
from accelerate import PartialState
from accelerate.utils import gather_object
from jinja2 import TemplateError
from trl import ModelConfig

from videopro.backbones import (
    BackboneConfig,
    ModelRecord,
    PlannerRecord,
    library_versions,
    model_needs,
    read_spec,
)
from videopro.backbones.qwen import (
    Checkpoint,
    QwenInputs,
    ResolvedRecord,
    adapter_folder,
    find_checkpoint,
    made_from,
    resolve_record,
)
from videopro.cli import Counter, Need, build_settings, cache_root, check_needs, folder_problem, tracker_needs
from videopro.errors import BackboneError, ConfigError, DatasetError, failure_lines
from videopro.methods.planners import PromptFile, prompt_notes, read_prompts
from videopro.methods.program import program_needs
from videopro.modules import ModuleSettings, json_flag
from videopro.storage import parse_json
from videopro.traces import ReferenceForm
from videopro.train.runtime.evaluation import ProgramEvaluation, load_eval_questions
from videopro.train.runtime.frame_cache import FrameCache
from videopro.train.runtime.rows import (
    R,
    RowsOfFile,
    drop_unreadable,
    reference_of,
    unreadable_lines,
)
from videopro.train.settings import TrainingConfig


def training_needs(training: TrainingConfig, model: BackboneConfig) -> list[Need]:
    """The model, the adapter and the trackers; the folder of decoded frames; and of what runs programs, the
    rewards and the evaluation: who answers, the models behind the modules, and the sandbox."""
    frames = Path(training.frame_cache) if training.frame_cache else cache_root() / "frames"
    problem = folder_problem(frames)
    needs = [
        *tracker_needs(training.report_to),
        *model_needs(model),
        Need("decoded frames", problem=problem and f"{problem}; set frame_cache to another folder"),
    ]
    name = training.MODULES
    # GRPO's rewards always run programs; fine-tuning runs those of held-out questions.
    if training.STAGE == "grpo" or training.eval_questions:
        settings = build_settings(ModuleSettings, training.mapping(name), name)
        answerer = getattr(training, "answerer", None)
        needs += program_needs(settings, model, answerer=answerer, flag=json_flag(name))
    return needs


K = TypeVar("K")
V = TypeVar("V")
RECORD = "training_record.json"


def recorded_videos(record: Path) -> dict[str, list[str]]:
    """The videos that a planner's training_record.json names; none if there is none, or of another origin."""
    try:
        videos = parse_json(record.read_text(encoding="utf-8"), infinite=True).get("videos", {})
    except (OSError, ValueError, AttributeError):
        return {}
    return {stage: list(ids) for stage, ids in videos.items()} if isinstance(videos, dict) else {}


@dataclass(frozen=True)
class TrainingSetup:
    """The model that a run starts from, and how it is shown videos (as in inference)."""

    checkpoint: Checkpoint
    adapter: str | None
    """Folder or hub name of an adapter to continue training."""
    frames: int
    pixels: int
    inputs: QwenInputs
    prompts: PromptFile | None = None
    """The user's prompts: from the settings, or from the start's training."""
    planner: PlannerRecord | None = None
    """The planner record of the start."""

    @classmethod
    def of(cls, training: TrainingConfig, model: ModelConfig) -> TrainingSetup:
        """The setup that the settings describe. Raises ConfigError or BackboneError."""
        if not model.model_name_or_path:
            raise ConfigError("model_name_or_path is missing; set it to pocket, a hub name or a folder")
        # Shipped planners have short names, as in inference.
        spec = read_spec(
            model.model_name_or_path,
            adapter=training.adapter,
            frames=training.frames,
            pixels=training.pixels,
            video_marks=training.video_marks,
        )
        check_needs(training_needs(training, spec))
        checkpoint = find_checkpoint(spec.model)
        resolved = resolve_record(spec, checkpoint)
        checkpoint = checkpoint.marked(resolved.video_marks)
        prompts, notes = _prompts(training, resolved, _who(spec.adapter, spec.model))
        if PartialState().is_main_process:
            for note in (*resolved.notes, *notes, *_idle_gpus(training)):
                print(f"warning: {note}", file=sys.stderr)
        frames, pixels = resolved.frames, resolved.pixels
        inputs = QwenInputs(checkpoint.processor, frames=frames, pixels=pixels, device=torch.device("cpu"))
        return cls(checkpoint, spec.adapter, frames, pixels, inputs, prompts, resolved.planner)

    @property
    def who(self) -> str:
        """The model or adapter that it starts from, for messages."""
        return _who(self.adapter, self.checkpoint.name)

    def trained_videos(self) -> dict[str, list[str]]:
        """The videos that the start was trained on, by stage."""
        folder = adapter_folder(self.adapter) if self.adapter else self.checkpoint.folder
        return recorded_videos(folder / RECORD)

    def reference_note(self, reference: ReferenceForm) -> str:
        """The warning if the start was trained with another reference than the rows have; empty otherwise, or
        if it was not a planner."""
        if self.planner is None or self.planner.reference == reference:
            return ""
        return (
            f"warning: the start was trained on prompts with reference={self.planner.reference}, but the "
            f"rows have reference={reference}; the trained planner will be prompted with {reference}"
        )

    def record(self, *, is_adapter: bool, reference: ReferenceForm) -> ModelRecord:
        """What the folder of the trained planner records of it. `reference`: what the prompts of its rows say
        of the modules. An adapter leaves its base when it is turned
        off; a planner that was trained as a whole names the model that answers inside its programs."""
        prompts = {} if self.prompts is None else self.prompts.texts
        planner = PlannerRecord(prompts=prompts, reference=reference)
        return ModelRecord(
            self.frames,
            self.pixels,
            self.checkpoint.as_base,
            planner if is_adapter else made_from(self.checkpoint, planner),
            library_versions(),
            self.checkpoint.video_marks,
        )

    def frame_cache(self, training: TrainingConfig) -> FrameCache:
        """The cache of decoded frames for this model."""
        # What the pixels of a frame depend on, except the video and the number of frames.
        form = f"{'video' if self.inputs.has_times else 'image'}{self.inputs.patch}-{self.pixels}"
        root = Path(training.frame_cache) if training.frame_cache else cache_root() / "frames"
        return FrameCache(
            root,
            count=self.frames,
            resize=self.inputs.frame_size,
            form=form,
            nearest_intact=training.nearest_intact,
        )

    def evaluation(self, training: TrainingConfig, reference: ReferenceForm) -> ProgramEvaluation | None:
        """The evaluation on held-out questions, if there are any, asked with the reference that the rows
        have."""
        if not training.eval_questions:
            return None
        # The first process makes or downloads the videos; the others find them.
        with PartialState().main_process_first():
            held_out = load_eval_questions(
                training.eval_questions, limit=training.eval_limit, seed=training.seed
            )
        return ProgramEvaluation(
            held_out,
            self.checkpoint,
            frames=self.frames,
            pixels=self.pixels,
            prompts=None if self.prompts is None else self.prompts.texts,
            reference=reference,
            modules=training.mapping(training.MODULES),
            modules_setting=training.MODULES,
            fallback=training.fallback,
            nearest_intact=training.nearest_intact,
            max_new_tokens=training.longest,
            log=Path(str(training.output_dir)) / "questions",
        )


@dataclass(frozen=True)
class TrainingRows(Generic[R]):
    """Rows to train on and to evaluate on, and the reason for each dropped row, by its id, or by its file and
    line if it could not be read."""

    train: list[R]
    held_out: list[R]
    dropped: Mapping[str, str]
    lengths: Mapping[str, int] = field(default_factory=dict)
    """The number of tokens of each row, by file and line."""

    @property
    def reference(self) -> ReferenceForm:
        """How the prompts of all rows describe the modules. Raises DatasetError for rows that differ."""
        return reference_of([*self.train, *self.held_out])

    @classmethod
    def read(cls, training: TrainingConfig, read: Callable[[Path], RowsOfFile[R]]) -> TrainingRows[R]:
        """The rows of `train_data` and `eval_data`, by `read`. Prints how many were read and left out, and
        why. Raises DatasetError or ConfigError."""
        files = [read(training.train_path)]
        files += [read(Path(training.eval_data))] if training.eval_data else []
        if PartialState().is_main_process:
            for file in files:
                print(file.summary(), file=sys.stderr)
        left_out = {
            f"{file.path.name}, line {number}": reason
            for file in files
            for number, reason in file.left_out.items()
        }
        return cls(files[0].rows, files[1].rows if len(files) > 1 else [], left_out)

    def tokenized(self, count: Callable[[R], int]) -> TrainingRows[R]:
        """Tokenize the texts of every row, shared among the ranks; `count` returns how many tokens a row has.
        Raises DatasetError, naming the first rows, if there are some that cannot be trained on: they would
        stop the training at their step, and again each time that it is resumed."""
        state, rows = PartialState(), [*self.train, *self.held_out]
        # Each rank a share: a million rows take minutes to tokenize.
        own_share = rows[state.process_index :: state.num_processes]
        counted: dict[str, int] = {}
        faults: dict[str, str] = {}
        with Counter("tokenizing rows", len(own_share), visible=state.is_main_process) as counter:
            for row in own_share:
                try:
                    counted[row.where] = count(row)
                except BackboneError as error:
                    faults[row.where] = str(error)
                except TemplateError as error:
                    faults[row.where] = f"the model's chat template rejects it ({error}); remove the row"
                counter.advance()
        lengths, wrong = _on_all_ranks(counted), _on_all_ranks(faults)
        if wrong:
            named = ((row.where, "", wrong[row.where]) for row in rows if row.where in wrong)
            raise DatasetError("\n".join(("rows cannot be trained on:", *failure_lines(named))))
        return replace(self, lengths=lengths)

    def decoded(self, cache: FrameCache, workers: int) -> TrainingRows[R]:
        """Decode every video, and drop and print the rows whose video cannot be read. Raises DatasetError if
        no row is left."""
        state = PartialState()
        videos = {row.video: None for row in (*self.train, *self.held_out) if row.video is not None}
        own_share = list(videos)[state.process_index :: state.num_processes]
        with Counter("decoding videos", len(own_share), visible=state.is_main_process) as counter:
            failed = cache.prepare(own_share, workers=workers, on_done=counter.advance)
        failures = _on_all_ranks(failed)
        train, dropped = drop_unreadable(self.train, failures)
        held_out: list[R] = []
        if self.held_out:
            held_out, more = drop_unreadable(self.held_out, failures)
            dropped += more
        if dropped and state.is_main_process:
            print(f"{len(dropped)} rows dropped, as their videos cannot be read:", file=sys.stderr)
            for line in unreadable_lines(dropped, failures, f"{RECORD} of the output folder"):
                print(line, file=sys.stderr)
        # For the record: who compares two runs sees which rows each was trained on.
        names = {row.id: failures[row.video] for row in dropped if row.video is not None}
        return replace(self, train=train, held_out=held_out, dropped={**self.dropped, **names})


def _who(adapter: str | None, model: str) -> str:
    return f"adapter {adapter!r}" if adapter else f"model {model!r}"


def _prompts(
    training: TrainingConfig, start: ResolvedRecord, who: str
) -> tuple[PromptFile | None, tuple[str, ...]]:
    """The user's prompts, and a note if the settings' prompts differ from the start's."""
    recorded = start.planner
    if training.prompts is not None:
        prompts = read_prompts(training.prompts)
        return prompts, tuple(prompt_notes(who, recorded, "auto", prompts))
    # A planner that was trained on other prompts than ours is asked with those when its training continues.
    if recorded is None or not recorded.prompts:
        return None, ()
    return PromptFile(recorded.prompts, f"recorded by {who}"), ()


def _idle_gpus(training: TrainingConfig) -> list[str]:
    """A note for a process that trains alone, and sees more GPUs than it uses."""
    state, seen = PartialState(), torch.cuda.device_count()
    is_alone = state.num_processes == 1 and state.device.type == "cuda"
    if not is_alone or seen == 1 or getattr(training, "engine_gpus", None):
        return []
    return [
        f"this process trains on the first of {seen} GPUs; to use all, start it with accelerate launch -m "
        f"videopro.train.{training.STAGE}, or bash launch/{training.STAGE}.sh"
    ]


def _on_all_ranks(own: Mapping[K, V]) -> dict[K, V]:
    """The results of all ranks, each for its share."""
    return {key: value for part in gather_object([own]) for key, value in part.items()}
