"""Prompts by the processors with which Qwen3-VL and Qwen3.5 were published, for `test_published.py`.

Writes `published.json` beside it, one family at a time, from an environment with that family's first
transformers (and torch, torchvision), and the chat template of its repository on the hub:

    python tests/backbones/qwen/published.py qwen3_vl chat_template.jinja    # transformers 4.57.6
    python tests/backbones/qwen/published.py qwen3_5 chat_template.jinja     # transformers 5.9.0

Imports nothing of this project: the newest transformers, which this project needs, makes other prompts.
"""

import hashlib
import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoConfig, PreTrainedTokenizerFast
from transformers.models.qwen2_vl.image_processing_qwen2_vl import Qwen2VLImageProcessor
from transformers.models.qwen3_vl import Qwen3VLProcessor
from transformers.models.qwen3_vl.video_processing_qwen3_vl import Qwen3VLVideoProcessor
from transformers.video_utils import VideoMetadata

FILE = Path(__file__).with_suffix(".json")
SIDE = 64
"""Pixels of a frame's side: 2 x 2 tokens."""
TIMES = {"a": (0.5, 1.5, 4.0, 7.0), "b": (10.0, 10.4)}
QUESTION = "Which ring?\nA. red\nB. blue"


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def _user(*parts: dict[str, str]) -> dict[str, Any]:
    return {"role": "user", "content": [*parts, _text(QUESTION)]}


_VIDEO, _IMAGE = {"type": "video"}, {"type": "image"}
_SYSTEM = {"role": "system", "content": [_text("Be brief.")]}
CASES: dict[str, tuple[list[dict[str, Any]], str]] = {
    "image": ([_user(_IMAGE)], ""),
    "images": ([_user(_text("<0.5 seconds>"), _IMAGE, _text("<7.0 seconds>"), _IMAGE)], ""),
    "video": ([_user(_VIDEO)], "a"),
    "texts around": ([_SYSTEM, _user(_text("Look:"), _VIDEO)], "a"),
    "two videos": ([_user(_VIDEO, _text("and"), _VIDEO)], "ab"),
}
"""By name: the messages, and the videos in them."""


def tokenizer() -> Any:
    """Qwen's control tokens and the 256 bytes."""
    control = ["endoftext", "im_start", "im_end", "vision_start", "vision_end", "image_pad", "video_pad"]
    marks = [f"<|{name}|>" for name in control]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE({token: number for number, token in enumerate([*marks, *alphabet])}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(marks)
    # transformers 4 takes Qwen's class only; of both, only the object counts.
    kind: Any = PreTrainedTokenizerFast
    if transformers.__version__.startswith("4."):
        kind = transformers.Qwen2TokenizerFast
    return kind(tokenizer_object=made, eos_token="<|im_end|>", pad_token="<|endoftext|>")


def video(name: str) -> np.ndarray:
    """(frames, side, side, 3) uint8."""
    return np.full((len(TIMES[name]), SIDE, SIDE, 3), 127, dtype=np.uint8)


def config(family: str, words: Any) -> Any:
    """The family's default config with the tokenizer's ids."""
    marks = {"image": "image_pad", "video": "video_pad", "vision_start": "vision_start"}
    ids = {f"{name}_token_id": words.convert_tokens_to_ids(f"<|{mark}|>") for name, mark in marks.items()}
    # Transformers 4 has no default for it.
    rope = {"rope_type": "default", "mrope_section": [24, 20, 20], "mrope_interleaved": True}
    text = {"text_config": {"rope_scaling": rope}} if transformers.__version__.startswith("4.") else {}
    return AutoConfig.for_model(family, **text, **ids)


def main(family: str, template: str) -> None:
    """Write the prompts of a family."""
    text = Path(template).read_text(encoding="utf-8")
    words = tokenizer()
    image = Qwen2VLImageProcessor(patch_size=16)
    processor = Qwen3VLProcessor(image, words, Qwen3VLVideoProcessor(patch_size=16), chat_template=text)
    module = importlib.import_module(f"transformers.models.{family}.modeling_{family}")
    core = getattr(module, {"qwen3_vl": "Qwen3VLModel", "qwen3_5": "Qwen3_5Model"}[family])
    with torch.device("meta"):
        model = core(config(family, words))
    prompts = {}
    for case, (messages, videos) in CASES.items():
        rendered = processor.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True, enable_thinking=False
        )
        given: dict[str, Any] = {}
        if videos:
            metadata = [
                VideoMetadata(total_num_frames=len(TIMES[name]), fps=1.0, frames_indices=list(TIMES[name]))
                for name in videos
            ]
            given = {"videos": [video(name) for name in videos], "video_metadata": metadata}
            given |= {"do_sample_frames": False}
        else:
            given = {"images": [video("a")[0]] * rendered.count("<|image_pad|>")}
        made = processor(
            text=[rendered], do_resize=False, return_tensors="pt", return_mm_token_type_ids=True, **given
        )
        grids = {name: made[name] for name in ("image_grid_thw", "video_grid_thw") if name in made}
        if "mm_token_type_ids" in core.get_rope_index.__code__.co_varnames:
            grids["mm_token_type_ids"] = made["mm_token_type_ids"]
        positions, _ = model.get_rope_index(made["input_ids"], attention_mask=made["attention_mask"], **grids)
        prompts[case] = {
            "text": rendered,
            "ids": made["input_ids"][0].tolist(),
            "positions": positions[:, 0].long().tolist(),
        }
    written = json.loads(FILE.read_text()) if FILE.exists() else {}
    digest = hashlib.sha256(text.encode()).hexdigest()
    written[family] = {"transformers": transformers.__version__, "template": digest, "prompts": prompts}
    FILE.write_text(json.dumps(written, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
