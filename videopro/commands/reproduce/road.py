"""What the stages of a reproduction share: its benchmarks, files, models and adapters, and how its commands
are set and started."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from videopro.backbones import model_needs, read_spec
from videopro.benchmarks import BENCHMARKS
from videopro.cli import Need, config_file, read_yaml
from videopro.commands.reproduce.parts import Part, Size, parts_of
from videopro.commands.reproduce.settings import ReproduceConfig
from videopro.commands.reproduce.stages import STAGES, Command, Stage
from videopro.data_synthesis.settings import SynthesisConfig
from videopro.errors import ConfigError
from videopro.modules import PAPER, WHISPER, part_needs, resolve_speech


class Road:
    """A reproduction with these settings."""

    def __init__(self, config: ReproduceConfig, present: Sequence[str]) -> None:
        """`present`: the GPUs of this machine that this process sees, as CUDA_VISIBLE_DEVICES names them.
        Raises ConfigError for unknown names."""
        self.config = config
        self.present = len(present)
        self.gpus = gpus = len(present) if config.gpus is None else config.gpus
        self.devices = [*present[:gpus], *map(str, range(len(present), gpus))]
        """The names of the GPUs that are used; of those that are missing, their numbers."""
        self.processes = config.processes or max(gpus, 1)
        self.output = config.output
        self.sizes: dict[Part, Size] = {}
        self.tested = parts_of(config.benchmarks)
        ablated = {part.folder for part in parts_of(config.ablation_benchmarks)}
        unknown = ablated - {part.folder for part in self.tested}
        if unknown:
            raise ConfigError(
                f"ablation_benchmarks: {', '.join(sorted(unknown))} is not one of the benchmarks "
                f"({', '.join(part.folder for part in self.tested)})"
            )
        self.ablated = [part for part in self.tested if part.folder in ablated]
        self.lengths = [
            replace(part, split=length)
            for part in self.tested
            for length in ("short", "medium")
            if (part.name, part.split) == ("videomme", "long")
        ]
        """What Figure 5 has beyond Table 1: the other lengths of Video-MME."""

    @property
    def after_sft(self) -> str:
        """The adapter after SFT; "" if there is none."""
        return self.config.sft_adapter or (str(self.output / "sft") if self.config.trains_sft else "")

    @property
    def has_both(self) -> bool:
        """Whether there are an adapter after SFT and one after GRPO."""
        return bool(self.after_grpo and self.after_sft)

    @property
    def after_grpo(self) -> str:
        """The adapter after GRPO; "" if there is none."""
        return self.config.grpo_adapter or (str(self.output / "grpo") if self.config.trains_grpo else "")

    def benchmarks(self) -> list[Part]:
        """Every benchmark whose files are needed."""
        source, tested = self.config.source, [part.name for part in self.tested]
        asks = self.config.makes_sft_rows or self.config.makes_grpo_rows
        added = parts_of([source]) if asks and source not in tested else []
        return [part for part in (*added, *self.tested) if part.has_files]

    def root(self, part: Part) -> Path:
        """The folder of a benchmark's files."""
        return self.config.data / part.folder

    def excluded(self, part: Part) -> str:
        """A benchmark whose videos are excluded from training, in the form of a synthesis's `exclude`."""
        return f"{part.name}/{part.split}:{self.root(part)}"

    def modules(self) -> dict[str, str]:
        """The models behind the modules by part, as settings name them; parts that none names are left
        out."""
        modules = self.config.modules
        named = {**(PAPER if modules.get("preset") == "paper" else {}), **modules, "speech": self.speech}
        return {part: str(named[part]) for part in PAPER if named.get(part)}

    @property
    def speech(self) -> str:
        """The model that transcribes videos without subtitles, as settings of the modules name it; "none": no
        transcripts. If unset and this machine has no Whisper model, one is downloaded."""
        name = str(self.config.modules.get("speech", "whisper"))
        if not self.benchmarks():
            return "none"
        resolved = resolve_speech(name)
        return f"whisper:{WHISPER[0]}" if (name, resolved) == ("whisper", "none") else resolved

    def backbone_needs(self) -> list[Need]:
        """Needs of the backbone and of adapters made elsewhere."""
        config = self.config
        needs = list(model_needs(read_spec(config.model, **config.backbone)))
        for adapter in filter(None, (config.sft_adapter, config.grpo_adapter)):
            needs += model_needs(read_spec(config.model, adapter=adapter))
        return list(dict.fromkeys(needs))

    def module_needs(self, parts: Collection[str] = tuple(PAPER)) -> list[Need]:
        """Needs of the models behind these module parts."""
        # A tracker that links the detector's boxes is not a separate model.
        return part_needs(
            {part: name for part, name in self.modules().items() if part in parts and name != "detector"}
        )

    def is_downloaded(self, part: Part) -> bool:
        """Whether a benchmark's files are downloaded from the hub rather than put there by hand."""
        folder = self.root(part)
        return bool(part.repositories) and (
            not folder.exists() or (folder / ".cache" / "huggingface").exists()
        )

    def size(self, part: Part) -> Size:
        """How large a benchmark is. It is counted once."""
        if part not in self.sizes:
            self.sizes[part] = part.size(self.root(part) if part.has_files else None)
        return self.sizes[part]

    def step_of(self, settings: Mapping[str, Any]) -> int:
        """The rows, or replies, of a training's step."""
        batch = int(settings.get("per_device_train_batch_size", 8))
        return self.processes * batch * int(settings.get("gradient_accumulation_steps", 1))

    def planner_writes(self, kind: str) -> str:
        """The stage in which a planner, not a teacher, makes the rows for a training; "" if there is none."""
        config = self.config
        if kind == "sft":
            return "rejection" if config.makes_sft_rows and not config.has_teacher else ""
        return "prompts" if config.makes_grpo_rows and config.grpo_prompts == "planner" else ""

    @property
    def own_programs(self) -> Path:
        """The backbone's own correct programs, which are the SFT rows without a teacher."""
        return self.output / "rejection" / "sft.jsonl"

    def synthesis_settings(self) -> dict[str, Any]:
        """The settings of `videopro synthesize`."""
        config = self.config
        base = read_yaml(config_file(Path(config.synthesis), "synthesis")) if config.has_teacher else {}
        spec = BENCHMARKS[config.source]
        source = {"root": str(config.data / spec.name)} if spec.needs_root else {}
        return {
            **base,
            "source": config.source,
            **source,
            "model": config.model,
            "backbone": {**base.get("backbone", {}), **config.backbone},
            **config.modules,
            **self._programs({**base, **config.synthesize}),
            # A video that a benchmark tests on teaches nothing; of the source, its questions are held out.
            "exclude": [
                self.excluded(part)
                for part in (*self.tested, *self.lengths)
                if part.has_files and part.name != config.source
            ],
            **config.synthesize,
            "output": str(self.output / "synthesis"),
        }

    def _programs(self, synthesis: Mapping[str, Any]) -> dict[str, Any]:
        """How many programs the synthesis asks for, where its config does not decide. Those for rows that no
        stage reads are not paid for; the division of the videos does not change, since the rows in place of
        them may be of an earlier synthesis."""
        config = self.config
        if not config.has_teacher:
            # Who is asked for its own programs was never taught the modules.
            taught = {} if not config.makes_sft_rows else {"reference": "full"}
            return {"programs": 0, **taught}
        if synthesis.get("sft_share") is None:
            return {}  # each question gives rows of both kinds
        if not config.makes_sft_rows:
            number = synthesis.get("grpo_programs")
            if number is None:
                number = synthesis.get("programs", SynthesisConfig.programs)
            return {"programs": 0, "grpo_programs": number}
        if not config.makes_grpo_rows or config.grpo_prompts == "planner":
            return {"grpo_programs": 0}
        return {}

    def infer_settings(
        self, part: Part, method: str, adapter: str, options: Mapping[str, Any], output: Path
    ) -> dict[str, Any]:
        """The settings of `videopro infer` for a method on a benchmark."""
        config = self.config
        backbone = dict(config.backbone)
        further = dict(config.infer)
        for_programs = {**config.modules, **further.pop("options", {}), **options}
        if part.frames is not None:
            backbone.setdefault("frames", part.frames)
        if adapter:
            backbone["adapter"] = adapter
        return {
            "benchmark": part.name,
            "split": part.split,
            **({"protocol": part.protocol} if part.protocol else {}),
            **({"root": str(self.root(part))} if part.has_files else {}),
            "model": config.model,
            "method": method,
            "backbone": backbone,
            "options": {} if method == "native" else for_programs,
            **({"limit": config.limit} if config.limit is not None else {}),
            **further,
            "output": str(output),
        }

    def stage(self, name: str, *commands: Command, **more: Any) -> Stage:
        """A stage with these commands, as stages.yaml describes it; `more` is about this reproduction."""
        row = STAGES[name.partition("-")[0]]
        writes = tuple(self.output / path for path in row.get("writes", ()))
        given = {"does": row.get("does"), "after": tuple(row.get("after", ())), "writes": writes, **more}
        return Stage(name, commands=commands, **given)

    def command(self, name: str, file: str, settings: Mapping[str, Any], **more: Any) -> Command:
        """A command whose settings are written into `configs/FILE.yaml` of the output."""
        path = self.output / "configs" / f"{file}.yaml"
        return Command(name, settings=settings, file=path, gpus=self.placed, **more)

    @property
    def placed(self) -> tuple[str, ...] | None:
        """The GPUs that commands see; None: all that this process sees. An engine starts on each GPU that it
        sees, and transformers trains on all of them at once."""
        return tuple(self.devices) if self.gpus < self.present else None

    def shared(self, command: Command) -> Command:
        """The command on each GPU; those started share its work."""
        return replace(command, gpus=tuple(self.devices), on_each_gpu=True) if self.gpus > 1 else command

    def launched(self, name: str, file: str, settings: Mapping[str, Any], *, trains: bool = True) -> Command:
        """A command that accelerate launches in every process. A single answering process needs no
        launcher."""
        command = self.command(name, file, settings)
        if not trains and self.processes == 1:
            return command
        way = self.config.accelerate if trains else ""
        if not way:
            way = "multi_gpu" if self.processes > 1 else "one_gpu" if self.gpus else "one_cpu"
        flags = ["--config_file", str(config_file(Path(way), "accelerate"))]
        if not self.gpus:
            # What the config says of a GPU's precision does not hold on a CPU.
            flags += ["--mixed_precision", "no"]
        # Port 0: a free one, so that two reproductions do not meet.
        flags += ["--num_processes", str(self.processes), "--main_process_port", "0"]
        alone = self.processes == 1 and self.gpus > 1
        return replace(command, launch=tuple(flags), gpus=(self.devices[0],) if alone else command.gpus)
