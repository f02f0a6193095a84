"""The simulation of perf/scale.py against cases that are worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perf.scale_model import Clock, Machine, Server, Stage, simulate

MACHINE = Machine(
    gpus=2, cpus_per_gpu=4, disk_bandwidth=1e9, weights=10e9, start_s=20.0, give_s=0.0, receive_s=0.0
)
STAGE = Stage(
    parts=5,
    video_cpu_s=0.0,
    part_cpu_s=0.0,
    part_gpu_s=1.0,
    bytes_read=0.0,
    results=5,
    in_order=False,
    in_flight=2,
    spread=0.0,
)


def test_a_server_serves_in_order_with_its_places() -> None:
    clock, ends = Clock(), []
    server = Server(clock, places=2)
    for seconds in (3.0, 1.0, 1.0):
        server.ask(seconds, lambda: ends.append(clock.now))
    clock.run()
    assert ends == [1.0, 2.0, 3.0]
    assert server.busy_s == 5.0


def test_the_gpus_are_the_limit() -> None:
    """10 s for the weights, 20 s to start; then 40 videos of 5 s on 2 GPUs. Two nodes share the disk."""
    found = simulate(1, 40, MACHINE, STAGE)
    assert found.seconds == pytest.approx(10 + 20 + 40 * 5 / 2)
    assert found.start_s == pytest.approx(30)
    assert found.limit == "GPU"
    assert simulate(2, 40, MACHINE, STAGE).seconds == pytest.approx(20 + 20 + 40 * 5 / 4, abs=1)


def test_decoding_in_order_is_the_limit() -> None:
    """Two videos in flight are two CPUs at work: 5 parts of 4 s each, and the last part's GPU."""
    found = simulate(1, 4, MACHINE, replace(STAGE, in_order=True, part_cpu_s=4.0))
    assert found.seconds == pytest.approx(30 + 5 * 4 + 1, abs=1)
    together = simulate(1, 4, MACHINE, replace(STAGE, part_cpu_s=4.0))
    # 10 parts on 4 CPUs: three rounds.
    assert together.seconds == pytest.approx(30 + 3 * 4 + 2, abs=1.5)


def test_the_driver_is_the_limit() -> None:
    found = simulate(4, 200, replace(MACHINE, receive_s=0.5), replace(STAGE, part_gpu_s=0.01))
    assert found.seconds == pytest.approx(40 + 20 + 200 * 5 * 0.5, rel=0.02)
    assert found.limit == "driver"


def test_the_disk_is_the_limit() -> None:
    found = simulate(4, 200, MACHINE, replace(STAGE, part_gpu_s=0.01, bytes_read=2e9))
    assert found.seconds == pytest.approx(40 + 20 + 200 * 2, rel=0.02)
    assert found.limit == "disk"


def test_a_spread_keeps_the_mean_and_is_drawn_from_the_seed() -> None:
    even = simulate(1, 2000, MACHINE, STAGE)
    spread = simulate(1, 2000, MACHINE, replace(STAGE, spread=0.5))
    assert spread.seconds == pytest.approx(even.seconds, rel=0.03)
    assert spread == simulate(1, 2000, MACHINE, replace(STAGE, spread=0.5))
    assert spread != simulate(1, 2000, MACHINE, replace(STAGE, spread=0.5), seed=1)
