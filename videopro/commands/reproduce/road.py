"""The stages from a benchmark's files to the paper's tables, in their order.

VideoPro, section 3.6 (two stages of training) and section 4 (four benchmarks; Tables 1 to 5, Figures 2, 4
and 5).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from videopro.backbones import model_needs, read_spec
from videopro.benchmarks import PRESETS, default_split, name_of
from videopro.cli import Need, config_file, read_yaml
from videopro.commands.reproduce.settings import ReproduceConfig
from videopro.commands.reproduce.stages import DOWNLOAD, Command, Stage, in_shards, on_each_gpu
from videopro.data_synthesis.question_settings import QuestionSettings
from videopro.errors import ConfigError
from videopro.modules import PAPER, WHISPER, part_needs, resolve_speech
from videopro.modules.calls import REMOVABLE

REFINE_BELOW = 0.9
"""Refinements are stored up to this confidence, so that Figure 4 needs no run for each threshold."""


@dataclass(frozen=True)
class Part:
    """A benchmark as it is asked: its split and protocol, and frames a call."""

    name: str
    split: str
    protocol: str
    frames: int | None

    @property
    def folder(self) -> str:
        """Its folder in that of the data, and in that of a run."""
        return name_of(self.name)


def protocol(part: Part) -> tuple[str, ...]:
    """The flag for a benchmark's protocol, if it is not the default."""
    return ("--protocol", part.protocol) if part.protocol else ()


def parts_of(names: Sequence[str]) -> list[Part]:
    """The benchmarks of these names. Those of a preset are asked as the preset says, also by their own names
    (Video-MME in its long group). Raises ConfigError for one that is named twice."""
    preset = {name: (split, protocol) for name, split, protocol in PRESETS["videopro"][0]}
    parts: dict[str, Part] = {}
    for given in names:
        for name in preset if given == "videopro" else (given,):
            split, protocol = preset.get(name, (default_split(name), ""))
            frames = PRESETS["videopro"][1] if name in preset else None
            part = Part(name, split, protocol, frames)
            if part.folder in parts:
                raise ConfigError(f"benchmark {part.folder!r} is given twice; name it once")
            parts[part.folder] = part
    return list(parts.values())


class Road:
    """The stages that the settings ask for."""

    def __init__(self, config: ReproduceConfig, present: int) -> None:
        """`present`: GPUs of this machine. Raises ConfigError for names that do not exist."""
        self.config = config
        self.present = present
        self.gpus = gpus = present if config.gpus is None else config.gpus
        self.processes = config.processes or max(gpus, 1)
        self.output = config.output
        self.tested = parts_of(config.benchmarks)
        ablated = {part.folder for part in parts_of(config.ablation_benchmarks)}
        unknown = ablated - {part.folder for part in self.tested}
        if unknown:
            raise ConfigError(
                f"ablation_benchmarks: {', '.join(sorted(unknown))} is not one of the benchmarks "
                f"({', '.join(part.folder for part in self.tested)})"
            )
        self.ablated = [part for part in self.tested if part.folder in ablated]

    @property
    def after_sft(self) -> str:
        """The adapter after SFT; "" if the road has none."""
        config = self.config
        if config.sft_adapter:
            return config.sft_adapter
        return str(self.output / "sft") if config.trains_sft else ""

    @property
    def after_grpo(self) -> str:
        """The adapter after GRPO; "" if the road has none."""
        config = self.config
        if config.grpo_adapter:
            return config.grpo_adapter
        return str(self.output / "grpo") if config.trains_grpo else ""

    def stages(self) -> list[Stage]:
        """All stages, those that `--only`, `--start` and `--until` leave out too."""
        runs = list(self._runs())
        return [
            *self._downloads(),
            *self._preparations(),
            *self._rows(),
            *self._training(),
            *runs,
            self._report(runs),
        ]

    # ---- files -------------------------------------------------------------------------------------------

    def benchmarks(self) -> list[Part]:
        """Every benchmark whose files the road needs."""
        parts = list(self.tested)
        asks = self.config.makes_sft_rows or self.config.makes_grpo_rows
        if asks and self.config.source not in [part.name for part in parts]:
            parts.insert(0, Part(self.config.source, default_split(self.config.source), "", None))
        return [part for part in parts if part.name != "pocket"]

    def _tested_files(self) -> list[Part]:
        """The benchmarks that are tested on, but for the one that trains: its own questions are held out."""
        return [part for part in self.tested if part.name not in ("pocket", self.config.source)]

    def root(self, part: Part) -> Path:
        """The folder of a benchmark's files."""
        return self.config.data / part.folder

    @property
    def encoder(self) -> str:
        """The encoder of clips, as settings of the modules name it; "" if none is named."""
        modules = self.config.modules
        usual = PAPER["encoder"] if modules.get("preset") == "paper" else ""
        return str(modules.get("encoder", usual))

    @property
    def speech(self) -> str:
        """What transcribes videos without subtitles, as settings of the modules name it; "none": they stay
        without. Where the choice is this machine's and it has no Whisper, one is downloaded."""
        name = str(self.config.modules.get("speech", "whisper"))
        if not self.config.transcripts or not self.benchmarks():
            return "none"
        resolved = resolve_speech(name)
        return f"whisper:{WHISPER[0]}" if (name, resolved) == ("whisper", "none") else resolved

    def backbone_needs(self) -> list[Need]:
        """The backbone, and adapters made elsewhere."""
        config = self.config
        needs = list(model_needs(read_spec(config.model, **config.backbone)))
        for adapter in filter(None, (config.sft_adapter, config.grpo_adapter)):
            needs += model_needs(read_spec(config.model, adapter=adapter))
        return list(dict.fromkeys(needs))

    def module_needs(self, parts: Collection[str] = tuple(PAPER)) -> list[Need]:
        """The models behind the modules that are these parts."""
        modules = self.config.modules
        named = {**(PAPER if modules.get("preset") == "paper" else {}), **modules, "speech": self.speech}
        # A tracker that links the detector's boxes is no model of its own.
        return part_needs(
            {part: str(named[part]) for part in parts if named.get(part, "detector") != "detector"}
        )

    def is_downloaded(self, benchmark: str) -> bool:
        """Whether a benchmark's files are those that the hub's client brings, rather than put there by hand.
        `benchmark`: its folder."""
        folder = self.config.data / benchmark
        return benchmark in self.config.downloads and (
            not folder.exists() or (folder / ".cache" / "huggingface").exists()
        )

    def _downloads(self) -> Iterator[Stage]:
        commands = [
            Command(
                DOWNLOAD,
                (
                    "download",
                    repository,
                    "--repo-type",
                    "dataset",
                    "--local-dir",
                    str(self.config.data / name),
                ),
            )
            for name, repository in self.config.downloads.items()
            if name in [part.folder for part in self.benchmarks()] and self.is_downloaded(name)
        ]
        needs = [*self.backbone_needs(), *self.module_needs()]
        models = dict.fromkeys(need.hub for need in needs if need.hub)
        commands += [Command(DOWNLOAD, ("download", name)) for name in models]
        if commands:
            yield Stage("download", "what the hub has: models, and the data that is named", tuple(commands))
        checks = [
            Command(
                "benchmarks check",
                (
                    part.name,
                    "--root",
                    str(self.root(part)),
                    "--split",
                    part.split,
                    *protocol(part),
                    "--unpack",
                ),
            )
            for part in self.benchmarks()
        ]
        if checks:
            yield Stage("check", "unpacks archives; every file of the benchmarks is there", tuple(checks))

    def _preparations(self) -> Iterator[Stage]:
        parts = self.benchmarks()
        speech = ("--speech", str(self.config.modules["speech"])) if "speech" in self.config.modules else ()
        if self.speech != "none":
            commands = tuple(
                command
                for part in parts
                for command in in_shards(
                    Command(
                        "transcribe",
                        (
                            "--benchmark",
                            part.name,
                            "--split",
                            part.split,
                            "--root",
                            str(self.root(part)),
                            *speech,
                        ),
                    ),
                    self.gpus,
                )
            )
            yield Stage(
                "transcribe", "speech of videos without subtitles", commands, in_parallel=self.gpus > 1
            )
        encoder = self.encoder
        if encoder not in ("", "none", "auto") and parts:
            dtype = self.config.modules.get("encoder_dtype")
            flags = ("--encoder", encoder, *(("--dtype", str(dtype)) if dtype else ()))
            commands = tuple(
                command
                for part in parts
                for command in in_shards(Command("index", (str(self.root(part)), *flags)), self.gpus)
            )
            yield Stage("index", "embeds the clips of every video", commands, in_parallel=self.gpus > 1)

    # ---- training ----------------------------------------------------------------------------------------

    def _rows(self) -> Iterator[Stage]:
        config, folder = self.config, self.output / "synthesis"
        if not config.makes_sft_rows and not (config.makes_grpo_rows and config.grpo_prompts == "teacher"):
            return
        command = self._command("synthesize", "synthesize", self.synthesis_settings())
        yield Stage(
            "synthesize",
            "rows for SFT and prompts for GRPO: a teacher's programs, run and judged"
            if config.has_teacher
            else "questions as prompts, each with the mode that is enough for it; no teacher",
            on_each_gpu(command, self.gpus),
            writes=(folder / "sft.jsonl", folder / "grpo.jsonl"),
            in_parallel=self.gpus > 1,
        )
        if config.makes_sft_rows and not config.has_teacher:
            settings = {
                "model": config.model,
                "answerer": config.model,
                "data": str(folder / "grpo.jsonl"),
                "output": str(self.own_programs),
                "modules": dict(config.modules),
            }
            yield Stage(
                "rejection",
                "rows for SFT: the backbone's own right programs",
                (self._command("rejection", "rejection", settings),),
                after=("synthesize",),
                writes=(self.own_programs,),
            )

    @property
    def own_programs(self) -> Path:
        """The backbone's own right programs, which are the rows for SFT without a teacher."""
        return self.output / "rejection" / "sft.jsonl"

    def synthesis_settings(self) -> dict[str, Any]:
        """The settings of `videopro synthesize`."""
        config = self.config
        base = read_yaml(config_file(Path(config.synthesis), "synthesis")) if config.has_teacher else {}
        native = {} if config.has_teacher else {"programs": 0}
        source = {} if config.source == "pocket" else {"root": str(config.data / name_of(config.source))}
        return {
            **base,
            "source": config.source,
            **source,
            "model": config.model,
            "backbone": {**base.get("backbone", {}), **config.backbone},
            **config.modules,
            **native,
            # A video that any of the benchmarks tests on teaches nothing.
            "exclude": [f"{part.name}/{part.split}:{self.root(part)}" for part in self._tested_files()],
            **config.synthesize,
            "output": str(self.output / "synthesis"),
        }

    def _prompts(self, name: str, folder: Path, adapter: str = "") -> Command:
        config = self.config
        # Which questions are asked, and which must not be, is one decision for both stages.
        shared = {field.name for field in fields(QuestionSettings)}
        settings = {
            **{key: value for key, value in self.synthesis_settings().items() if key in shared},
            **({"adapter": adapter} if adapter else {}),
            **({"sft_data": config.sft_data} if config.sft_data else {}),
            "modules": dict(config.modules),
            "output": str(folder),
        }
        return self._launched("prompts", name, settings, trains=False)

    def _training(self) -> Iterator[Stage]:
        config = self.config
        if config.trains_sft:
            made = self.output / "synthesis" / "sft.jsonl" if config.has_teacher else self.own_programs
            rows = config.sft_data or str(made)
            settings = {
                **read_yaml(config_file(Path(config.sft), "sft")),
                "model_name_or_path": config.model,
                **config.sft_settings,
                "train_data": rows,
                "output_dir": str(self.output / "sft"),
            }
            yield Stage(
                "sft",
                "fine-tunes an adapter on the rows",
                (self._launched("sft", "sft", settings),),
                after=("synthesize", "rejection"),
                writes=(self.output / "sft" / "adapter_config.json",),
            )
        if config.trains_grpo:
            rows = config.grpo_data or str(self.output / "synthesis" / "grpo.jsonl")
            if config.makes_grpo_rows and config.grpo_prompts == "planner":
                prompts = self.output / "prompts"
                rows = str(prompts / "grpo.jsonl")
                yield Stage(
                    "prompts",
                    "prompts for GRPO: questions, and what the planner got wrong or was unsure of",
                    (self._prompts("prompts", prompts, self.after_sft),),
                    after=("sft",),
                    writes=(prompts / "grpo.jsonl",),
                )
            settings = {
                **read_yaml(config_file(Path(config.grpo), "grpo")),
                "model_name_or_path": config.model,
                **config.grpo_settings,
                **({"adapter": self.after_sft} if self.after_sft else {}),
                **({"modules": dict(config.modules)} if config.modules else {}),
                "train_data": rows,
                "output_dir": str(self.output / "grpo"),
            }
            yield Stage(
                "grpo",
                "makes programs with the right answer more likely (Eq. 3)",
                (self._launched("grpo", "grpo", settings),),
                after=("synthesize", "sft", "prompts"),
                writes=(self.output / "grpo" / "adapter_config.json",),
            )
        adapter = self.after_grpo or self.after_sft
        if config.merge and adapter:
            folder = self.output / "merged"
            arguments = ("--base", config.model, "--adapter", adapter, "--output", str(folder))
            yield Stage(
                "merge",
                "the last adapter in a plain checkpoint",
                (Command("merge", arguments),),
                after=("sft", "grpo"),
                writes=(folder / "config.json",),
            )

    # ---- evaluation --------------------------------------------------------------------------------------

    def _runs(self) -> Iterator[Stage]:
        tables, final = set(self.config.tables), self.after_grpo or self.after_sft
        whole = tables & {"1", "5", "figures"}
        yield self._run("native", "direct answers of the backbone", "native", self._parts(whole))
        stores = {"refine_below": REFINE_BELOW}
        yield self._run(
            "videopro", "adaptive programs, refined", "videopro", self._parts(whole), final, stores
        )
        if "2" in tables:
            yield self._run("program", "multi-step programs (Table 2)", "program", self.ablated, final)
        has_both = bool(self.after_grpo and self.after_sft)
        if has_both and tables & {"3", "4"}:
            about = "the planner after SFT (Tables 3 and 4)"
            yield self._run("sft", about, "videopro", self.ablated, self.after_sft, stores)
        if "3" in tables:
            for group in REMOVABLE:
                yield self._run(
                    f"without-{group}",
                    f"the planner after SFT without the modules of {group} (Table 3)",
                    "adaptive",
                    self.ablated,
                    self.after_sft or final,
                    {"without": [group]},
                )

    def _parts(self, whole: object) -> list[Part]:
        return self.tested if whole else self.ablated

    def _run(
        self,
        name: str,
        does: str,
        method: str,
        parts: Sequence[Part],
        adapter: str = "",
        options: Mapping[str, Any] | None = None,
    ) -> Stage:
        folder = self.output / "runs" / name
        commands = []
        for part in parts:
            settings = self.infer_settings(part, method, adapter, options or {})
            settings["output"] = str(folder / part.folder)
            commands.append(self._launched("infer", f"infer-{name}-{part.folder}", settings, trains=False))
        written = tuple(folder / part.folder / "summary.json" for part in parts)
        trained = ("sft", "grpo") if adapter else ()
        return Stage(f"infer-{name}", does, tuple(commands), after=trained, writes=written)

    def infer_settings(
        self, part: Part, method: str, adapter: str, options: Mapping[str, Any]
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
            **({} if part.name == "pocket" else {"root": str(self.root(part))}),
            "model": config.model,
            "method": method,
            "backbone": backbone,
            "options": {} if method == "native" else for_programs,
            **({"limit": config.limit} if config.limit is not None else {}),
            **further,
        }

    def _report(self, runs_before: Sequence[Stage]) -> Stage:
        runs, final = self.output / "runs", self.after_grpo
        has_both = bool(final and self.after_sft)
        tables = set(self.config.tables)
        arguments = [str(runs / "native")]
        if has_both:
            arguments.append(f"SFT + GRPO={runs / 'videopro'}")
            if tables & {"3", "4"}:
                arguments.append(f"SFT={runs / 'sft'}")
        else:
            arguments.append(str(runs / "videopro"))
        arguments += [str(runs / "program")] if "2" in tables else []
        arguments += [str(runs / f"without-{group}") for group in REMOVABLE] if "3" in tables else []
        report = self.output / "report"
        command = Command(
            "report",
            (*arguments, "--published", "--title", "Reproduction of VideoPro", "--output", str(report)),
        )
        return Stage(
            "report",
            "tables and figures beside the paper's",
            (command,),
            after=tuple(stage.name for stage in runs_before),
            writes=(report / "report.html",),
        )

    # ---- commands ----------------------------------------------------------------------------------------

    def _command(self, name: str, file: str, settings: Mapping[str, Any]) -> Command:
        return Command(name, settings=settings, file=self.output / "configs" / f"{file}.yaml")

    def _launched(self, name: str, file: str, settings: Mapping[str, Any], *, trains: bool = True) -> Command:
        """A command that accelerate starts in every process. One process that answers needs no launcher."""
        command = self._command(name, file, settings)
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
        return Command(name, settings=settings, file=command.file, launch=tuple(flags))
