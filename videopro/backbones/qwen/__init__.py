"""Qwen-VL models through transformers. Importing this package imports torch and transformers."""

from videopro.backbones.qwen.backbone import QwenBackbone
from videopro.backbones.qwen.beyond import keep_beyond
from videopro.backbones.qwen.features import encode_vision, features_bytes, visual_inputs
from videopro.backbones.qwen.find import Checkpoint, adapter_folder, find_checkpoint, find_records, made_from
from videopro.backbones.qwen.fitting import check_adapter_fits, check_language_only
from videopro.backbones.qwen.inputs import EncodedPrompt, QwenInputs
from videopro.backbones.qwen.load import (
    LoadedModel,
    attach_adapter,
    checkpoint_identity,
    load_model,
    load_weights,
)
from videopro.backbones.qwen.merged_copy import MergedCopy, can_copy
from videopro.backbones.qwen.resolve import ResolvedRecord, resolve_record
from videopro.backbones.qwen.runner import QwenRunner
from videopro.backbones.qwen.writing import NonFiniteLogits, SampledReply

__all__ = [
    "Checkpoint",
    "EncodedPrompt",
    "LoadedModel",
    "MergedCopy",
    "NonFiniteLogits",
    "QwenBackbone",
    "QwenInputs",
    "QwenRunner",
    "ResolvedRecord",
    "SampledReply",
    "adapter_folder",
    "attach_adapter",
    "can_copy",
    "check_adapter_fits",
    "check_language_only",
    "checkpoint_identity",
    "encode_vision",
    "features_bytes",
    "keep_beyond",
    "find_checkpoint",
    "find_records",
    "load_model",
    "load_weights",
    "made_from",
    "resolve_record",
    "visual_inputs",
]
