"""Qwen-VL models through transformers. Importing this package imports torch and transformers."""

from videopro.backbones.qwen.backbone import QwenBackbone as QwenBackbone
from videopro.backbones.qwen.features import encode_vision as encode_vision
from videopro.backbones.qwen.features import features_bytes as features_bytes
from videopro.backbones.qwen.features import visual_inputs as visual_inputs
from videopro.backbones.qwen.find import Checkpoint as Checkpoint
from videopro.backbones.qwen.find import ResolvedRecord as ResolvedRecord
from videopro.backbones.qwen.find import adapter_folder as adapter_folder
from videopro.backbones.qwen.find import find_checkpoint as find_checkpoint
from videopro.backbones.qwen.find import find_records as find_records
from videopro.backbones.qwen.find import made_from as made_from
from videopro.backbones.qwen.find import resolve_record as resolve_record
from videopro.backbones.qwen.inputs import EncodedPrompt as EncodedPrompt
from videopro.backbones.qwen.inputs import QwenInputs as QwenInputs
from videopro.backbones.qwen.layers import MergedCopy as MergedCopy
from videopro.backbones.qwen.layers import can_copy as can_copy
from videopro.backbones.qwen.load import LoadedModel as LoadedModel
from videopro.backbones.qwen.load import attach_adapter as attach_adapter
from videopro.backbones.qwen.load import check_adapter_fits as check_adapter_fits
from videopro.backbones.qwen.load import check_language_only as check_language_only
from videopro.backbones.qwen.load import checkpoint_identity as checkpoint_identity
from videopro.backbones.qwen.load import keep_beyond as keep_beyond
from videopro.backbones.qwen.load import load_model as load_model
from videopro.backbones.qwen.load import load_weights as load_weights
from videopro.backbones.qwen.replies import NonFiniteLogits as NonFiniteLogits
from videopro.backbones.qwen.replies import SampledReply as SampledReply
from videopro.backbones.qwen.runner import QwenRunner as QwenRunner
