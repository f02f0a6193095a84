"""perf/flow.py: the engine of known speed takes the time that its model says, and runs are measured."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from perf.flow import FlowSettings, add_beside, engine, measure
from perf.flow_bench import BenchSettings, record
from perf.flow_engine import Engine, step_seconds
from perf.flow_lmms import LmmsFlowSettings, arguments
from perf.flow_load import EngineLoad
from perf.flow_server import PROGRAMS, letter, read_request, written
from perf.flow_world import make_questions
from perf.lmms_eval import write_task
from tests.support import ROOT
from videopro.errors import ConfigError
from videopro.program import parse_program


def test_the_time_of_a_step() -> None:
    """Worked out by hand from the sizes of the model and the card."""
    # 16.4 GB at 2.5125 TB/s.
    assert step_seconds(1, 0, 0, 0) == pytest.approx(0.00653 + 0.001, abs=1e-5)
    # 64 requests of 2,000 tokens read 147,456 bytes for each: 18.9 GB more.
    assert step_seconds(64, 128_000, 0, 0) == pytest.approx(0.01404 + 0.001, abs=1e-5)
    # 1,568 tokens of pictures and 350 of text: 31.5 and 7.3 TFLOP at 494.5 a second.
    assert step_seconds(0, 0, 350, 1568) == pytest.approx(0.0636 + 0.0147 + 0.001, abs=1e-4)


class Virtual:
    """An engine in a time of its own, which passes only in its steps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.engine = Engine(clock=lambda: self.now, sleep=self._sleep)

    async def _sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)

    def run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def both() -> None:
            stepping = asyncio.create_task(self.engine.run())
            await work()
            stepping.cancel()

        asyncio.run(both())


def test_requests_are_answered_together_and_counted() -> None:
    virtual = Virtual()

    async def two() -> None:
        short, long = virtual.engine.serve(100, 0, 0, 1), virtual.engine.serve(100, 0, 0, 3)
        await asyncio.gather(short, long)

    virtual.run(two)
    first = step_seconds(0, 0, 200, 0)
    # The first step reads both prompts and ends the short reply; the long one takes two more by itself.
    later = step_seconds(1, 101, 0, 0) + step_seconds(1, 102, 0, 0)
    stats = virtual.engine.stats
    assert virtual.now == pytest.approx(first + later)
    assert stats.busy_s == pytest.approx(first + later)
    assert stats.request_s == pytest.approx(2 * first + later)
    assert (stats.requests, stats.steps, stats.prompt_tokens, stats.reply_tokens) == (2, 3, 200, 4)


def test_pictures_are_read_once_and_long_prompts_in_parts() -> None:
    virtual = Virtual()

    async def one_after_the_other() -> None:
        await virtual.engine.serve(50, 12_000, 7, 1)
        assert virtual.engine.stats.steps == 2
        await virtual.engine.serve(60, 12_000, 7, 1)

    virtual.run(one_after_the_other)
    assert virtual.engine.stats.prompt_tokens == 12_000 + 50 + 60
    assert virtual.now == pytest.approx(
        step_seconds(0, 0, 0, 8192) + step_seconds(0, 0, 50, 3808) + step_seconds(0, 0, 60, 0)
    )


def test_requests_are_read_and_answered() -> None:
    video = {"type": "video_url", "video_url": {"url": "data:video/jpeg;base64,AA,BB,CC"}}
    asked = {"messages": [{"role": "user", "content": [video, {"type": "text", "text": "Which?"}]}]}
    text, frames, pairs, pictures = read_request(asked)
    assert (text, frames, pairs) == ("Which?", 3, True)
    assert read_request(asked)[3] == pictures != 0
    assert read_request({"messages": [{"role": "user", "content": "Which?"}]}) == ("Which?", 0, False, 0)
    first = letter("Which?\nReply with the letter of the right option only.", 2)["choices"][0]
    assert first["message"]["content"] == "C"
    assert len(first["logprobs"]["content"][0]["top_logprobs"]) == 20
    assert letter("Is it?\nReply with Yes or No only.", 1)["choices"][0]["message"]["content"] == "No"
    for draw, code in enumerate(PROGRAMS):
        program = parse_program(written("<code>", draw)["choices"][0]["message"]["content"])
        assert program.code.strip() == code
        assert not program.faults


def test_a_run_is_measured_one_video_at_a_time_and_many(tmp_path: Path) -> None:
    output = tmp_path / "flow.json"
    measure(
        FlowSettings(only=("videopro",), videos=3, alone=1, in_flight=3, frames=4, pixels=4096, output=output)
    )
    results = json.loads(output.read_text())["results"]
    one, many = results["videopro, 1 in flight"], results["videopro, 3 in flight"]
    assert len(results) == 2
    for row in (one, many):
        assert row["questions"] == 2 * row["videos"]
        assert 0 < row["busy_pct"] <= 100
        assert row["requests_a_question"] >= 2
        assert row["client_cpu_s_a_question"] > 0
    assert many["mean_requests"] > one["mean_requests"] > 0


def test_lmms_eval_is_asked_for_the_same(tmp_path: Path) -> None:
    given = LmmsFlowSettings(tmp_path / "flow.json", frames=16, pixels=15_360, in_flight=8)
    words = arguments(given, "http://127.0.0.1:1", tmp_path)
    model = dict(pair.split("=") for pair in words[words.index("--model_args") + 1].split(","))
    assert model["base_url"] == "http://127.0.0.1:1/v1"
    assert (model["nframes"], model["max_pixels"], model["num_cpus"]) == ("16", "15360", "8")
    make_questions(tmp_path, videos=1, each=2)
    rows = write_task(tmp_path, tmp_path)
    assert [Path(row["video"]).name for row in rows] == ["0.mp4", "0.mp4"]
    assert all(row["prompt"].endswith("Reply with the letter of the right option only.") for row in rows)


SENDS = """
import enum
class TaskType(enum.Enum):
    GENERATION = "generation"
async def benchmark(*, input_requests, max_concurrency, model_id, api_url, **given):
    assert (max_concurrency, model_id, api_url) == (8, "pocket", "http://127.0.0.1:1/v1/chat/completions")
    assert all(request.chat_messages[0]["content"] for request in input_requests)
    assert {request.expected_output_len for request in input_requests} == {1}
    assert not any({"model", "messages"} & set(request.request_overrides) for request in input_requests)
    return {"duration": 0.5, "completed": len(input_requests), "request_throughput": 8.0, "input_lens": []}
"""
SAMPLES = """
from types import SimpleNamespace as SampleRequest
"""


def test_the_engines_own_client_sends_the_requests_of_a_run(tmp_path: Path) -> None:
    given = BenchSettings(
        tmp_path / "flow.json", "python", "http://127.0.0.1:1", "pocket", videos=2, each=2, in_flight=8,
        frames=4, pixels=4096,
    )  # fmt: skip
    kept = record(given, tmp_path)
    bodies = [json.loads(line) for line in kept.read_text().splitlines()]
    assert len(bodies) == 4, "of the measured pass alone"
    assert [read_request(body)[1] for body in bodies] == [4] * 4
    assert {body["max_tokens"] for body in bodies} == {1}
    package = tmp_path / "environment" / "vllm" / "benchmarks"
    package.mkdir(parents=True)
    for path, text in ((package.parent / "__init__.py", ""), (package / "__init__.py", ""),
                       (package / "serve.py", SENDS), (package / "datasets.py", SAMPLES)):  # fmt: skip
        path.write_text(text)
    client = str(ROOT / "perf" / "flow_bench_client.py")
    times = tmp_path / "times.json"
    words = [client, str(kept), "http://127.0.0.1:1", "pocket", "8", str(times)]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "environment")}
    subprocess.run([sys.executable, *words], check=True, env=environment)
    assert json.loads(times.read_text()) == {"duration": 0.5, "completed": 4, "request_throughput": 8.0}


def test_another_clients_row_joins_results_of_the_same_engine_alone(tmp_path: Path) -> None:
    output = tmp_path / "flow.json"
    same = {"engine": "http://127.0.0.1:1", "frames": 16}

    def never() -> dict[str, Any]:
        raise AssertionError("measured in vain")

    with pytest.raises(ConfigError, match=r"flow\.json: has no results of perf/flow\.py"):
        add_beside(output, same, "vllm_bench", "native-10", never)
    recorded = {**same, "results": {"native-10": {"questions": 1}}}
    output.write_text(json.dumps(recorded))
    with pytest.raises(ConfigError, match="was recorded with frames 16, and this is 64"):
        add_beside(output, {**same, "frames": 64}, "vllm_bench", "native-10", never)
    for name in ("native-1", "native-10"):
        add_beside(output, same, "vllm_bench", name, lambda: {"questions": 2})
    rows = {"native-1": {"questions": 2}, "native-10": {"questions": 2}}
    assert json.loads(output.read_text()) == {**recorded, "vllm_bench": rows}


def test_an_engine_that_nobody_asked_has_no_load() -> None:
    with engine(4096) as url:
        load = EngineLoad(url, is_live=False)
        load.start(speed=1.0)
        with pytest.raises(RuntimeError, match="no request came"):
            load.stop()


class Metrics(BaseHTTPRequestHandler):
    """Each look adds an answered request, which took two seconds."""

    looks = 0

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        Metrics.looks += 1
        said = (
            "# HELP vllm:e2e_request_latency_seconds Histogram.\n"
            f'vllm:e2e_request_latency_seconds_count{{engine="0",model_name="m"}} {Metrics.looks}\n'
            f'vllm:e2e_request_latency_seconds_sum{{engine="0",model_name="m"}} {2 * Metrics.looks}\n'
            f'vllm:request_success_total{{finished_reason="stop"}} {Metrics.looks}\n'
            'vllm:request_success_total{finished_reason="length"} 1.0\n'
            "vllm:prompt_tokens_total 10.0\nvllm:generation_tokens_total 3.0\n"
        ).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def do_POST(self) -> None:
        self.send_error(404)


def test_a_live_engines_load_is_read_from_its_metrics() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Metrics)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    load = EngineLoad(f"http://127.0.0.1:{server.server_port}", is_live=True)
    load.start(speed=1.0)
    threading.Event().wait(0.5)
    found = load.stop()
    server.shutdown()
    server.server_close()
    assert found.requests == Metrics.looks - 1 > 2
    assert found.request_s == 2 * found.requests
    # The first one began two seconds before it was answered.
    assert 2.3 < found.seconds < 3
    assert (found.prompt_tokens, found.reply_tokens) == (0, 0)
    # Of this process, which serves.
    assert found.cpu_s is not None
    assert 0 < found.cpu_s < 2
    figures = found.figures(found.requests)
    assert figures["questions_per_s"] == pytest.approx(found.requests / found.seconds, abs=0.01)
    assert figures["mean_requests"] == pytest.approx(2 * found.requests / found.seconds, abs=0.1)
    assert "busy_pct" not in figures
