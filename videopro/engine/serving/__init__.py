"""An engine that VideoPro starts itself: vLLM in an environment and a process of its own, one a GPU.

`settings` makes its command line, `process` starts it, watches it and stops it, `guarded` lets none of its
processes outlive ours (by the script `guard`), `engine_log` says why one does not serve, `adapters` gives it
the versions of an adapter in training, and `attached` is how other processes see it.
"""

from videopro.engine.serving.adapters import AdapterVersions, adapter_name
from videopro.engine.serving.attached import AttachedEngine, Engine
from videopro.engine.serving.devices import dedicated_devices, engine_devices
from videopro.engine.serving.process import EngineProcess, started
from videopro.engine.serving.settings import ENGINES, VLLM, EngineSettings, ServedModel, adapter_rank

__all__ = [
    "ENGINES",
    "RANKS",
    "VLLM",
    "AdapterVersions",
    "AttachedEngine",
    "Engine",
    "EngineProcess",
    "EngineSettings",
    "ServedModel",
    "adapter_name",
    "adapter_rank",
    "dedicated_devices",
    "engine_devices",
    "started",
]
