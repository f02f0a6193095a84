"""Shared test settings: two cores at most, no hub, no accidental network."""

import os
import signal

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch

# A shell starts what it puts into the background with Ctrl-C ignored, and its children inherit that: tests of
# interruptions would then wait for what cannot come. nohup does the same to the signal of a closed terminal.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
