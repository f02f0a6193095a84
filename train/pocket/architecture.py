"""Builds the pocket model's parts: tokenizer, processor, configuration and untrained weights.

All of them are the classes that a real Qwen3-VL checkpoint uses, at a small size, so that `AutoProcessor` and
`AutoModelForImageTextToText` load a saved folder. `train/pocket/language.py` trains what this builds.
"""

import re
from pathlib import Path
from typing import Any, cast

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    PreTrainedTokenizerFast,
    Qwen2VLImageProcessor,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
    Qwen3VLProcessor,
    Qwen3VLVideoProcessor,
)

from videopro.backbones import ModelRecord, library_versions, write_model_record
from videopro.pocket import lexicon, vocabulary

FRAMES = 16
FRAME_SIZE = (96, 160)  # height, width in pixels: half of what the videos have
PIXELS = FRAME_SIZE[0] * FRAME_SIZE[1]

# A word with the space before it, a digit, a punctuation mark with the space before it, a line break with its
# indentation. Names with underscores stay whole, so that a module's name is one token.
_PIECES = r" ?[\p{L}_]+|\p{N}| ?```| ?[^\s\p{L}\p{N}_]|\n+ *| +(?=\n)| +"

SPECIAL = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
# Frequent enough to be one token each, but ordinary text.
TAGS = ("<planning>", "</planning>", "<code>", "</code>")

# Turns as in Qwen's chat templates; image and video parts become the placeholders that the processor expands.
# (Around a video it adds the vision markers itself, frame by frame.)
CHAT_TEMPLATE = """\
{%- for message in messages -%}
<|im_start|>{{ message.role }}
{% if message.content is string -%}
{{ message.content }}
{%- else -%}
{%- for part in message.content -%}
{%- if part.type == 'video' or 'video' in part -%}
<|video_pad|>
{%- elif part.type == 'image' or 'image' in part or 'image_url' in part -%}
<|vision_start|><|image_pad|><|vision_end|>
{%- elif 'text' in part -%}
{{ part.text }}
{%- endif -%}
{%- endfor -%}
{%- endif -%}
<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}
<|im_start|>assistant
{% endif -%}
"""


def single_tokens() -> list[str]:
    """Every word, name and mark that is one token, bare and with a space before it, in a fixed order."""
    world = [
        *vocabulary.COLORS, *vocabulary.SHAPES, *vocabulary.MOVES, *vocabulary.WEATHERS, *vocabulary.PLACES,
        *vocabulary.SIGNS, *vocabulary.NAMES, *vocabulary.DEEDS, *vocabulary.THINGS, *vocabulary.TOPICS,
        *vocabulary.LINE_KINDS, *vocabulary.LINE_WHO, *vocabulary.LINE_DOES, *vocabulary.FACT_LINES,
        *vocabulary.TOPIC_LINES, *vocabulary.ASIDE_LINES, *vocabulary.FILLER_LINES,
        *(form for kinds in vocabulary.PHRASINGS.values() for forms in kinds.values() for form in forms),
        *vocabulary.FAMILIES.values(), "\n".join("ABCDEFGHIJ"),
    ]  # fmt: skip
    text = "\n".join([*world, lexicon.TEXT])
    # A dict keeps the order: it gives the ids, on which the shipped weights depend.
    pieces = dict.fromkeys(p for word in re.findall(r"[^\W\d]+", text) for p in (word, " " + word))
    for mark in re.findall(r"```|[^\w\s]", text):
        pieces |= dict.fromkeys((mark, " " + mark))
    for breaks in ("\n", "\n\n", *(f"\n{' ' * (4 * depth)}" for depth in range(1, 6))):
        pieces[breaks] = None
    pieces |= dict.fromkeys(" " * n for n in (1, 2, 4, 8))
    return list(pieces)


def mixed_precision() -> torch.autocast:
    """bf16 if the CPU has hardware support for it; otherwise fp32, as bf16 was five times slower without."""
    capabilities = torch.cpu.get_capabilities()
    quick = bool(capabilities.get("amx_bf16") or capabilities.get("avx512_bf16"))
    return torch.autocast("cpu", torch.bfloat16, enabled=quick)


def build_tokenizer() -> PreTrainedTokenizerFast:
    """A byte-level tokenizer that keeps each known word whole and falls back to bytes for the rest."""
    byte = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    vocabulary_: dict[str, int] = {}
    for letter in sorted(pre_tokenizers.ByteLevel.alphabet()):
        vocabulary_[letter] = len(vocabulary_)
    for word in single_tokens():
        spelled = "".join(piece for piece, _ in byte.pre_tokenize_str(word))
        vocabulary_.setdefault(spelled, len(vocabulary_))
    # ignore_merges: a known word is taken as it is; with no merges, an unknown one is spelled in bytes.
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary_, merges=[], ignore_merges=True))
    split = pre_tokenizers.Split(Regex(_PIECES), behavior="isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, byte])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    tokenizer.add_tokens([AddedToken(tag, special=False, normalized=False) for tag in TAGS])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=list(SPECIAL[1:]),
        model_max_length=8192,
        clean_up_tokenization_spaces=False,
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast


def build_processor() -> Qwen3VLProcessor:
    """The processor: videos at 96x160 a frame (15 tokens for two frames), images and crops at about as
    much.
    """
    shape: dict[str, Any] = {"patch_size": 16, "temporal_patch_size": 2, "merge_size": 2}
    # As -1..1, which training computes by itself (`/ 127.5 - 1`).
    plain: dict[str, Any] = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    image = Qwen2VLImageProcessor(
        size={"shortest_edge": PIXELS * 9 // 10, "longest_edge": PIXELS}, **shape, **plain
    )
    video = Qwen3VLVideoProcessor(
        # From one token (a pair of frames of one cell) to all frames at full size.
        size={"shortest_edge": 32 * 32 * 2, "longest_edge": PIXELS * FRAMES},
        # The frames that come here were sampled before, at times of their own.
        do_sample_frames=False,
        **shape,
        **plain,
    )
    tokenizer = build_tokenizer()
    return Qwen3VLProcessor(
        image_processor=image, tokenizer=tokenizer, video_processor=video, chat_template=CHAT_TEMPLATE
    )


def build_config(tokenizer: PreTrainedTokenizerFast) -> Qwen3VLConfig:
    """7.6 M weights: 6 language layers of width 256, 4 vision layers of width 160, one DeepStack level.

    Input and output embeddings are separate tables: in a shared one, Adam pushes each word that no reply uses
    away from all replies, until the component common to all words is twice as long as what distinguishes
    them.
    """
    number = tokenizer.get_vocab().__getitem__
    return Qwen3VLConfig(
        text_config={
            # A multiple of 64, which matrix products are fast at.
            "vocab_size": -(-len(tokenizer) // 64) * 64,
            "hidden_size": 256,
            "intermediate_size": 640,
            "num_hidden_layers": 6,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 64,
            "max_position_embeddings": 8192,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10000.0,
                "mrope_section": [12, 10, 10],
                "mrope_interleaved": True,
            },
            "tie_word_embeddings": False,
            "bos_token_id": None,
            "eos_token_id": number("<|im_end|>"),
            "pad_token_id": number("<|endoftext|>"),
        },
        vision_config={
            "depth": 4,
            "hidden_size": 160,
            "intermediate_size": 480,
            "num_heads": 4,
            "patch_size": 16,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "out_hidden_size": 256,
            "num_position_embeddings": 256,
            "deepstack_visual_indexes": [1],
        },
        image_token_id=number("<|image_pad|>"),
        video_token_id=number("<|video_pad|>"),
        vision_start_token_id=number("<|vision_start|>"),
        vision_end_token_id=number("<|vision_end|>"),
        tie_word_embeddings=False,
    )


def build_model(tokenizer: PreTrainedTokenizerFast, seed: int) -> Qwen3VLForConditionalGeneration:
    """Untrained weights in fp32.

    The language layers are initialized so that a word's own embedding is not drowned by what the layers add
    to it, input and output embeddings of a word are equal, and attention is sharp enough to single out one
    word of hundreds (queries and keys are normalised: at a gain of 1 no two of them differ enough). Picking
    the named option was then learned within 150 steps, within 350 without the gain, and not within 750
    without either. A word has the same embedding with and without the space before it.
    """
    torch.manual_seed(seed)
    config = build_config(tokenizer)
    model = Qwen3VLForConditionalGeneration(config)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    ids = tokenizer.get_vocab()
    depth = 2 * model.model.language_model.config.num_hidden_layers
    with torch.no_grad():
        for name, weight in model.model.language_model.layers.named_parameters():
            if weight.ndim == 2:
                # As in GPT-2: the sum over all residual branches stays at the size of one.
                last = name.endswith(("o_proj.weight", "down_proj.weight"))
                weight.normal_(0.0, (weight.shape[1] * (depth if last else 1)) ** -0.5)
            elif name.endswith(("q_norm.weight", "k_norm.weight")):
                weight.fill_(1.8)
        table = cast(torch.nn.Embedding, model.get_input_embeddings()).weight
        table.mul_(3.0)
        # Visual features enter the language layers at about the size of word embeddings.
        for merger in (model.model.visual.merger, *model.model.visual.deepstack_merger_list):
            merger.linear_fc2.weight.mul_(0.4)
        for token, index in ids.items():
            if token.startswith("Ġ") and token[1:] in ids:
                table[index] = table[ids[token[1:]]]
        model.lm_head.weight.copy_(table)
    return model


def save(model: Qwen3VLForConditionalGeneration, processor: Qwen3VLProcessor, folder: Path) -> None:
    """Write a folder that the Auto classes load; bf16 weights. `videopro.json` tells our backbone its
    budget.
    """
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    write_model_record(folder, ModelRecord(FRAMES, PIXELS, versions=library_versions()))
