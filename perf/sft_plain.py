"""The plain TRL baseline of perf/sft.py: frames as images, TRL's own collator.

Follows TRL's documentation of vision fine-tuning: prompt, completion and a list of images per row, decoded by
`datasets` when a row is read.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from datasets import Dataset, Features, Image, List, Value
from transformers import AutoModelForImageTextToText, AutoProcessor
from trl import ModelConfig, SFTConfig, SFTTrainer, TrlParser, get_peft_config

LANGUAGE = r".*language_model\.layers\.\d+\..*\.(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)"


@dataclass
class PlainSFTArguments:
    """The rows and their frames."""

    train_data: str = field(metadata={"help": "sft.jsonl, with frames/ beside it"})
    frames: int = field(metadata={"help": "frames per video"})
    pixels: int = field(metadata={"help": "maximum pixels per frame"})


def main() -> None:
    parser = TrlParser((PlainSFTArguments, SFTConfig, ModelConfig))  # type: ignore[arg-type]
    rows, training, model_settings = parser.parse_args_and_config()
    path = Path(rows.train_data)
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    training.max_length = None
    training.remove_unused_columns = False
    processor = AutoProcessor.from_pretrained(model_settings.model_name_or_path)
    processor.image_processor.size = {"shortest_edge": 32 * 32, "longest_edge": rows.pixels}
    features = Features(
        {
            "prompt": [{"role": Value("string"), "content": Value("string")}],
            "completion": [{"role": Value("string"), "content": Value("string")}],
            "images": List(Image()),
        }
    )

    def row(line: dict) -> dict:  # type: ignore[type-arg]
        user, reply = (message["content"] for message in line["messages"])
        folder = path.parent / "frames" / Path(line["videos"][0]).stem
        return {
            "prompt": [{"role": "user", "content": user.removeprefix("<video>")}],
            "completion": [{"role": "assistant", "content": reply}],
            "images": [str(path) for path in sorted(folder.glob("*.jpg"))],
        }

    model_settings.lora_target_modules = LANGUAGE
    trainer = SFTTrainer(
        model=AutoModelForImageTextToText.from_pretrained(
            str(model_settings.model_name_or_path), dtype=model_settings.dtype
        ),
        args=training,
        train_dataset=Dataset.from_list([row(line) for line in lines], features=features),
        processing_class=processor,
        peft_config=get_peft_config(model_settings),
    )
    trainer.train()
    trainer.save_state()


if __name__ == "__main__":
    main()
