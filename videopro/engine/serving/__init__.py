"""An engine that VideoPro starts itself: vLLM in its own environment and process, one per GPU.

`settings` makes its command line, `process` starts it, watches it and stops it, `guard` lets none of its
processes outlive ours, `adapters` gives it the versions of an adapter in training, and `attached` is how
other processes see it.
"""

from videopro.engine.serving.adapters import AdapterVersions as AdapterVersions
from videopro.engine.serving.adapters import adapter_name as adapter_name
from videopro.engine.serving.attached import AttachedEngine as AttachedEngine
from videopro.engine.serving.attached import Engine as Engine
from videopro.engine.serving.process import EngineProcess as EngineProcess
from videopro.engine.serving.process import started as started
from videopro.engine.serving.settings import ENGINES as ENGINES
from videopro.engine.serving.settings import VLLM as VLLM
from videopro.engine.serving.settings import EngineSettings as EngineSettings
from videopro.engine.serving.settings import ServedModel as ServedModel
from videopro.engine.serving.settings import adapter_rank as adapter_rank
from videopro.engine.serving.settings import dedicated_devices as dedicated_devices
from videopro.engine.serving.settings import engine_devices as engine_devices
