"""What the second walk has to leave: GRPO on the planner's own failures under DeepSpeed, and its merged
planner."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import av
import yaml
from safetensors.torch import load_file

from tests.support.miniature.films import SEED
from videopro.benchmarks import load
from videopro.modules.models import load_ocr
from videopro.question import LETTERS

QUESTIONS = 8
"""Those that launch/miniature.sh has the planner asked."""


def planner_checks(folder: Path) -> Iterator[tuple[str, bool]]:
    """Each thing that has to be so, and whether it is."""
    before, walked = folder / "output", folder / "planner"
    yield from _prompts(before, walked / "prompts")
    yield from _deepspeed(walked / "grpo")
    yield from _merged(folder, walked)
    yield from _signs(folder)


def _prompts(before: Path, made: Path) -> Iterator[tuple[str, bool]]:
    rows = json_lines(made / "grpo.jsonl")
    native, planned = (
        {trace["question_id"]: trace for trace in json_lines(made / name / "traces.jsonl")}
        for name in ("native", "planner")
    )
    kinds = {kind: Counter(row["question_id"] for row in rows if row["kind"] == kind) for kind in _KINDS}
    yield f"{QUESTIONS} questions were asked", len(native) == len(planned) == QUESTIONS
    yield "each has a plan", kinds["plan"] == Counter(dict.fromkeys(planned, 1))
    taught = {Path(row["videos"][0]).name for row in json_lines(before / "synthesis" / "sft.jsonl")}
    asked = {Path(row["videos"][0]).name for row in rows}
    yield "no prompt is about a film that the planner was fine-tuned on", not taught & asked
    failed = {name for name, trace in planned.items() if _execution(trace)["status"] == "failed"}
    yield f"each of {len(failed)} failed programs gives a bug fix", set(kinds["bug_fix"]) == failed
    sure = {name for name, trace in native.items() if _is_right_and_sure(trace)}
    modes = {row["question_id"]: row["oracle_mode"] for row in rows if row["kind"] == "plan"}
    yield (
        f"the oracle mode is native for the {len(sure)} that are natively right and sure",
        {name for name, mode in modes.items() if mode == "native"} == sure,
    )
    identity = yaml.safe_load((made / "planner" / "config.yaml").read_text())["identity"]
    yield "the planner's modules had EasyOCR", identity["method"]["ocr"] == "easyocr:en"


_KINDS = ("plan", "bug_fix", "native_refinement", "program_refinement")


def _execution(trace: Any) -> Any:
    return trace["rounds"][0]["execution"] or {"status": "failed"}


def _is_right_and_sure(trace: Any) -> bool:
    answer = _execution(trace)["answer"]
    return answer["letter"] == trace["gold"] and answer["confidence"] >= 0.75


def _deepspeed(grpo: Path) -> Iterator[tuple[str, bool]]:
    (state,) = grpo.glob("checkpoint-*/global_step*")
    shards = sorted(path.name for path in state.glob("zero_pp_rank_*_optim_states.pt"))
    yield (
        "GRPO's optimizer was spread over two ranks under DeepSpeed",
        shards == [f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt" for rank in (0, 1)],
    )


def _merged(folder: Path, walked: Path) -> Iterator[tuple[str, bool]]:
    sft, grpo = (
        load_file(where / "adapter_model.safetensors")
        for where in (folder / "output" / "sft", walked / "grpo")
    )
    yield "it moved the adapter", any(not tensor.equal(sft[name]) for name, tensor in grpo.items())
    (base,) = (folder / "hub" / "hub" / "models--Qwen--Qwen3-VL-8B-Instruct").glob("snapshots/*")
    plain, merged = (load_file(where / "model.safetensors") for where in (base, walked / "merged"))
    config = json.loads((walked / "grpo" / "adapter_config.json").read_text())
    name = next(name for name in sorted(grpo) if name.endswith("lora_A.weight"))
    place = name.removeprefix("base_model.model.").removesuffix(".lora_A.weight") + ".weight"
    product = grpo[name.replace("lora_A", "lora_B")].float() @ grpo[name].float()
    expected = plain[place].float() + product * config["lora_alpha"] / config["r"]
    # The checkpoint is stored in bf16: eight bits of fraction.
    close = (merged[place].float() - expected).abs().max() <= expected.abs().max() / 2**8
    yield "the merged planner is base and adapter", bool(close)


def _signs(folder: Path) -> Iterator[tuple[str, bool]]:
    """EasyOCR's published weights read the films' signs, whose words the questions name."""
    ocr = load_ocr("easyocr:en")
    read, asked = 0, 0
    for item in load("pocket", split="fresh", world_seed=SEED).items:
        film = folder / "films" / f"{item.video.stem}.mp4"
        if "sign" not in item.question.text or not film.exists() or item.answer is None:
            continue
        middle = sum(item.evidence[0]) / 2
        with av.open(str(film)) as container:
            pictures = container.decode(video=0)
            picture = next(each for each in pictures if each.time is not None and each.time >= middle)
        texts = [region.text for region in ocr.read(picture.to_ndarray(format="rgb24"))]
        asked += 1
        read += item.question.choices[LETTERS.index(item.answer)] in texts
    # When this was written: 9 of 9.
    yield f"EasyOCR reads {read} of {asked} signs", asked > 0 and read >= asked * 2 / 3


def json_lines(path: Path) -> list[Any]:
    """The objects of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text().splitlines()]
