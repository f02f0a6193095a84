"""Tiny Qwen vision-language checkpoints of the real classes, made from configs, with a tokenizer of our own.

Weights are random but larger than usual, so that differences between prompts are far above rounding.
"""

import copy
import functools
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoConfig, AutoModelForImageTextToText, AutoProcessor, PreTrainedTokenizerFast
from transformers.models.qwen2_5_vl import Qwen2_5_VLProcessor
from transformers.models.qwen2_vl.image_processing_qwen2_vl import Qwen2VLImageProcessor
from transformers.models.qwen2_vl.video_processing_qwen2_vl import Qwen2VLVideoProcessor
from transformers.models.qwen3_vl import Qwen3VLProcessor
from transformers.models.qwen3_vl.video_processing_qwen3_vl import Qwen3VLVideoProcessor
from transformers.video_utils import VideoMetadata

from videopro.backbones.base import BackboneConfig
from videopro.backbones.qwen import QwenBackbone
from videopro.question import Answer, Question
from videopro.video import Frame

PIXELS = 64 * 64
CONTROL = [
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>"),
    *("<|vision_pad|>", "<|image_pad|>", "<|video_pad|>"),
]
# In the manner of Qwen's own templates: roles between control tokens, pads for what is seen, an empty
# thinking block on request.
TEMPLATE = (
    "{%- for m in messages %}{{- '<|im_start|>' + m.role + '\\n' }}"
    "{%- if m.content is string %}{{- m.content }}{%- else %}{%- for p in m.content %}"
    "{%- if p.type == 'image' %}{{- '<|vision_start|><|image_pad|><|vision_end|>' }}"
    "{%- elif p.type == 'video' %}{{- '<|vision_start|><|video_pad|><|vision_end|>' }}"
    "{%- else %}{{- p.text }}{%- endif %}{%- endfor %}{%- endif %}{{- '<|im_end|>\\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}"
    "{%- if THINKS %}{{- '<think>\\n' }}{%- if enable_thinking is false and not FORCED %}"
    "{{- '\\n</think>\\n\\n' }}{%- endif %}{%- endif %}{%- endif %}"
)
_CORPUS = [
    "What colour is the ring? A. green B. red C. blue D. white",
    "Reply with the letter of the right option only. Yes No seconds assistant user",
    "Yes",
    "No",
    "How many rings are there? Which of them is seen after the bar? 0.5 1.0 2.5 <think> </think>",
] * 4


def template(thinks: bool = False, forced: bool = False) -> str:
    """The chat template; with `thinks` it opens a thinking block, with `forced` it never closes it."""
    return TEMPLATE.replace("THINKS", str(thinks).lower()).replace("FORCED", str(forced).lower())


def tokenizer() -> PreTrainedTokenizerFast:
    """A byte-level BPE with Qwen's control tokens."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        special_tokens=CONTROL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(_CORPUS, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=made, eos_token="<|im_end|>", pad_token="<|endoftext|>", model_max_length=100_000
    )


@dataclass(frozen=True)
class Family:
    """How to make one kind of model."""

    patch: int
    has_times: bool
    text: dict[str, Any]
    vision: dict[str, Any]


_TEXT = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 4096,
    "initializer_range": 0.2,
}
_ROPE = {"rope_type": "default", "rope_theta": 10_000.0, "mrope_section": [1, 1, 2]}
_MOE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
_LINEAR = {
    "layer_types": ["linear_attention", "full_attention"],
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "head_dim": 16,
    # Half of the head turns, as in the real models: 8 of 16 dimensions, 4 frequencies.
    "rope_parameters": {**_ROPE, "partial_rotary_factor": 0.5, "mrope_interleaved": True},
}
_VISION = {
    "depth": 2,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_heads": 2,
    "out_hidden_size": 32,
    "temporal_patch_size": 2,
    "spatial_merge_size": 2,
    "initializer_range": 0.2,
}
_SIGHT = {**_VISION, "patch_size": 16, "num_position_embeddings": 64}
_DEEP = {**_SIGHT, "deepstack_visual_indexes": [0]}
_QWEN3 = {**_TEXT, "head_dim": 8, "rope_parameters": {**_ROPE, "mrope_interleaved": True}}
_QWEN3_5_MOE = {**_TEXT, **_LINEAR, **_MOE, "shared_expert_intermediate_size": 24}
_WINDOWS = {**_VISION, "patch_size": 14, "window_size": 56, "fullatt_block_indexes": [1]}
FAMILIES: dict[str, Family] = {
    "qwen2_5_vl": Family(14, False, {**_TEXT, "rope_parameters": _ROPE}, _WINDOWS),
    "qwen3_vl": Family(16, True, _QWEN3, _DEEP),
    "qwen3_vl_moe": Family(16, True, {**_QWEN3, **_MOE}, _DEEP),
    "qwen3_5": Family(16, True, {**_TEXT, **_LINEAR}, _SIGHT),
    "qwen3_5_moe": Family(16, True, _QWEN3_5_MOE, _SIGHT),
}


def save_checkpoint(family: str, folder: Path, words: Any = None) -> Path:
    """Write a random checkpoint of a family: weights, tokenizer (default: ours), processor."""
    kind = FAMILIES[family]
    words = words or tokenizer()
    size = len(words)
    ids = words.convert_tokens_to_ids
    marks = {
        "image": "image_pad",
        "video": "video_pad",
        "vision_start": "vision_start",
        "vision_end": "vision_end",
    }
    tokens = {f"{name}_token_id": ids(f"<|{mark}|>") for name, mark in marks.items()}
    ends = {"eos_token_id": ids("<|im_end|>"), "pad_token_id": ids("<|endoftext|>"), "bos_token_id": None}
    config = AutoConfig.for_model(
        family,
        text_config={**kind.text, "vocab_size": size, **ends},
        vision_config=kind.vision,
        tie_word_embeddings=False,
        **tokens,
    )
    torch.manual_seed(0)
    model = AutoModelForImageTextToText.from_config(config)
    model.generation_config.eos_token_id = ids("<|im_end|>")
    model.generation_config.pad_token_id = ids("<|endoftext|>")
    model.save_pretrained(folder)
    whole, video = Qwen2_5_VLProcessor, Qwen2VLVideoProcessor
    if kind.has_times:
        whole, video = Qwen3VLProcessor, Qwen3VLVideoProcessor
    parts = (Qwen2VLImageProcessor(patch_size=kind.patch), words, video(patch_size=kind.patch))
    whole(*parts, chat_template=template()).save_pretrained(folder)
    return folder


_ROOT = tempfile.TemporaryDirectory(prefix="videopro-qwen-")


@functools.cache
def checkpoint(family: str) -> Path:
    """The folder of a family's checkpoint, made once a test session."""
    return save_checkpoint(family, Path(_ROOT.name) / family)


@functools.cache
def backbone(family: str) -> QwenBackbone:
    """That checkpoint as a backbone, shared by tests that leave it as it is."""
    return load(family)


def load(family: str, **settings: Any) -> QwenBackbone:
    """That checkpoint as a backbone of its own."""
    return QwenBackbone(BackboneConfig(str(checkpoint(family)), frames=8, pixels=PIXELS, **settings))


@functools.cache
def _loaded(family: str, **settings: Any) -> tuple[Any, Any]:
    model = AutoModelForImageTextToText.from_pretrained(checkpoint(family), dtype=torch.float32, **settings)
    processor = AutoProcessor.from_pretrained(checkpoint(family))
    if FAMILIES[family].has_times:
        # As published: see tests/backbones/qwen/test_published.py.
        processor.chat_template = template().replace(
            "<|vision_start|><|video_pad|><|vision_end|>", "<|video_pad|>"
        )
    return model.eval(), processor


def reference(family: str, **settings: Any) -> tuple[Any, Any]:
    """The same weights and processor straight from transformers, without any of our code: the caller's own
    copies."""
    return copy.deepcopy(_loaded(family, **settings))


LANGUAGE_LAYERS = r".*language_model.*\.(q_proj|v_proj)"


def lora(family: str, folder: Path, *, layers: str = LANGUAGE_LAYERS) -> Path:
    """A random adapter on some layers of a family, strong enough to be seen."""
    base, _ = reference(family)
    torch.manual_seed(0)
    settings = LoraConfig(r=4, lora_alpha=16, target_modules=layers)
    model = get_peft_model(base, settings)
    for name, weight in model.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(weight, std=0.3)
    model.save_pretrained(folder)
    return folder


def official_inputs(
    family: str, processor: Any, frames: list[Frame] | None, text: str, pixels: int = PIXELS
) -> Any:
    """The prompt as the official processor makes it of frames of one size; for Qwen2.5-VL, at equal
    distances."""
    parts = [] if frames is None else [{"type": "video"}]
    messages = [{"role": "user", "content": [*parts, {"type": "text", "text": text}]}]
    prompt = processor.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    return processed(family, processor, frames, prompt, pixels)


def processed(
    family: str, processor: Any, frames: list[Frame] | None, prompt: str, pixels: int = PIXELS
) -> Any:
    """A prompt in which the official processor puts frames, if there are any."""
    if frames is None:
        return processor(text=[prompt], return_tensors="pt")
    video = torch.from_numpy(np.stack([frame.image for frame in frames])).permute(0, 3, 1, 2)
    count = len(frames)
    times: list[Any] = [frame.time for frame in frames]
    share, rate = count, 1.0
    if not FAMILIES[family].has_times:
        share, rate = 1, (count - 1) / (times[-1] - times[0])
        times = list(range(count))
    options = {
        "do_sample_frames": False,
        "size": {"shortest_edge": 784 * share, "longest_edge": pixels * share},
        "video_metadata": [VideoMetadata(total_num_frames=count, fps=rate, frames_indices=times)],
    }
    if "cap_pixels_per_frame" in type(processor.video_processor).valid_kwargs.__annotations__:
        options["cap_pixels_per_frame"] = False
    return processor(text=[prompt], videos=[video], videos_kwargs=options, return_tensors="pt")


def pictures(
    n: int, height: int = 64, width: int = 64, *, seed: int = 0, times: list[float] | None = None
) -> list[Frame]:
    """Frames of noise, a second apart or at the given times."""
    images = np.random.default_rng(seed).integers(0, 256, (n, height, width, 3), dtype=np.uint8)
    given = range(n) if times is None else times
    return [Frame(image, float(time)) for image, time in zip(images, given, strict=True)]


QUESTION = Question("What colour is the ring?", ("green", "red", "blue"))
OTHER = Question("How many rings are there, and which of them is seen after the bar?", ("1", "2"))


TOLERANCE = 1e-5


def close(left: Answer, right: Answer) -> bool:
    return (
        left.letter == right.letter
        and left.raw == right.raw
        and left.tokens_in == right.tokens_in
        and left.letters.keys() == right.letters.keys()
        and left.confidence == pytest.approx(right.confidence, abs=TOLERANCE)
        and all(left.letters[key] == pytest.approx(right.letters[key], abs=TOLERANCE) for key in left.letters)
    )


@contextmanager
def leaning(model: Any, token: int, amount: float = 30.0) -> Iterator[None]:
    """A model whose last layer favours one token."""

    def favour(module: Any, args: Any, out: torch.Tensor) -> torch.Tensor:
        out = out.clone()
        out[..., token] += amount
        return out

    hook = model.lm_head.register_forward_hook(favour)
    try:
        yield
    finally:
        hook.remove()
