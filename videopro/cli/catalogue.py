"""The commands of `videopro`, by name: where each one is defined, what it does, and an example.

A table of texts, so that `videopro --help` imports no model library. A command's settings
(`videopro.cli.command_line.CommandLine`) and `main` are in its module.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass


@dataclass(frozen=True)
class Command:
    """A command, or one of a group of commands such as `benchmarks check`."""

    name: str
    module: str
    """Has `main(argv) -> int`; in a group of commands, `argv` starts with the last word of the name."""
    summary: str
    examples: tuple[str, ...]
    settings: str = ""
    """module:NAME of its `CommandLine`, if its own module needs an extra or imports model libraries; --help
    reads this one."""

    def help_examples(self, count: int | None = None) -> str:
        """The examples for --help: indented, in lines of 80 characters that you can copy."""
        lines = []
        for example in self.examples[:count]:
            # A flag stays on the line of its value.
            joined = re.sub(r"(--\S+) ", r"\1\0", example)
            wrapped = textwrap.wrap(
                joined, 74, break_long_words=False, break_on_hyphens=False, subsequent_indent="    "
            )
            wrapped = [line.replace("\0", " ") for line in wrapped]
            lines.append(" \\\n".join(f"    {line}" for line in wrapped) + "\n")
        return "".join(lines)


_ANSWER = (
    Command(
        "ask",
        "videopro.commands.ask.command",
        "Ask one question about a video file.",
        (
            'videopro ask video.mp4 "What happens?" --model server:Qwen/Qwen3-VL-8B-Instruct@http://localhost:8000/v1',
            'videopro ask video.mp4 "What does she pick up?" --choices "a cup" "a book" '
            "--model Qwen/Qwen3-VL-2B-Instruct",
            'videopro ask pocket:test/long_013 "At the temple there is a sign. What does it say?" '
            "--choices TOYS RADIO BOOKS OPEN --model pocket",
        ),
    ),
    Command(
        "serve",
        "videopro.commands.serve",
        "Answer questions about videos on a web page and over an OpenAI-compatible HTTP API. Everyone with "
        "access can see, stop and delete everything.",
        (
            "videopro serve --model Qwen/Qwen3-VL-8B-Instruct --folders videos",
            "videopro serve --model server:Qwen/Qwen3-VL-8B-Instruct@http://localhost:8000/v1",
            "videopro serve --model pocket",
        ),
    ),
    Command(
        "mcp",
        "videopro.commands.mcp",
        "Give the videos of a folder to any client of the Model Context Protocol.",
        (
            "videopro mcp videos",
            "videopro mcp videos --model server:Qwen/Qwen3-VL-8B-Instruct@http://localhost:8000/v1 "
            "--method videopro",
            "videopro mcp videos --modules encoder=languagebind --transport http",
        ),
    ),
    Command(
        "infer",
        "videopro.commands.infer",
        "Answer a benchmark's questions with a method and a model, and write a run folder.",
        (
            "videopro infer --benchmark pocket --method native --model pocket --output runs/native",
            "videopro infer --config folder --output runs/mine",
        ),
    ),
    Command(
        "compare",
        "videopro.commands.compare",
        "Run several methods on a benchmark and compare them, or compare finished runs.",
        (
            "videopro compare runs/native runs/videopro",
            "videopro compare --config pocket --output runs/compare",
        ),
    ),
    Command(
        "index",
        "videopro.commands.index",
        "Embed the clips of videos so that programs can search them, or search one video.",
        (
            'videopro index pocket:test/long_013 --encoder pocket --query "a ring at the beach"',
            "videopro index FOLDER --encoder languagebind",
        ),
    ),
    Command(
        "transcribe",
        "videopro.commands.transcribe",
        "Transcribe videos without subtitles, for every method to read.",
        (
            "videopro transcribe video.mp4 --language en --write srt",
            "videopro transcribe --benchmark lvbench --root DATA/lvbench "
            "--speech whisper:openai/whisper-large-v3-turbo",
        ),
    ),
    Command(
        "select-agents",
        "videopro.commands.select_agents",
        "Choose LVAgent's agents by pseudo-labels, without gold answers.",
        (
            "videopro select-agents --library pocket+pocket-lv-looks pocket+pocket-lv-times "
            "pocket+pocket-lv-words --benchmark pocket --split val --output runs/team",
        ),
    ),
)
_LOOK = (
    Command(
        "calibrate",
        "videopro.commands.calibrate",
        "Find from which confidence on a method's answers are wrong at most as often as you allow.",
        ("videopro calibrate runs/val --output calibration.json",),
    ),
    Command(
        "view",
        "videopro.commands.view",
        "Browse the traces of runs as pages, live while runs are in progress.",
        ("videopro view runs/videopro --open", "videopro view runs/videopro --port 8080"),
    ),
    Command(
        "report",
        "videopro.commands.report",
        "Make tables and figures from finished runs, or export a run to another harness.",
        (
            "videopro report runs/native runs/videopro --output runs/report",
            "videopro report runs/videopro --export inspect --output logs",
        ),
    ),
    Command(
        "seeds",
        "videopro.commands.seeds",
        "Compare methods or trained models over several seeds, with intervals over questions and seeds.",
        ('videopro seeds "native=runs/native" "SFT=runs/sft-0,runs/sft-1" --final last --fallback none',),
    ),
)
_BENCHMARKS = (
    Command(
        "benchmarks list",
        "videopro.commands.benchmarks.command",
        "List the benchmarks with their splits and protocols.",
        ("videopro benchmarks list",),
    ),
    Command(
        "benchmarks check",
        "videopro.commands.benchmarks.command",
        "Report which files of a benchmark exist and which are missing.",
        ("videopro benchmarks check videomme --root DIR",),
    ),
    Command(
        "benchmarks judge",
        "videopro.commands.benchmarks.command",
        "Grade the open answers of a run with a judge model.",
        ("videopro benchmarks judge runs/mmbench --judge server:MODEL@URL",),
    ),
    Command(
        "benchmarks submit",
        "videopro.commands.benchmarks.command",
        "Write the file that an evaluation server accepts.",
        ("videopro benchmarks submit runs/egoschema --output answers.json",),
    ),
    Command(
        "benchmarks combine",
        "videopro.commands.benchmarks.command",
        "Compute CG-Bench's metrics over runs of several of its tasks.",
        ("videopro benchmarks combine --long runs/long --clue runs/clue --miou runs/miou",),
    ),
    Command(
        "models",
        "videopro.commands.models",
        "List the models, planners, encoders and methods that the other commands accept.",
        ("videopro models",),
    ),
    Command(
        "doctor",
        "videopro.commands.doctor",
        "Show what a run would use on this machine, and what is missing or broken.",
        ("videopro doctor", "videopro doctor --json"),
    ),
)
_TRAIN = (
    Command(
        "synthesize",
        "videopro.data_synthesis.run",
        "Make training data: run a teacher's programs and keep the correct ones.",
        (
            "videopro synthesize --config pocket --output runs/synth",
            "videopro synthesize --source pocket --teacher pocket-teacher --model pocket --output runs/synth",
        ),
    ),
    Command(
        "sft",
        "videopro.train.sft",
        "Fine-tune a planner on trajectories. On several GPUs: accelerate launch -m videopro.train.sft.",
        ("videopro sft --config pocket --train_data runs/synth/sft.jsonl --output_dir runs/sft",),
        settings="videopro.train.settings:SFT",
    ),
    Command(
        "grpo",
        "videopro.train.grpo",
        "Train a planner with GRPO. On several GPUs: accelerate launch -m videopro.train.grpo.",
        (
            "videopro grpo --config pocket --adapter runs/sft --train_data runs/synth/grpo.jsonl "
            "--output_dir runs/grpo",
        ),
        settings="videopro.train.settings:GRPO",
    ),
    Command(
        "rejection",
        "videopro.train.rejection",
        "Sample programs from a planner and keep the correct ones as fine-tuning rows.",
        (
            "videopro rejection --model pocket --adapter runs/sft --data runs/synth/grpo.jsonl "
            "--output runs/own.jsonl",
        ),
        settings="videopro.train.settings:REJECTION",
    ),
    Command(
        "prompts",
        "videopro.commands.prompts.command",
        "Make prompts for GRPO without a teacher, or add oracle modes to rows.",
        (
            "videopro prompts --source pocket --model pocket --adapter runs/sft --output runs/prompts",
            "videopro prompts --rows train_grpo.jsonl --model Qwen/Qwen3-VL-8B-Instruct --output runs/modes",
        ),
        settings="videopro.commands.prompts.settings:PROMPTS",
    ),
    Command(
        "merge",
        "videopro.train.merge",
        "Merge an adapter into its base model and write a plain checkpoint.",
        ("videopro merge --base Qwen/Qwen3-VL-8B-Instruct --adapter runs/sft --output runs/sft-merged",),
        settings="videopro.train.settings:MERGE",
    ),
    Command(
        "reproduce",
        "videopro.commands.reproduce.command",
        "Reproduce the paper: from the official files to its tables, stage by stage.",
        (
            "videopro reproduce --config paper --plan",
            "videopro reproduce --config one-gpu --output runs/one-gpu",
        ),
    ),
    Command(
        "asp-clip",
        "videopro.train.retrieval.asp_clip",
        "Train ASP-CLIP, LVAgent's retriever, on caption-video pairs.",
        ("videopro asp-clip --config asp_clip_longvr --output runs/asp-clip",),
        settings="videopro.train.retrieval.settings:ASP_CLIP",
    ),
)
_PUBLISH = (
    Command(
        "push",
        "videopro.commands.publishing.push",
        "Upload an adapter, a planner, a dataset or a run to the hub, with a card from its records.",
        (
            "videopro push runs/sft OWNER/NAME --results runs/videopro",
            "videopro push runs/synth OWNER/NAME --dry-run",
        ),
    ),
    Command(
        "pull",
        "videopro.commands.publishing.pull",
        "Download an adapter, a planner, a dataset or a run from the hub, and verify it.",
        (
            "videopro pull OWNER/NAME planner",
            "videopro pull OWNER/NAME@v1 programs --videos FOLDER",
        ),
    ),
)
_SHELL = (
    Command(
        "completion",
        "videopro.commands.completion",
        "Print a script that completes commands and settings in bash, zsh or fish.",
        ("videopro completion bash > ~/.local/share/bash-completion/completions/videopro",),
    ),
)

GROUPS = {
    "Answer": _ANSWER,
    "Look at runs": _LOOK,
    "Benchmarks and models": _BENCHMARKS,
    "Train": _TRAIN,
    "Publish": _PUBLISH,
    "Shell": _SHELL,
}
"""The commands under the headings of `videopro --help`."""

COMMANDS = {command.name: command for commands in GROUPS.values() for command in commands}
