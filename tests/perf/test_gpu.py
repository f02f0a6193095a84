"""perf/gpu.py: every part on tiny shapes, and what is reported when a case or its process ends early."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoModelForImageTextToText

from perf.battery import flops, wheels
from perf.battery.cases import Bench, Case, Record, Skip, run_cases
from perf.battery.parts import MODULES, load_part
from perf.battery.results import table, tables, write_results
from perf.battery.shapes import QWEN3VL_2B, QWEN3VL_8B, TINY, model_config
from perf.gpu import run_part
from tests.support import ROOT

SMALL = dataclasses.replace(
    TINY, batches=(2,), rows=(4,), packed=(16,), clips=4, clip_batches=(2,), videos=1, questions=2, reply=8
)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(SMALL, tmp_path_factory.mktemp("gpu"))


def figures(bench: Bench, letter: str) -> dict[str, dict[str, Any]]:
    """What a part's cases return; those that cannot run here are left out."""
    found = {}
    for case in load_part(letter).cases(bench):
        try:
            found[case.name] = case.run()
        except Skip:
            continue
    json.dumps(found)
    return found


def test_a_fine_tuning_step(bench: Bench) -> None:
    (step,) = figures(bench, "a").values()
    assert step["step_s"] > 0
    assert 0 < step["vision_share"] < 1
    assert step["mfu"] is None or torch.cuda.is_available()
    # 16 frames of 96 x 160 pixels are 8 pairs of 3 x 5 tokens; the prompt and the reply are the rest.
    assert 120 < step["tokens_a_row"] < 1000


def test_writing(bench: Bench) -> None:
    found = figures(bench, "b")
    assert list(found) == [f"4 rows, adapter {adapter}" for adapter in ("off", "on", "merged")]
    for row in found.values():
        assert row["tokens_per_s"] == pytest.approx(4 * 1000 / row["ms_a_token"], rel=0.01)


def test_packed_updates(bench: Bench) -> None:
    shared, apart = figures(bench, "c").values()
    assert shared["prompt_tokens"] == apart["prompt_tokens"]
    assert "attention" in shared["attention"]


def test_a_grpo_step_with_programs_beside_it(bench: Bench) -> None:
    found = figures(bench, "d")
    replies = SMALL.group * SMALL.groups
    assert [step["replies"] for step in found.values()] == [replies] * 3
    # Two steps of prepared programs; the case without programs runs none.
    assert [step["programs"] for step in found.values()] == [0, 2 * replies, 2 * replies]
    assert all(step["update_s"] > 0 for step in found.values())


def test_log_probabilities_three_ways_agree_in_fp32(bench: Bench) -> None:
    (found,) = figures(bench, "e").values()
    for name, value in found.items():
        assert value < 1e-4, name


def test_inference(bench: Bench) -> None:
    found = figures(bench, "f")
    # Three workers need three videos.
    assert list(found) == ["native, 1 worker", "videopro, 1 worker"]
    for run in found.values():
        assert (run["questions"], run["videos"]) == (2, 1)
        assert 0 <= run["idle_share"] <= 1


def test_the_clip_encoder(bench: Bench) -> None:
    found = figures(bench, "g")
    assert list(found) == ["float32, batch 2", "bfloat16, batch 2"]
    assert all(row["clips"] == 4 and row["index_clips_per_s"] > 0 for row in found.values())


def test_deepspeed(bench: Bench) -> None:
    found = figures(bench, "h")
    assert found["import without CUDA_HOME"]["imports"]
    if "ZeRO-2 step" in found:  # Left out where there is no compiler.
        assert found["ZeRO-2 step"]["loss"] > 0


def test_vllm_is_named_where_it_is_missing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_PYTHON", "/nowhere/python")
    (case,) = load_part("i").cases(bench)
    with pytest.raises(Skip, match="VLLM_PYTHON: /nowhere/python cannot be run"):
        case.run()


def test_a_step_of_an_engine(bench: Bench) -> None:
    found = figures(bench, "j")
    assert list(found) == [
        "one token each of 1 replies",
        "one token each of 4 replies",
        "a prompt of 64 text tokens",
        "the vision tower, 16 frames",
    ]
    # 16 frames of 96 x 160 pixels: 8 pairs of 6 x 10 patches.
    assert found["the vision tower, 16 frames"]["patches"] == 480
    assert all(row["kernel_ms"] > 0 for row in found.values())


def test_shapes_are_the_published_models() -> None:
    """Their weights, counted on no device: 2.1 and 8.8 billion."""
    for shapes, billions in ((QWEN3VL_2B, 2.13), (QWEN3VL_8B, 8.77)):
        with torch.device("meta"):
            model = AutoModelForImageTextToText.from_config(model_config(shapes))
        assert sum(weight.numel() for weight in model.parameters()) / 1e9 == pytest.approx(billions, abs=0.01)


def test_operations_are_those_that_torch_counts() -> None:
    config = model_config(TINY)
    # Eager attention is matrix products, which torch counts on every device.
    model = AutoModelForImageTextToText.from_config(config, attn_implementation="eager").model
    ids, pixels = torch.zeros((2, 50), dtype=torch.long), torch.tensor([[4, 6, 10]])
    with FlopCounterMode(display=False) as language:
        model.language_model(input_ids=ids)
    counted = language.get_total_flops()
    # torch counts attention in full, not the causal half of it.
    text = config.get_text_config()
    half = 2 * text.num_hidden_layers * 4 * text.num_attention_heads * text.head_dim * 50 * 49 / 2
    assert flops.language_forward(config, [50, 50], 0) == pytest.approx(counted - half, rel=0.01)
    vision = config.vision_config
    width = 3 * vision.temporal_patch_size * vision.patch_size**2
    with FlopCounterMode(display=False) as tower:
        model.visual(torch.zeros((4 * 60, width)), pixels)
    assert flops.vision_forward(config, 240, 60) == pytest.approx(tower.get_total_flops(), rel=0.01)


# ---- cases that end early ----------------------------------------------------------------------------------


@pytest.fixture
def record(tmp_path: Path) -> Record:
    return Record(tmp_path / "cases.jsonl")


def exhaust() -> dict[str, Any]:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")


def exhaust_inside() -> dict[str, Any]:
    try:
        torch.empty(1 << 58)
    except RuntimeError as error:
        raise ValueError("backbone 'x' ran out of memory") from error
    raise AssertionError("a tensor of 2**58 numbers fits")


def exhaust_files() -> dict[str, Any]:
    raise OSError("unable to mmap 42 bytes from file <model>: Cannot allocate memory (12)")


@pytest.mark.parametrize("fail", [exhaust, exhaust_inside, exhaust_files])
def test_a_lack_of_memory_ends_its_case_alone(record: Record, fail: Callable[[], dict[str, Any]]) -> None:
    run_cases("a", [Case("large", fail), Case("small", lambda: {"s": 1})], record)
    found = record.read()["a"]
    assert found["small"]["figures"] == {"s": 1}
    message = found["large"]["failed"]
    assert message.startswith("out of memory for 20.00 GiB more: " if fail is exhaust else "out of memory: ")
    assert "GiB" in message
    assert message.endswith("give the same command with --redo a")
    assert message in table("SFT", found)


def test_another_error_ends_its_case_alone(record: Record, capsys: pytest.CaptureFixture[str]) -> None:
    run_cases("a", [Case("broken", lambda: {"s": 1 / 0}), Case("sound", lambda: {"s": 1})], record)
    found = record.read()["a"]
    assert found["broken"]["failed"] == "ZeroDivisionError: division by zero"
    assert found["sound"]["figures"] == {"s": 1}
    assert "Traceback" in capsys.readouterr().err


def test_cases_that_ended_are_not_repeated(record: Record) -> None:
    ran = []

    def case(name: str) -> Case:
        return Case(name, lambda: ran.append(name) or {"n": len(ran)})  # type: ignore[func-returns-value]

    run_cases("b", [case("first")], record)
    run_cases("b", [case("first"), case("second")], record)
    assert ran == ["first", "second"]
    record.forget("b")
    run_cases("b", [case("first")], record)
    assert ran == ["first", "second", "first"]
    assert list(record.read()["b"]) == ["first"]


def test_figures_of_another_device_do_not_count(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    run_cases("b", [Case("first", lambda: {"n": 1})], record)
    monkeypatch.setattr("perf.battery.cases.facts", lambda: {"device": "another"})
    assert Record(record._path).read() == {}


def child(record: Record, end: str, cases: int = 1) -> list[str]:
    """A process that records that a case began and then ends in some way; later cases end well. It imports
    nothing of the project, so that it starts at once."""
    text = f"""
import json, os, signal, sys, time

path, key = {str(record._path)!r}, {record._key!r}

def append(case, **content):
    with open(path, "a") as file:
        file.write(json.dumps({{"key": key, "part": "a", "case": case, **content}}) + chr(10))

lines = [json.loads(line) for line in open(path)] if os.path.exists(path) else []
done = {{line["case"] for line in lines if "began" not in line}}
for number in range({cases}):
    case = f"case {{number}}"
    if case not in done:
        append(case, began=time.time())
        if number == 0:
            {end}
        append(case, figures={{"n": number}})
"""
    return [sys.executable, "-c", text]


def test_a_killed_case_fails_and_the_next_ones_go_on(record: Record) -> None:
    command = child(record, "os.kill(os.getpid(), signal.SIGKILL)", cases=2)
    assert run_part("a", command, record)
    found = record.read()["a"]
    assert "killed (SIGKILL)" in found["case 0"]["failed"]
    assert found["case 1"]["figures"] == {"n": 1}


def test_a_case_that_takes_longer_than_a_part_fails(record: Record) -> None:
    assert not run_part("a", child(record, "time.sleep(100)"), record, seconds=4)
    assert "took longer than the 4 s of a part" in record.read()["a"]["case 0"]["failed"]


def test_a_case_that_ends_its_process_fails(record: Record) -> None:
    assert run_part("a", child(record, "sys.exit(3)", cases=2), record)
    found = record.read()["a"]
    assert found["case 0"]["failed"] == "its process ended with status 3"
    assert found["case 1"]["figures"] == {"n": 1}


def test_a_process_that_ends_before_its_first_case_stops_the_command(record: Record) -> None:
    with pytest.raises(SystemExit, match="part a: its process ended with status 4 before its first case"):
        run_part("a", [sys.executable, "-c", "raise SystemExit(4)"], record)


# ---- results -----------------------------------------------------------------------------------------------


def test_results_of_other_parts_stay(tmp_path: Path) -> None:
    path = tmp_path / "gpu.json"
    titles = {"a": "SFT", "b": "Writing"}
    facts = {"device": "X", "python": "3", "torch": "2", "transformers": "5", "trl": "1"}
    write_results(path, TINY, facts, {"b": {"8 rows": {"figures": {"ms_a_token": 2.5}, "load": 0.1}}}, titles)
    write_results(path, TINY, facts, {"a": {"batch 2": {"skipped": "no time", "load": 0.2}}}, titles)
    text = tables(path)
    assert text.startswith("On X, random weights (tiny)")
    assert "Load average before each case: 0.1 to 0.2." in text
    assert text.index("(a) SFT") < text.index("batch 2: skipped: no time") < text.index("| 8 rows | 2.5 |")
    write_results(
        path, TINY, {**facts, "torch": "3"}, {"a": {"batch 2": {"skipped": "no time", "load": 0.2}}}, titles
    )
    assert "Writing" not in tables(path)


def test_every_part_has_a_title_and_cases(tmp_path: Path) -> None:
    for shapes in (TINY, QWEN3VL_2B, QWEN3VL_8B):
        for letter in MODULES:
            part = load_part(letter)
            assert part.TITLE
            names = [case.name for case in part.cases(Bench(shapes, tmp_path))]
            assert names
            assert len(names) == len(set(names))


def test_wheels_are_what_the_other_machine_lacks() -> None:
    requires = {"trl": ["torch>=2", "datasets>=4", "rich; extra == 'cli'"], "datasets": ["dill<1", "numpy"],
                "dill": [], "old": ["numpy>=1; python_version < '3'"]}  # fmt: skip
    present = wheels.read_present("torch==2.11.0\nNumPy==2.5.2\nold==0.9\n-e git+x\n")
    assert present == {"torch": "2.11.0", "numpy": "2.5.2", "old": "0.9"}
    found = wheels.lacking(
        ["trl>=1", "torch>=2.11", "old>=1"], present, "3.12", lambda name: requires[name], {
            "trl": "1.16.0", "datasets": "5.2.0", "dill": "0.4.1", "old": "1.0"}.__getitem__
    )  # fmt: skip
    assert found == ["datasets==5.2.0", "dill==0.4.1", "old==1.0", "trl==1.16.0"]


def test_the_docs_quote_the_recorded_figures() -> None:
    """Each table in full, on one page; lines of text may be wrapped there."""
    places = [ROOT / "docs" / "status.md", ROOT / "docs" / "results" / "real-shapes.md"]
    texts = [re.sub(r"<!-- .+ -->\n", "", place.read_text(encoding="utf-8")) for place in places]
    pages = [" ".join(text.split()) for text in texts]
    files = [ROOT / "perf" / name for name in ("gpu.json", "shapes_2b.json")]
    recorded = [path for path in files if path.exists()]
    assert recorded
    for path in recorded:
        assert any(" ".join(tables(path).split()) in page for page in pages), path
