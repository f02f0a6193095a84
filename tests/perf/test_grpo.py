"""perf/grpo.py: its ceiling and table from given times, the rows it selects, and its clock."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from perf.grpo import ceiling, make_rows, measure_in_turn, table
from perf.grpo_timed import Clock

# A rollout of 10 s: 4 sampling (1 of them the prompt's pass), 1 waiting for rewards, 5 the update.
PLAIN = {
    "rollouts_per_s": 0.1,
    "step_s": 10.0,
    "sampling_s": 4.0,
    "prefill_s": 1.0,
    "rewards_s": 1.0,
    "update_s": 5.0,
    "prompt_tokens": 300.0,
    "reply_tokens": 100.0,
}


def test_ceiling() -> None:
    found = ceiling(PLAIN, 4)
    # Three of four passes over a prompt can go: 0.75 of 1 s, and 0.75 of the prompt's 3/4 of 5 s.
    assert found["share of rewards"] == pytest.approx(0.1)
    assert found["share of prompts in sampling"] == pytest.approx(0.075)
    assert found["share of prompts in the update"] == pytest.approx(0.75 * 0.75 * 5 / 10)
    assert found["times"] == pytest.approx(10 / (10 - 1 - 0.75 - 2.8125))


def test_table_has_one_line_per_variant() -> None:
    lines = table({"plain": PLAIN, "ours": {**PLAIN, "rollouts_per_s": 0.25}}).splitlines()
    assert [line.split()[0] for line in lines] == ["rollouts/s", "plain", "ours"]
    assert lines[2].split()[1:3] == ["0.250", "2.50"]
    assert lines[1].endswith("300 + 100")


def test_variants_are_measured_in_order_and_in_reverse() -> None:
    asked = []

    def one(way: str) -> dict[str, float]:
        asked.append(way)
        return {"step_s": float(len(asked)), "rollouts_per_s": 1 / len(asked)}

    found = measure_in_turn(["a", "b"], one)
    assert asked == ["a", "b", "b", "a"]
    # Of 1 and 4 s, and of 2 and 3 s.
    assert [found[way]["step_s"] for way in ("a", "b")] == [2.5, 2.5]
    assert found["a"]["rollouts_per_s"] == 1 / 2.5
    assert [each["step_s"] for each in found["a"]["passes"]] == [1.0, 4.0]


def test_rows_are_two_plans_per_video(tmp_path: Path) -> None:
    def row(name: str, video: str, **changes: Any) -> dict[str, Any]:
        whole = {"id": name, "video": video, "kind": "plan", "oracle_mode": "native", "subtitles": None}
        return {**whole, **changes}

    given = [
        row("a1", "a.mp4", subtitles="a.srt"),
        row("a1-fix", "a.mp4", kind="bug_fix"),
        row("b1", "b.mp4"),
        row("a2", "a.mp4"),
        row("a3", "a.mp4"),
        row("c1", "c.mp4"),
        row("c2", "c.mp4", oracle_mode=None),
        row("d1", "d.mp4"),
        row("d2", "d.mp4"),
    ]
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "grpo.jsonl").write_text("".join(json.dumps(line) + "\n" for line in given))
    taken = make_rows(tmp_path / "data" / "grpo.jsonl", tmp_path, 4)
    # Left out: b has one plan, and c has one with an oracle mode.
    assert [line["id"] for line in taken] == ["a1", "a2", "d1", "d2"]
    assert taken[0]["subtitles"] == str(tmp_path / "data" / "a.srt")
    written = [json.loads(line) for line in (tmp_path / "grpo.jsonl").read_text().splitlines()]
    assert written == taken
    with pytest.raises(SystemExit, match="give --rows 4"):
        make_rows(tmp_path / "data" / "grpo.jsonl", tmp_path, 6)


def test_clock_times_parts_separately(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("perf.grpo_timed._now", lambda: now[0])
    clock = Clock()

    class Ids:
        def __init__(self, width: int) -> None:
            self.shape = (2, width)

    def pass_time(seconds: float) -> None:
        now[0] += seconds

    forward = clock.around("prefill", lambda seconds, input_ids: pass_time(seconds), within="generate")
    rewards = clock.around("rewards", lambda: (pass_time(2.0), forward(4.0, input_ids=Ids(9))))

    def generate() -> None:
        forward(1.0, input_ids=Ids(9))
        forward(0.25, input_ids=Ids(1))  # one token, not a prompt
        rewards()

    clock.around("generate", generate)()
    forward(8.0, input_ids=Ids(9))
    # Passes inside rewards and in the update are not the policy's prefill.
    assert dict(clock.spent) == {"prefill": 1.0, "rewards": 6.0, "generate": 7.25}
