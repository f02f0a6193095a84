"""The settings of an engine that VideoPro starts itself, the flags of `vllm serve` that they make, and the
GPUs that engines run on."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

from videopro.cli import check_least, folder_here, option, setting
from videopro.errors import ConfigError
from videopro.storage import parse_json

VLLM = setting(
    "with --engine vllm: program (folder, Python or vllm of the engine's environment), memory, "
    "max_model_len, gpus, flags, start_seconds, such as program=engine memory=0.8"
)
ENGINES = setting(
    "where to run: local (processes on this machine), ray (the cluster at $RAY_ADDRESS; unset: Ray is "
    "started here for the command), or vllm (processes on this machine, with a vLLM started here per GPU)"
)
RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""The ranks for which vLLM makes room."""
_LOADED = 3
"""Adapters in the engine's memory: the newest version, the one before it, and one that is being loaded."""
_CPU_LOADED = 16
"""The LoRA kernels of the CPU build give the base's requests the adapter in the last slot (vLLM pull request
48421), which therefore has to stay empty."""
CPU_LOADS = _CPU_LOADED - 1
"""Adapters that an engine of the CPU build may load in its life: one that is unloaded loses its name, and
keeps its slot."""
_CPU_REQUESTS = 16
_TOP_LOGPROBS = 20
"""Log-probabilities for each token, among which the letters of an answer are looked for."""


@dataclass(frozen=True)
class EngineSettings:
    """The settings of an engine. Raises ConfigError for invalid ones."""

    program: str = option(
        "", "path of vLLM: the folder of its environment, its Python, or vllm; unset: vllm in PATH"
    )
    memory: float = option(0.85, "share of GPU memory for weights, keys and values")
    max_model_len: int | None = option(
        None, "maximum tokens of a prompt and its reply; unset: the model's, at most 32768"
    )
    gpus: int = option(1, "GPUs per engine (tensor parallel)")
    flags: str = option("", "additional flags of vllm serve")
    start_seconds: int = option(1800, "maximum seconds to start")

    def __post_init__(self) -> None:
        if not 0 < self.memory <= 1:
            raise ConfigError(f"vllm: memory is {self.memory:g}; it must be above 0 and at most 1")
        check_least(self, 1, "max_model_len", "gpus", "start_seconds", where="vllm: ")
        try:
            shlex.split(self.flags)
        except ValueError as error:
            raise ConfigError(
                f"vllm: flags is {self.flags!r}, which is not valid shell syntax ({error})"
            ) from None

    def command(self) -> list[str]:
        """What starts the server, up to the name of the model. Raises ConfigError if it is not there."""
        advice = (
            "install it into a separate environment (python -m venv engine && engine/bin/pip install vllm), "
            "and set --vllm program=engine"
        )
        if not self.program:
            installed = shutil.which("vllm")
            if installed is None:
                raise ConfigError(f"vLLM is not in PATH; {advice}")
            return [installed, "serve"]
        path = Path(self.program).expanduser().absolute()
        if path.is_dir():
            path = path / "bin" / "python"
        if not path.is_file() or not os.access(path, os.X_OK):
            raise ConfigError(f"vllm: program '{path}' not found; {advice}")
        if path.name.startswith("python"):
            # As `vllm serve`, a command that the CPU build's package leaves broken.
            return [str(path), "-m", "vllm.entrypoints.openai.api_server", "--model"]
        return [str(path), "serve"]


@dataclass(frozen=True)
class ServedModel:
    """What an engine serves."""

    source: str
    """Hub name or folder."""
    name: str
    """The name by which requests ask for it."""
    images: int
    """Maximum frames in one prompt."""
    dtype: str = "auto"
    """As in a backbone's settings."""
    rank: int = 0
    """The highest rank of the adapters served with it; 0: no adapters."""
    adapters: Mapping[str, Path] = field(default_factory=dict)
    """Adapters that are there from the start, by name."""
    chat_template: str = ""
    """Its text; empty: the model's own."""


_DTYPES = {"bf16": "bfloat16", "fp32": "float32"}


def serve_flags(settings: EngineSettings, model: ServedModel, port: int, *, on_gpu: bool) -> list[str]:
    """The flags of `vllm serve`; docs/serve.md#model-servers has the reasons."""
    flags = {
        "--served-model-name": model.name,
        "--host": "127.0.0.1",
        "--port": port,
        "--max-model-len": settings.max_model_len or _longest(model.source),
        "--max-logprobs": _TOP_LOGPROBS,
        # Those that tokens are drawn from, as the importance ratio of training needs them. A letter is asked
        # for at temperature 0, which does not change them.
        "--logprobs-mode": "processed_logprobs",
        "--limit-mm-per-prompt": json.dumps({"video": 1, "image": model.images}),
        "--dtype": _DTYPES.get(model.dtype) or ("auto" if on_gpu else "float32"),
    }
    switches = ["--trust-request-mm-kwargs", "--enable-prefix-caching"]
    if on_gpu:
        flags["--gpu-memory-utilization"] = settings.memory
        flags["--tensor-parallel-size"] = settings.gpus
    else:
        switches.append("--enforce-eager")
        flags["--max-num-seqs"] = _CPU_REQUESTS
    if model.chat_template:
        flags["--chat-template"] = model.chat_template
    if model.rank:
        switches.append("--enable-lora")
        flags["--max-lora-rank"] = next((rank for rank in RANKS if rank >= model.rank), model.rank)
        flags["--max-loras"] = _LOADED if on_gpu else _CPU_LOADED
    return [*switches, *(str(part) for pair in flags.items() for part in pair), *shlex.split(settings.flags)]


def _longest(source: str) -> int:
    """The model's maximum length of a prompt and its reply, at most what 64 frames, subtitles and programs
    need."""
    most = 32768
    folder = folder_here(source)
    if folder is None:
        return most
    content = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    length = content.get("text_config", content).get("max_position_embeddings")
    return min(most, length) if isinstance(length, int) else most


def adapter_rank(folder: Path) -> int:
    """The highest rank in an adapter's config."""
    settings = parse_json((folder / "adapter_config.json").read_bytes())
    ranks = [settings.get("r"), *(settings.get("rank_pattern") or {}).values()]
    return max((rank for rank in ranks if isinstance(rank, int)), default=0)


# What torchrun and accelerate tell the processes of a training, which an engine would take for its own.
_OF_LAUNCHERS = (
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK"),
    *("ROLE_WORLD_SIZE", "ROLE_NAME", "MASTER_ADDR", "MASTER_PORT", "NODE_RANK"),
)
# What is meant for another vLLM. With the first, an engine would refuse every request of ours; the second is
# a URI where Kubernetes has a service named vllm, at which vLLM ends; with the third, a server whose engine
# is dead would stay, and not be started again.
_OF_OTHERS = ("VLLM_API_KEY", "VLLM_PORT", "VLLM_KEEP_ALIVE_ON_ENGINE_DEATH")


def engine_environment(command: list[str], device: str | None) -> dict[str, str]:
    """The environment variables of the engine. `device`: for CUDA_VISIBLE_DEVICES; None: a CPU."""
    variables = {
        name: value
        for name, value in os.environ.items()
        if name not in (*_OF_LAUNCHERS, *_OF_OTHERS, "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
        and not name.startswith(("TORCHELASTIC_", "ACCELERATE_", "FSDP_"))
    }
    # Its own tools, such as ninja, before ours.
    variables["PATH"] = os.pathsep.join([str(Path(command[0]).parent), variables.get("PATH", os.defpath)])
    variables["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] = "1"
    variables.setdefault("VLLM_NO_USAGE_STATS", "1")
    if device is not None:
        variables["CUDA_VISIBLE_DEVICES"] = device
    else:
        variables.setdefault("VLLM_CPU_KVCACHE_SPACE", "2")
        # Threads that wait for each other on busy cores cost twenty times what they gain.
        variables.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
    return variables


def engine_devices(gpus: int = 1) -> list[str | None]:
    """A value of CUDA_VISIBLE_DEVICES for each engine with so many GPUs; one None on a machine without any.

    Under accelerate launch or torchrun (LOCAL_RANK is set) it is the one of this rank. Raises ConfigError if
    there are fewer GPUs than one engine wants.
    """
    visible = _visible()
    if not visible:
        return [None]
    if "LOCAL_RANK" in os.environ:
        # What the launcher placed alone on a GPU sees no other.
        visible = [visible[int(os.environ["LOCAL_RANK"]) % len(visible)]]
    if len(visible) < gpus:
        raise ConfigError(
            f"vllm: gpus is {gpus}, but this process has {len(visible)}; set fewer"
            + (", or start it without accelerate launch" if "LOCAL_RANK" in os.environ else "")
        )
    return [*_groups(visible, gpus)]


def dedicated_devices(named: Sequence[str], gpus: int, *, trains_on_gpu: bool) -> list[str]:
    """A value of CUDA_VISIBLE_DEVICES for each engine with so many of the named GPUs, which this process has
    to see. `trains_on_gpu`: the processes of a training are on the first GPUs, one each.
    Raises ConfigError where that is not possible."""
    setting = f"engine_gpus is {','.join(named)}"
    visible = _visible()
    absent = [name for name in named if name not in visible]
    if absent:
        seen = f"sees {', '.join(visible)}" if visible else "sees none"
        raise ConfigError(
            f"{setting}, but this process {seen}; pass some of those, or list the GPUs of the training and "
            "then the engines' in CUDA_VISIBLE_DEVICES (with accelerate launch, in --gpu_ids)"
        )
    repeated = next((name for name in named if named.count(name) > 1), None)
    if repeated is not None:
        raise ConfigError(f"{setting}, which lists GPU {repeated} twice; list each once")
    if len(named) % gpus:
        raise ConfigError(
            f"{setting}: {len(named)} GPUs do not divide into engines with {gpus} each (vllm: gpus); list a "
            f"multiple of {gpus}, or set another vllm: gpus"
        )
    # A process that no launcher has started trains on the first GPU.
    trained = visible[: int(os.environ.get("LOCAL_WORLD_SIZE", 1))]
    shared = [name for name in named if name in trained] if trains_on_gpu else []
    if shared:
        raise ConfigError(
            f"{setting}, but the training runs on {', '.join(trained)}; list others, or start fewer "
            "processes, which take the first GPUs (accelerate launch --multi_gpu --num_processes N)"
        )
    return _groups(named, gpus)


def _visible() -> list[str]:
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        # As CUDA: a negative number hides what follows it, and -1 alone hides all.
        parts = takewhile(lambda part: not part.strip().startswith("-"), named.split(","))
        return [device for part in parts if (device := part.strip())]
    import torch

    return list(map(str, range(torch.cuda.device_count())))


def _groups(devices: Sequence[str], gpus: int) -> list[str]:
    starts = range(0, len(devices) - gpus + 1, gpus)
    return [",".join(devices[start : start + gpus]) for start in starts]
