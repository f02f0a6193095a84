"""What the docs claim of the GPU check: published shapes, counted operations, cases that end alone, quoted
figures. `SHAPES=tiny bash launch/gpu_check.sh` runs its parts on a CPU."""

import dataclasses
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoModelForImageTextToText

from perf.battery import flops, grpo_step, wheels
from perf.battery.cases import Bench, Case, Record, run_cases
from perf.battery.parts import load_part
from perf.battery.results import table, tables
from perf.battery.shapes import QWEN3VL_2B, QWEN3VL_8B, TINY, model_config
from perf.gpu import run_part
from tests.support import ROOT


def test_log_probabilities_three_ways_agree_in_fp32(tmp_path: Path) -> None:
    (case,) = load_part("e").cases(Bench(dataclasses.replace(TINY, packed=(16,)), tmp_path))
    for name, value in case.run().items():
        assert value < 1e-4, name


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


def test_a_lack_of_memory_ends_its_case_alone(tmp_path: Path) -> None:
    def exhaust() -> dict[str, Any]:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")

    record = Record(tmp_path / "cases.jsonl")
    run_cases("a", [Case("large", exhaust), Case("small", lambda: {"s": 1})], record)
    found = record.read()["a"]
    assert found["small"]["figures"] == {"s": 1}
    assert "out of memory for 20.00 GiB more" in found["large"]["failed"]
    assert found["large"]["failed"] in table("SFT", found)


def test_a_killed_case_fails_and_the_next_ones_go_on(tmp_path: Path) -> None:
    """The process of the part imports nothing of the project, so that it starts at once."""
    record = Record(tmp_path / "cases.jsonl")
    code = f"""
import json, os, signal

def append(**content):
    with open({str(record._path)!r}, "a") as file:
        file.write(json.dumps({{"key": {record._key!r}, "part": "a", **content}}) + chr(10))

if not os.path.exists({str(record._path)!r}):
    append(case="first", began=0.0)
    os.kill(os.getpid(), signal.SIGKILL)
append(case="second", began=0.0)
append(case="second", figures={{"n": 1}})
"""
    assert run_part("a", [sys.executable, "-c", code], record)
    found = record.read()["a"]
    assert "killed (SIGKILL)" in found["first"]["failed"]
    assert found["second"]["figures"] == {"n": 1}


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


def test_a_step_is_the_shipped_one_with_lengths_that_are_drawn(tmp_path: Path) -> None:
    """Prepared programs earn rewards in the place of replies, which end by themselves."""
    figures = grpo_step.step(Bench(dataclasses.replace(TINY, group=8), tmp_path))
    assert figures["replies"] == figures["programs"] / 2 == 16
    assert 1 < figures["reply_tokens"] < figures["longest"] <= TINY.longest
    assert 0 < figures["reward"] < 1
    # At 8B nothing is replaced.
    assert set(grpo_step.shipped(Bench(QWEN3VL_8B, tmp_path), None).values()) == {None}


def test_the_docs_quote_the_recorded_figures() -> None:
    """Each table in full, on one page; lines of text may be wrapped there."""
    places = [ROOT / "docs" / "results" / "what-ran.md", ROOT / "docs" / "results" / "real-shapes.md"]
    texts = [re.sub(r"<!-- .+ -->\n", "", place.read_text(encoding="utf-8")) for place in places]
    pages = [" ".join(text.split()) for text in texts]
    for name in ("gpu.json", "gpu_steps.json", "shapes_2b.json"):
        assert any(" ".join(tables(ROOT / "perf" / name).split()) in page for page in pages), name
