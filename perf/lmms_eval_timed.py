"""Runs lmms-eval's command line and writes what its `generate_until` took, for perf/lmms_eval.py.

    ENV/bin/python perf/lmms_eval_timed.py TIMES.json [arguments of lmms-eval]

Runs in lmms-eval's environment, which has no VideoPro.
"""

from __future__ import annotations

import importlib
import json
import platform
import sys
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

# In place of this file's folder, where lmms_eval.py is another module than the package.
if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from perf.timing import timed

PACKAGES = ("lmms_eval", "torch", "transformers", "qwen-vl-utils", "decord")


def run(times: Path, arguments: Sequence[str]) -> None:
    """Run lmms-eval's command line in this process, and write what its `generate_until` took."""
    began = time.perf_counter()
    models = importlib.import_module("lmms_eval.models")
    model_class = models.get_model("qwen3_vl", force_simple=False)
    answer = model_class.generate_until
    tokens: list[int] = []
    grids: list[list[int]] = []
    model_s: list[float] = []

    def answer_timed(self: Any, requests: Sequence[Any]) -> Any:
        model = self.model
        generate = model.generate

        def noting(**inputs: Any) -> Any:
            start = time.perf_counter()
            reply = generate(**inputs)
            model_s.append(time.perf_counter() - start)
            tokens.append(inputs["input_ids"].shape[1])
            grids.append(inputs["video_grid_thw"][0].tolist())
            return reply

        model.generate = noting
        start = time.perf_counter()
        with timed() as spent:
            replies = answer(self, requests)
        timing = {
            "seconds": spent.wall_s,
            "cpu_s": spent.cpu_s,
            "start_and_load_s": start - began,
            "model_s": model_s,
            "prompt_tokens": tokens,
            "grids": grids,
            "class": f"{model_class.__module__}.{model_class.__qualname__}",
            "dtype": str(model.dtype).removeprefix("torch."),
            "versions": {"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}},
        }
        times.write_text(json.dumps(timing), encoding="utf-8")
        return replies

    model_class.generate_until = answer_timed
    sys.argv = ["lmms_eval", *arguments]
    importlib.import_module("lmms_eval.cli.dispatch").main()


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


if __name__ == "__main__":
    run(Path(sys.argv[1]), sys.argv[2:])
