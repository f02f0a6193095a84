"""The settings that a run may be resumed with another value of; all others are compared, those of libraries
to come included.

A setting belongs here only if no weight depends on it, or only by the rounding with which another machine
would differ too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

_EVALUATING = (
    *("eval_strategy", "eval_steps", "eval_delay", "eval_on_start", "eval_data", "eval_questions"),
    *("eval_limit", "eval_modules", "eval_max_new_tokens", "fallback", "num_generations_eval"),
    *("metric_for_best_model", "greater_is_better", "save_strategy", "save_steps"),
)
"""They choose the final weights if the best ones are loaded at the end."""

HARMLESS: Mapping[str, tuple[str, ...]] = {
    "where files are: rows, base and adapter are compared by their content": (
        *("output_dir", "train_data", "adapter", "frame_cache", "resume_from_checkpoint"),
        *("model_name_or_path", "model_revision"),
    ),
    "compared as what they came to: the start's own where they are unset": ("frames", "pixels", "prompts"),
    "what is evaluated, which changes no training": (
        *_EVALUATING,
        *("per_device_eval_batch_size", "eval_accumulation_steps", "eval_do_concat_batches"),
        *("eval_use_gather_object", "eval_packing", "batch_eval_metrics", "include_for_metrics"),
        *("bf16_full_eval", "fp16_full_eval", "prediction_loss_only", "do_train", "do_eval", "do_predict"),
    ),
    "what is logged, shown and uploaded": (
        *("logging_strategy", "logging_steps", "logging_first_step", "logging_nan_inf_filter", "log_level"),
        *("log_level_replica", "log_on_each_node", "report_to", "run_name", "project", "disable_tqdm"),
        *("trackio_space_id", "trackio_bucket_id", "trackio_static_space_id", "skip_memory_metrics", "debug"),
        *("log_completions", "num_completions_to_print", "log_unique_prompts", "log_multimodal"),
        *("log_completions_hub_repo", "include_num_input_tokens_seen", "push_to_hub", "hub_model_id"),
        *("hub_strategy", "hub_token", "hub_private_repo", "hub_always_push", "hub_revision"),
    ),
    "what is saved, and in which form": (
        *("save_total_limit", "save_only_model", "save_on_each_node", "enable_jit_checkpoint"),
        "adapter_dtype",
    ),
    "who does the same work, how much of it at a time, and with which memory": (
        *("dataloader_num_workers", "dataloader_pin_memory", "dataloader_persistent_workers"),
        *("dataloader_prefetch_factor", "dataloader_multiprocessing_context", "dataset_num_proc"),
        *("decode_workers", "reward_workers", "run_ahead", "kept_features_gb", "sampling_batch_size"),
        *("torch_empty_cache_steps", "ddp_backend", "ddp_timeout", "ddp_bucket_cap_mb"),
        *("ddp_find_unused_parameters", "ddp_static_graph", "local_rank", "use_cpu"),
        *("ds3_gather_for_generation", "vllm_server_base_url", "vllm_server_host", "vllm_server_port"),
        *("vllm_server_timeout", "vllm_group_port", "vllm_gpu_memory_utilization"),
        *("vllm_tensor_parallel_size", "vllm_enable_sleep_mode", "engine_gpus", "vllm"),
    ),
    "other kernels for the same sums, and values that are computed again instead of kept": (
        *("attn_implementation", "shared_prompt", "gradient_checkpointing", "gradient_checkpointing_kwargs"),
        *("activation_checkpointing", "activation_checkpointing_kwargs", "activation_offloading"),
        *("checkpoint", "compile_layers"),
    ),
}
"""By the reason why no weight depends on them."""

_NAMES = {name for names in HARMLESS.values() for name in names}


def deciding_settings(settings: Any) -> dict[str, Any]:
    """The settings of a dataclass on which the final weights depend."""
    loads_best = getattr(settings, "load_best_model_at_end", False)
    harmless = _NAMES - set(_EVALUATING) if loads_best else _NAMES
    names = [field.name for field in fields(settings) if field.init and not field.name.startswith("_")]
    return {name: getattr(settings, name) for name in names if name not in harmless}
