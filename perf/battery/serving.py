"""(i) vLLM, where it is installed: tokens a second, and what it takes to load another adapter."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from perf.battery.cases import Bench, Case, Figures, Skip
from perf.battery.measuring import on_gpu
from perf.battery.world import make_adapter

TITLE = "vLLM serving the same weights"
START_SECONDS = 400


def cases(bench: Bench) -> list[Case]:
    return [Case("serve, write, reload", lambda: serve(bench))]


def python_with_vllm() -> str:
    """The interpreter of the environment with vLLM: $VLLM_PYTHON, or this one. Raises Skip."""
    python = os.environ.get("VLLM_PYTHON", sys.executable)
    try:
        done = subprocess.run([python, "-c", "import vllm"], capture_output=True, text=True)
    except OSError as error:
        raise Skip(f"VLLM_PYTHON: {python} cannot be run ({error})") from None
    if done.returncode != 0:
        raise Skip(
            f"vLLM is not installed for {Path(python).name}: name the interpreter of an environment that has "
            "it, as in VLLM_PYTHON=ENV/bin/python"
        )
    return python


@contextlib.contextmanager
def server(bench: Bench, python: str) -> Iterator[str]:
    """A server of the checkpoint, with adapters that can be loaded while it runs; its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        *(python, "-m", "vllm.entrypoints.openai.api_server", "--model", str(bench.checkpoint())),
        *("--served-model-name", "base", "--host", "127.0.0.1", "--port", str(port)),
        *(
            "--max-model-len",
            "4096",
            "--dtype",
            bench.shapes.dtype,
            "--max-num-seqs",
            str(max(bench.shapes.rows)),
        ),
        *("--enable-lora", "--max-lora-rank", str(max(8, bench.shapes.lora_rank)), "--max-loras", "2"),
        # Only text is sent: no memory is set aside for pictures.
        *("--limit-mm-per-prompt", '{"video": 0, "image": 0}'),
        *(() if on_gpu() else ("--enforce-eager",)),
    ]
    environment = {
        **os.environ,
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1",
        "VLLM_CPU_KVCACHE_SPACE": "2",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "HF_HUB_OFFLINE": "1",
    }
    log = bench.path("vllm.log")
    with log.open("w") as output:
        process = subprocess.Popen(
            command, env=environment, stdout=output, stderr=output, start_new_session=True
        )
        url = f"http://127.0.0.1:{port}"
        try:
            ended = time.monotonic() + START_SECONDS
            while not _answers(url):
                if process.poll() is not None or time.monotonic() > ended:
                    raise RuntimeError(f"vLLM did not start: {log.read_text()[-2000:]}")
                time.sleep(1)
            yield url
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=5) as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _post(url: str, content: dict[str, Any]) -> bytes:
    request = urllib.request.Request(
        url, json.dumps(content).encode(), {"Content-Type": "application/json"}, method="POST"
    )
    with urllib.request.urlopen(request, timeout=600) as reply:
        return bytes(reply.read())


def serve(bench: Bench) -> Figures:
    """Start, write at each number of rows, load the adapter under a new name, write with it."""
    python = python_with_vllm()
    shapes, results = bench.shapes, {}
    adapter = make_adapter(bench)
    began = time.monotonic()
    with server(bench, python) as url:
        results["start_s"] = round(time.monotonic() - began, 1)

        def write(model: str, rows: int) -> float:
            content = {
                "model": model,
                "prompt": "Describe the ring.",
                "max_tokens": shapes.reply,
                "temperature": 1.0,
                "ignore_eos": True,
            }
            start = time.monotonic()
            with concurrent.futures.ThreadPoolExecutor(rows) as threads:
                list(threads.map(lambda _: _post(f"{url}/v1/completions", content), range(rows)))
            return rows * shapes.reply / (time.monotonic() - start)

        write("base", 1)
        for rows in shapes.rows:
            results[f"tokens_per_s_{rows}_rows"] = round(write("base", rows), 1)
        start = time.monotonic()
        _post(f"{url}/v1/load_lora_adapter", {"lora_name": "first", "lora_path": str(adapter)})
        results["load_adapter_s"] = round(time.monotonic() - start, 2)
        write("first", 1)
        start = time.monotonic()
        _post(f"{url}/v1/load_lora_adapter", {"lora_name": "second", "lora_path": str(adapter)})
        _post(f"{url}/v1/unload_lora_adapter", {"lora_name": "first"})
        results["reload_adapter_s"] = round(time.monotonic() - start, 2)
        rows = shapes.rows[-1]
        results[f"tokens_per_s_{rows}_rows_adapter"] = round(write("second", rows), 1)
    return results
