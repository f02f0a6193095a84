"""Shared test settings: two cores at most, no hub, no accidental network."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch

torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
