"""An engine that VideoPro starts itself: vLLM in an environment and a process of its own, one a GPU.

`settings` makes its command line, `process` starts it, watches it and stops it, `guard` lets none of its
processes outlive ours, and `adapters` gives it the versions of an adapter in training.
"""

from videopro.engine.serving.adapters import AdapterVersions
from videopro.engine.serving.devices import engine_devices
from videopro.engine.serving.process import EngineProcess
from videopro.engine.serving.settings import ENGINES, VLLM, EngineSettings, ServedModel, adapter_rank

__all__ = [
    "ENGINES",
    "RANKS",
    "VLLM",
    "AdapterVersions",
    "EngineProcess",
    "EngineSettings",
    "ServedModel",
    "adapter_rank",
    "engine_devices",
]
