"""Sends requests to an engine with vLLM's own benchmark client, for perf/flow_bench.py.

    ENGINE/bin/python perf/flow_bench_client.py REQUESTS.jsonl URL MODEL IN_FLIGHT TIMES.json

Runs in the engine's environment, which has no VideoPro. Writes vLLM's own figures.
"""

from __future__ import annotations

import asyncio
import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any


def run(requests: Path, url: str, model: str, in_flight: int, times: Path) -> None:
    """Send the requests, `in_flight` at a time, and write what they took."""
    serve = import_module("vllm.benchmarks.serve")
    sample: Any = import_module("vllm.benchmarks.datasets").SampleRequest
    bodies = [json.loads(line) for line in requests.read_text(encoding="utf-8").splitlines()]
    asked = []
    for number, body in enumerate(bodies):
        messages = body.pop("messages")
        del body["model"]
        asked.append(
            sample(
                prompt="",
                prompt_len=1,
                expected_output_len=body["max_tokens"],
                request_id=str(number),
                chat_messages=messages,
                request_overrides=body,
            )
        )
    figures = asyncio.run(
        serve.benchmark(
            task_type=serve.TaskType.GENERATION,
            endpoint_type="openai-chat",
            api_url=f"{url}/v1/chat/completions",
            base_url=url,
            model_id=model,
            model_name=model,
            tokenizer=None,
            input_requests=asked,
            logprobs=None,
            request_rate=float("inf"),
            burstiness=1.0,
            disable_tqdm=True,
            num_warmups=0,
            profile=False,
            selected_percentile_metrics=["ttft"],
            selected_percentiles=[50.0],
            ignore_eos=False,
            goodput_config_dict={},
            max_concurrency=in_flight,
            lora_modules=None,
            extra_headers=None,
            extra_body=None,
        )
    )
    wanted = ("duration", "completed", "request_throughput")
    times.write_text(json.dumps({name: figures[name] for name in wanted}), encoding="utf-8")


if __name__ == "__main__":
    run(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]), Path(sys.argv[5]))
