"""What the stages of a reproduction share: its benchmarks, files, models and adapters, and how its commands
are set and started."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from videopro.backbones import model_needs, read_spec
from videopro.cli import Need, config_file, merged, read_yaml
from videopro.commands.reproduce.parts import Part, Size, parts_of
from videopro.commands.reproduce.settings import ABLATIONS, NONE, ReproduceConfig, given
from videopro.commands.reproduce.stages import STAGES, TRAININGS, Command, Stage
from videopro.modules import PAPER, WHISPER, part_needs, resolve_speech


class Road:
    """A reproduction with these settings."""

    def __init__(self, config: ReproduceConfig, present: Sequence[str]) -> None:
        """`present`: the GPUs of this machine that this process sees, as CUDA_VISIBLE_DEVICES names them.
        Raises ConfigError for unknown names."""
        self.config = config
        self.present = len(present)
        self.gpus = gpus = len(present) if config.gpus is None else config.gpus
        self.devices = (*present[:gpus], *map(str, range(len(present), gpus)))
        """The names of the GPUs that are used; of those that are missing, their numbers."""
        self.placed = (",".join(self.devices),) if gpus < len(present) else None
        """The GPUs that a command sees, if not all that this process sees. An engine starts on each GPU that
        it sees, and transformers trains on all of them at once."""
        self.processes = config.processes or max(gpus, 1)
        self.output = config.output
        self.after_sft = config.sft_adapter or (str(self.output / "sft") if config.trains_sft else "")
        """The adapter after SFT; "" if there is none."""
        self.after_grpo = config.grpo_adapter or (str(self.output / "grpo") if config.trains_grpo else "")
        """The adapter after GRPO; "" if there is none."""
        self.has_both = bool(self.after_grpo and self.after_sft)
        self.sizes: dict[Part, Size] = {}
        self.tested = parts_of(config.benchmarks, config.data)
        (self.source,) = parts_of([config.source], config.data)
        self.ablated = [part for part in self.tested if part.folder in ABLATIONS]
        long = [part for part in self.tested if (part.name, part.split) == ("videomme", "long")]
        self.lengths = [replace(part, split=length) for part in long for length in ("short", "medium")]
        """What Figure 5 has beyond Table 1: the other lengths of Video-MME."""

    def benchmarks(self) -> list[Part]:
        """Every benchmark whose files are needed."""
        is_asked = any(self.config.makers.values()) and self.source not in self.tested
        return [*([self.source] if is_asked else []), *self.tested]

    def modules(self) -> dict[str, str]:
        """The models behind the modules by part, as settings name them; parts that none names are left out.
        Speech is always named: if unset and this machine has no Whisper model, one is downloaded."""
        modules, speech = self.config.modules, str(self.config.modules.get("speech", "whisper"))
        resolved = resolve_speech(speech)
        if (speech, resolved) == ("whisper", "none"):
            resolved = f"whisper:{WHISPER[0]}"
        named = {**(PAPER if modules.get("preset") == "paper" else {}), **modules, "speech": resolved}
        return {part: str(named[part]) for part in PAPER if named.get(part)}

    def backbone_needs(self) -> list[Need]:
        """Needs of the backbone and of adapters made elsewhere."""
        config = self.config
        adapters = ({"adapter": each} for each in (config.sft_adapter, config.grpo_adapter) if each)
        specs = [read_spec(config.model, **settings) for settings in (config.backbone, *adapters)]
        return list(dict.fromkeys(need for spec in specs for need in model_needs(spec)))

    def module_needs(self, parts: Collection[str] = tuple(PAPER)) -> list[Need]:
        """Needs of the models behind these module parts."""
        named = {part: name for part, name in self.modules().items() if part in parts}
        # A tracker that links the detector's boxes is not a separate model.
        return part_needs({part: name for part, name in named.items() if name != "detector"})

    def size(self, part: Part) -> Size:
        """How large a benchmark is. It is counted once."""
        if part not in self.sizes:
            self.sizes[part] = part.size()
        return self.sizes[part]

    def step_of(self, settings: Mapping[str, Any]) -> int:
        """The rows, or replies, of a training's step."""
        batch = int(settings.get("per_device_train_batch_size", 8))
        return self.processes * batch * int(settings.get("gradient_accumulation_steps", 1))

    def synthesis_settings(self) -> dict[str, Any]:
        """The settings of `videopro synthesize`."""
        config = self.config
        # Without a teacher, the backbone writes its own programs: it was never taught the modules.
        base = {"programs": 0, **({"reference": "full"} if config.makers["sft"] else {})}
        if config.synthesis != NONE:
            base = read_yaml(config_file(Path(config.synthesis), "synthesis"))
        own: dict[str, Any] = {
            "source": config.source,
            "root": str(self.source.root),
            "model": config.model,
            "backbone": config.backbone,
            **config.modules,
            # A video that a benchmark tests on teaches nothing; of the source, its questions are held out.
            "exclude": [
                f"{part.name}/{part.split}:{part.root}"
                for part in (*self.tested, *self.lengths)
                if part.name != config.source
            ],
        }
        # Programs for rows that no stage reads are not paid for. The division of the videos does not change,
        # since the rows in place of them may be of an earlier synthesis.
        reads = {"programs": config.makers["sft"], "grpo_programs": config.makers["grpo"] == "synthesize"}
        if merged(base, config.synthesize).get("grpo_programs") is not None:
            own |= {name: 0 for name, is_read in reads.items() if not is_read}
        return merged(base, own, config.synthesize, {"output": str(self.output / "synthesis")})

    def infer_settings(
        self, part: Part, run: Mapping[str, Any], adapter: str, output: Path
    ) -> dict[str, Any]:
        """The settings of `videopro infer` for a run of stages.yaml on a benchmark."""
        config = self.config
        own = {
            "benchmark": part.name,
            **part.settings,
            "model": config.model,
            "method": run["method"],
            "backbone": {**given(frames=part.frames), **config.backbone, **given(adapter=adapter)},
            "options": config.modules,
            **given(limit=config.limit),
        }
        settings = merged(own, config.infer, {"options": run.get("options", {}), "output": str(output)})
        return settings if run["method"] != "native" else {**settings, "options": {}}

    def stage(self, name: str, *commands: Command, **more: Any) -> Stage:
        """A stage with these commands, as stages.yaml describes it; `more` is about this reproduction."""
        row = STAGES[name.partition("-")[0]]
        started = tuple(self._started(command, row.get("starts", "once")) for command in commands)
        writes = tuple(self.output / path for path in row.get("writes", ()))
        about = {"does": row.get("does"), "after": tuple(row.get("after", ())), "writes": writes, **more}
        return Stage(name, commands=started, **about)

    def command(self, name: str, settings: Mapping[str, Any], file: str = "") -> Command:
        """A command whose settings are written into `configs/FILE.yaml` of the output; without a FILE, it has
        the command's name."""
        return Command(name, settings=settings, file=self.output / "configs" / f"{file or name}.yaml")

    def rows(self, training: str, maker: str) -> str:
        """The file of rows for a training that a stage makes."""
        return str(self.output / next(each for each in STAGES[maker]["writes"] if f"/{training}." in each))

    def _started(self, command: Command, how: str) -> Command:
        """A command as its stage starts it: once; on each of the GPUs, which share its work; or by accelerate
        in every process, where a single answering process needs no launcher."""
        is_training = command.name in TRAININGS
        if how == "once":
            return command
        if how == "gpus":
            return replace(command, gpus=self.devices if self.gpus > 1 else self.placed)
        if self.processes == 1 and not is_training:
            return replace(command, gpus=self.placed)
        way = "multi_gpu" if self.processes > 1 else "one_gpu" if self.gpus else "one_cpu"
        way = (is_training and self.config.accelerate) or way
        # What the config says of a GPU's precision does not hold on a CPU.
        precision = () if self.gpus else ("--mixed_precision", "no")
        # Port 0: a free one, so that two reproductions do not meet.
        processes = ("--num_processes", str(self.processes), "--main_process_port", "0")
        flags = ("--config_file", str(config_file(Path(way), "accelerate")), *precision, *processes)
        alone = self.processes == 1 and self.gpus > 1
        return replace(command, launch=flags, gpus=self.devices[:1] if alone else self.placed)
