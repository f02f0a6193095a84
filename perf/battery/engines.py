"""(i) Which engine: what part (f) and a GRPO step take by vLLM, where it is installed, and transformers'
continuous batching, which takes the tokens of our models, and no frames. Each vLLM is started for its case,
which leaves a minute of 150 seconds for the work: the GRPO step is the first one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import ContinuousBatchingConfig, GenerationConfig

from perf.battery import grpo_step, inference
from perf.battery.cases import Bench, Case, Figures, Skip
from perf.battery.measuring import now, on_gpu, peak_gib, reset_peak
from perf.battery.world import question
from videopro.backbones import GenerateRequest, Sampling, read_spec
from videopro.backbones.qwen import QwenBackbone, load_model
from videopro.question import prompts

TITLE = "Engines: the same questions by vLLM as by ours in (f) and (d), and by continuous batching"
_START_SECONDS = 400


def cases(bench: Bench) -> list[Case]:
    return [
        Case("text alone, ours", partial(write, bench, ours)),
        Case("text alone, transformers' continuous batching", partial(write, bench, continuous)),
        Case("synthesis, ours", partial(inference.synthesize, bench)),
        Case("synthesis, vLLM", lambda: inference.synthesize(bench, flags())),
        *(Case(f"{way}, vLLM", partial(infer, bench, way)) for way in inference.WAYS),
        Case("a GRPO step as shipped, vLLM", partial(train, bench)),
    ]


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


def settings() -> dict[str, Any]:
    """Of the engine that a command starts. Raises Skip."""
    more = {} if on_gpu() else {"flags": "--enforce-eager"}
    return {"program": python_with_vllm(), "start_seconds": _START_SECONDS, **more}


def flags() -> list[str]:
    """Those of a command that starts the engine. Raises Skip."""
    return ["--engine", "vllm", "--vllm", *(f"{name}={value}" for name, value in settings().items())]


def infer(bench: Bench, way: str) -> Figures:
    """A way of (f), by an engine that the command starts."""
    return inference.infer(bench, way, flags())


def train(bench: Bench) -> Figures:
    """The step of (d), its replies by an engine that the training starts."""
    return grpo_step.step(bench, steps=1, sampler="vllm", vllm=json.dumps(settings()))


def write(bench: Bench, writing: Any) -> Figures:
    """As many replies as a GRPO step has, to prompts without a video, of several widths."""
    shapes = bench.shapes
    texts = [
        prompts.plan(question(number)) + " ring" * shapes.mixed[number % len(shapes.mixed)]
        for number in range(shapes.rows[-1])
    ]
    loaded = load_model(read_spec(str(bench.ending_checkpoint()), dtype=shapes.backbone_dtype))
    write_all = writing(loaded, len(texts))
    write_all(texts[:2], shapes.mean)  # Warms up.
    reset_peak()
    began = now()
    tokens = write_all(texts, shapes.longest)
    seconds = now() - began
    return {
        "replies": len(texts),
        "reply_tokens": round(tokens / len(texts)),
        "tokens_per_s": round(tokens / seconds, 1),
        "s": round(seconds, 2),
        "peak_gib": peak_gib(),
    }


def ours(loaded: Any, rows: int) -> Any:
    """Writes replies of at most `longest` tokens with our own engine; returns how many they have."""
    backbone = QwenBackbone.from_loaded(loaded, name="random", batch_size=rows)

    def write_all(texts: list[str], longest: int) -> int:
        requests = [GenerateRequest(None, text, number) for number, text in enumerate(texts)]
        replies = backbone.generate_batch(requests, Sampling(longest, temperature=1.0))
        return sum(len(reply.token_ids) for reply in replies)

    return write_all


def continuous(loaded: Any, rows: int) -> Any:
    """The same with transformers' own."""
    model, tokenizer = loaded.model, loaded.processor.tokenizer
    config = GenerationConfig(
        do_sample=True,
        temperature=1.0,
        top_k=0,
        eos_token_id=model.generation_config.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    # By default it takes nearly all memory that is free, on a CPU too.
    room = ContinuousBatchingConfig(max_memory_percent=0.4)

    def write_all(texts: list[str], longest: int) -> int:
        config.max_new_tokens = longest
        turns = [[{"role": "user", "content": [{"type": "text", "text": text}]}] for text in texts]
        ids = [tokenizer(loaded.processor.apply_chat_template(turn, add_generation_prompt=True)).input_ids
               for turn in turns]  # fmt: skip
        with torch.inference_mode():
            written = model.generate_batch(ids, generation_config=config, continuous_batching_config=room)
        return sum(len(reply.generated_tokens) for reply in written.values())

    return write_all
