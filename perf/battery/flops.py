"""The floating-point operations that a Qwen3-VL needs, from its config: a product and a sum are two."""

from __future__ import annotations

from typing import Any


def language_forward(config: Any, lengths: list[int], scored: int) -> float:
    """A forward pass of the language model over rows of these lengths (tokens), of which `scored` tokens in
    all are given logits. Attention is counted causally; embeddings, norms and rotations are not counted."""
    text = config.get_text_config()
    width, layers = text.hidden_size, text.num_hidden_layers
    heads = text.num_attention_heads * text.head_dim
    keys = text.num_key_value_heads * text.head_dim
    layer = width * (heads + 2 * keys) + heads * width + 3 * width * text.intermediate_size
    tokens = sum(lengths)
    # Scores and mixing: two products of heads x length each for every token that is attended to.
    attention = sum(4 * heads * length * (length + 1) / 2 for length in lengths)
    return float(2 * layers * layer * tokens + layers * attention + 2 * width * text.vocab_size * scored)


def vision_forward(config: Any, patches: int, a_frame: int) -> float:
    """A forward pass of the vision tower and its mergers over `patches` in all, `a_frame` of which attend to
    each other."""
    vision = config.vision_config
    width, merge = vision.hidden_size, vision.spatial_merge_size**2
    layer = 4 * width * width + 2 * width * vision.intermediate_size
    first = 3 * vision.temporal_patch_size * vision.patch_size**2 * width
    merged = width * merge
    merger = merged * merged + merged * vision.out_hidden_size
    mergers = (1 + len(vision.deepstack_visual_indexes)) * merger * patches / merge
    attention = vision.depth * 4 * width * patches * a_frame
    return float(2 * (vision.depth * layer * patches + first * patches + mergers) + attention)


def sft_step(config: Any, lengths: list[int], scored: int, patches: int, a_frame: int) -> float:
    """A step that trains LoRA layers of the language model: forward, and backward to the activations, which
    costs as much, since the base's weights get no gradient. The frozen vision tower runs forward alone. What
    gradient checkpointing computes again and LoRA's own products are not counted."""
    return 2 * language_forward(config, lengths, scored) + vision_forward(config, patches, a_frame)
