"""Tiny checkpoints of the classes that modules load from a hub, made from configs with random weights."""

import functools
import tempfile
from pathlib import Path
from typing import Any

import torch
from tokenizers import pre_tokenizers
from transformers import (
    BertConfig,
    BertTokenizerFast,
    CLIPTokenizerFast,
    GenerationConfig,
    GroundingDinoConfig,
    GroundingDinoForObjectDetection,
    GroundingDinoImageProcessor,
    GroundingDinoProcessor,
    Sam3ImageProcessor,
    Sam3VideoConfig,
    Sam3VideoModel,
    Sam3VideoProcessor,
    SwinConfig,
    WhisperConfig,
    WhisperFeatureExtractor,
    WhisperForConditionalGeneration,
    WhisperProcessor,
    WhisperTokenizer,
)
from transformers.models.sam2_video.video_processing_sam2_video import Sam2VideoVideoProcessor

# Of a transformer.
LAYERS = {"num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}


def folder() -> Path:
    return Path(tempfile.mkdtemp())


def both_towers(**sizes: int) -> dict[str, Any]:
    """These settings of the encoder and of the decoder."""
    return {f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in sizes.items()}


@functools.cache
def grounding_dino() -> Path:
    """Swin and BERT below a two-layer detector of 12 queries."""
    torch.manual_seed(0)
    where = Path(tempfile.mkdtemp())
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", "red", "cat", "dog", "a", "?"]
    tokenizer = BertTokenizerFast(vocab={word: i for i, word in enumerate(words)}, do_lower_case=True)
    config = GroundingDinoConfig(
        backbone_config=SwinConfig(
            image_size=64,
            patch_size=4,
            embed_dim=12,
            depths=[1, 1, 1, 1],
            num_heads=[1, 1, 2, 2],
            window_size=4,
            out_features=["stage2", "stage3", "stage4"],
        ),
        text_config=BertConfig(vocab_size=len(words), hidden_size=24, **LAYERS),
        d_model=32,
        encoder_layers=1,
        decoder_layers=2,
        num_queries=12,
        num_feature_levels=3,
        **both_towers(ffn_dim=32, attention_heads=2),
    )
    GroundingDinoForObjectDetection(config).save_pretrained(where)
    images = GroundingDinoImageProcessor(size={"shortest_edge": 64, "longest_edge": 128})
    GroundingDinoProcessor(images, tokenizer).save_pretrained(where)
    return where


@functools.cache
def sam3() -> Path:
    """SAM 3's video model at 112 x 112 pixels, taking nearly anything for an object."""
    torch.manual_seed(0)
    where = Path(tempfile.mkdtemp())
    # The memory has 64 channels whatever the config says, and must have fewer than the rest.
    side, hidden = 112, 128
    vision = {
        "backbone_config": {
            "model_type": "sam3_vit_model",
            "hidden_size": hidden,
            "intermediate_size": 48,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "image_size": side,
            "pretrain_image_size": side,
            "window_size": 4,
            "global_attn_indexes": [1],
        },
        "fpn_hidden_size": hidden,
        "backbone_feature_sizes": [[32, 32], [16, 16], [8, 8]],
    }
    layers = {"hidden_size": hidden, "num_layers": 1, "num_attention_heads": 2, "intermediate_size": 48}
    masks = {"hidden_size": hidden, "num_attention_heads": 2}
    detector = {
        "model_type": "sam3",
        "vision_config": vision,
        "text_config": {
            "model_type": "clip_text_model",
            "vocab_size": 600,
            "hidden_size": 24,
            "projection_dim": 24,
            **LAYERS,
            "max_position_embeddings": 32,
            "eos_token_id": 1,
        },
        "geometry_encoder_config": layers,
        "detr_encoder_config": layers,
        "detr_decoder_config": {**layers, "num_queries": 3},
        "mask_decoder_config": masks,
    }
    tracker = {
        "model_type": "sam3_tracker_video",
        "image_size": side,
        "vision_config": vision,
        "prompt_encoder_config": {"hidden_size": hidden, "image_size": side},
        "mask_decoder_config": {**masks, "mlp_dim": 48, "iou_head_hidden_dim": hidden},
        "memory_attention_hidden_size": hidden,
        "memory_attention_num_layers": 1,
        "memory_attention_feed_forward_hidden_size": 48,
        "memory_attention_rope_feat_sizes": [8, 8],
        "memory_encoder_hidden_size": hidden,
        "memory_encoder_output_channels": 64,
        "mask_downsampler_embed_dim": hidden,
        "memory_fuser_embed_dim": hidden,
        "memory_fuser_intermediate_dim": 48,
    }
    lenient: dict[str, Any] = {"score_threshold_detection": 0.0, "new_det_thresh": 0.0, "fill_hole_area": 0}
    lenient |= {f"hotstart_{name}": 0 for name in ("delay", "unmatch_thresh", "dup_thresh")}
    parts = {"detector_config": detector, "tracker_config": tracker}
    Sam3VideoModel(Sam3VideoConfig(**parts, low_res_mask_size=32, **lenient)).save_pretrained(where)
    vocabulary = {"<|startoftext|>": 0, "<|endoftext|>": 1}
    for symbol in "abcdefghijklmnopqrstuvwxyz .":
        vocabulary[symbol] = len(vocabulary)
        vocabulary[f"{symbol}</w>"] = len(vocabulary)
    tokenizer = CLIPTokenizerFast(vocab=vocabulary, merges=[], pad_token="<|endoftext|>")
    size = {"height": side, "width": side}
    Sam3VideoProcessor(
        Sam3ImageProcessor(size=size, mask_size={"height": 32, "width": 32}),
        Sam2VideoVideoProcessor(size=size),
        tokenizer,
        target_size=side,
    ).save_pretrained(where)
    return where


@functools.cache
def whisper() -> Path:
    """One layer each way, with Whisper's own kinds of token: bytes, languages, tasks and times."""
    torch.manual_seed(0)
    where = Path(tempfile.mkdtemp())
    vocabulary = {symbol: i for i, symbol in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    special = [
        *("<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|translate|>", "<|transcribe|>"),
        *("<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>"),
    ]
    times = [f"<|{i * 0.02:.2f}|>" for i in range(1501)]
    end = "<|endoftext|>"
    marks = dict.fromkeys(("unk_token", "bos_token", "eos_token", "pad_token"), end)
    tokenizer = WhisperTokenizer(vocab=vocabulary, merges=[], **marks)
    tokenizer.add_tokens([*special, *times], special_tokens=True)
    number = tokenizer.convert_tokens_to_ids
    ids = {f"{mark}_token_id": number(end) for mark in ("pad", "bos", "eos")}
    ids["decoder_start_token_id"] = number("<|startoftranscript|>")
    config = WhisperConfig(
        vocab_size=len(tokenizer),
        num_mel_bins=80,
        d_model=16,
        max_target_positions=448,
        init_std=0.5,
        **both_towers(layers=1, attention_heads=2, ffn_dim=24),
        **ids,
    )
    model = WhisperForConditionalGeneration(config)
    model.generation_config = GenerationConfig(
        is_multilingual=True,
        lang_to_id={"<|en|>": number("<|en|>")},
        task_to_id={task: number(f"<|{task}|>") for task in ("translate", "transcribe")},
        no_timestamps_token_id=number("<|notimestamps|>"),
        max_initial_timestamp_index=50,
        prev_sot_token_id=number("<|startofprev|>"),
        max_length=40,
        suppress_tokens=[],
        begin_suppress_tokens=[],
        return_timestamps=True,
        **ids,
    )
    model.save_pretrained(where)
    features = WhisperFeatureExtractor(feature_size=80)
    WhisperProcessor(features, tokenizer).save_pretrained(where)
    features.save_pretrained(where)
    return where
