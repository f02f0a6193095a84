"""What training takes at 8B and 32B."""

from __future__ import annotations

from perf.tables.shared import Record, Table, Tables

_PARTS = {
    "weights": "weights, bf16",
    "adapter": "adapter, its gradients and Adam's moments",
    "merged_copy": "merged copy that GRPO samples from (`sampler: local`)",
    "keys_and_values": "keys and values of 64 replies of 512 tokens to 8 prompts",
}


_SPLIT = {
    "training": "4 GPUs train (ZeRO-3): weights, adapter, its gradients and Adam's moments",
    "engine_weights": "4 GPUs serve (2 engines of 2 GPUs): weights",
    "engine_keys_and_values": "there: keys and values of 4 x 64 replies of 512 tokens to 4 x 8 prompts",
    "engine_room": "there: room for them, with `memory` 0.85",
}


def _memory(record: Record) -> Table:
    models = record["models"]
    rows = [
        [title, *(f"{models[name][part]:.1f}" for name in ("8b", "32b"))] for part, title in _PARTS.items()
    ]
    return ["GiB", "8B", "32B"], rows


def _split(record: Record) -> Table:
    split = record["split"]
    rows = [
        [title, *(f"{split[name][part]:.1f}" for name in ("8b", "32b"))] for part, title in _SPLIT.items()
    ]
    return ["GiB a GPU", "8B", "32B"], rows


def _hours(record: Record) -> Table:
    hours = record["hours"]
    gpus = list(hours["8B, SFT"])
    rows = [[name, *(f"{hours[name][count]:.2f}" for count in gpus)] for name in hours]
    return ["hours", *(f"{count} GPU{'s' if count != '1' else ''}" for count in gpus)], rows


TABLES: Tables = {
    ("perf/scale.json", "memory"): _memory,
    ("perf/scale.json", "split"): _split,
    ("perf/scale.json", "hours"): _hours,
}
