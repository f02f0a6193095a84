"""The plain TRL baseline of perf/grpo.py: frames as images, programs run by a reward function that caches
nothing.

Follows TRL's documentation of GRPO for vision-language models: a prompt and a list of images per row, TRL's
own sampling (transformers' generate with its cache), a reward function that is called when all replies are
there. Programs run in this project's executor with this project's modules; the video is opened for each
reply, and a copy of the base model answers inside them. With `--remember true` the reward function caches
opened videos, results of equal programs, and module calls.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from datasets import Dataset, Features, Image, List, Value
from peft import PeftModel
from transformers import AutoModelForImageTextToText, AutoProcessor
from trl import GRPOConfig, GRPOTrainer, ModelConfig, TrlParser

from videopro.backbones import MODELS, load_backbone, read_spec
from videopro.backbones.qwen import find_checkpoint
from videopro.backbones.wrappers import MeteredBackbone, ThreadMeter
from videopro.executor import Limits, parse_program
from videopro.methods.program import execute
from videopro.modules.library import VideoContext, shared_cache
from videopro.modules.loading import ModuleModels, ModuleSettings
from videopro.question import Question
from videopro.traces import Execution
from videopro.video import Video, load_subtitles


@dataclass
class PlainGRPOArguments:
    """Rows, frames and the policy."""

    train_data: str = field(metadata={"help": "grpo.jsonl, with frames/ beside it"})
    adapter: str = field(metadata={"help": "the adapter to start from"})
    pixels: int = field(metadata={"help": "maximum pixels per frame"})
    remember: bool = field(default=False, metadata={"help": "whether the reward function caches its work"})


class PlainReward:
    """0.5 for the right answer, 0.2 for a well-formed reply and 0.3 for the oracle's mode (Eq. 3)."""

    __name__ = "programs"

    def __init__(self, base: str, remember: bool) -> None:
        self._counted = ThreadMeter()
        self._backbone = MeteredBackbone(load_backbone(read_spec(base)), self._counted)
        self._models = ModuleModels(ModuleSettings(), answering=MODELS["pocket"])
        self._remember = remember
        self._contexts: dict[str, VideoContext] = {}
        self._ran: dict[tuple[str, str, str], Execution] = {}

    def __call__(self, completions: Any, **columns: Any) -> list[float]:
        return [
            self._reward(completion[0]["content"], {name: values[row] for name, values in columns.items()
                                                    if isinstance(values, list)})
            for row, completion in enumerate(completions)
        ]  # fmt: skip

    def _reward(self, reply: str, row: dict[str, Any]) -> float:
        program = parse_program(reply)
        key = (row["video"], row["question"], program.digest)
        execution = self._ran.get(key)
        if execution is None:
            if not self._remember:
                shared_cache().clear()
            question = Question(row["question"], tuple(row["choices"]))
            execution, _ = execute(
                program, question, self._context(row), limits=Limits(), thread_meter=self._counted
            )
            if self._remember:
                self._ran[key] = execution
        right = execution.answer.letter == row["answer"] and execution.answer.confidence > 0
        well_formed = not program.faults
        return 0.5 * right + 0.2 * well_formed + 0.3 * (well_formed and program.mode == row["oracle_mode"])

    def _context(self, row: dict[str, Any]) -> VideoContext:
        if row["video"] in self._contexts:
            return self._contexts[row["video"]]
        video = Video.open(Path(row["video"]))
        subtitles = None
        if row["subtitles"]:
            subtitles = load_subtitles(Path(row["subtitles"]), duration=video.duration)
        context = self._models.context(video, self._backbone, subtitles)
        if self._remember:
            self._contexts[row["video"]] = context
        return context


def main() -> None:
    parser = TrlParser((PlainGRPOArguments, GRPOConfig, ModelConfig))  # type: ignore[arg-type]
    options, training, model_settings = parser.parse_args_and_config()
    path = Path(options.train_data)
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    checkpoint = find_checkpoint(read_spec(str(model_settings.model_name_or_path)).model)
    # TRL wants left padding; otherwise prompts do not line up with their images.
    processor = AutoProcessor.from_pretrained(checkpoint.folder, padding_side="left")
    processor.image_processor.size = {"shortest_edge": 32 * 32, "longest_edge": options.pixels}

    def pictures(row: str) -> list[str]:
        return [str(path) for path in sorted((path.parent / "frames" / row.replace("/", "_")).glob("*.jpg"))]

    text = ("video", "subtitles", "question", "answer", "oracle_mode")
    features = Features(
        {
            "prompt": [{"role": Value("string"), "content": Value("string")}],
            "images": List(Image()),
            "choices": List(Value("string")),
            **{name: Value("string") for name in text},
        }
    )
    rows = [
        {
            "prompt": [{"role": "user", "content": line["prompt"]}],
            "images": pictures(line["id"]),
            "choices": line["choices"],
            **{name: line[name] for name in text},
        }
        for line in lines
    ]  # fmt: skip
    # TRL suppresses only one of these. A reply with another ends the run: positions are computed for an
    # image.
    visual = ["<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
    training.generation_kwargs = {"suppress_tokens": processor.tokenizer.convert_tokens_to_ids(visual)}
    model = AutoModelForImageTextToText.from_pretrained(checkpoint.folder, dtype=model_settings.dtype)
    reward: Any = PlainReward(str(model_settings.model_name_or_path), options.remember)
    trainer = GRPOTrainer(
        model=PeftModel.from_pretrained(model, options.adapter, is_trainable=True),
        args=training,
        reward_funcs=[reward],
        train_dataset=Dataset.from_list(rows, features=features),
        processing_class=processor,
    )
    trainer.train()
    trainer.save_state()


if __name__ == "__main__":
    main()
