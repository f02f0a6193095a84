"""The researcher's road in small, from the hub's files to the report (bash launch/miniature.sh), and what it
has that the paper's has not."""

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from transformers import AutoModelForImageTextToText, AutoProcessor

from tests.golden import published
from tests.support import ROOT
from tests.support.miniature.backbone import make_backbone
from videopro.cli import CONFIGS
from videopro.pocket import model_dir

ON_A_CPU = {"dtype", "bf16", "use_cpu", "gradient_checkpointing", "frames", "pixels", "max_steps"}
"""Settings of both trainings, whose models and videos are small."""
DIFFERENT = {
    # The machine: two CPU cores, and 16 small frames in place of 64.
    *("gpus", "processes", "backbone.dtype", "backbone.frames", "backbone.pixels", "output"),
    *(f"{stage}_settings.{name}" for stage in ("sft", "grpo") for name in ON_A_CPU),
    "sft_settings.dataloader_num_workers",
    # How much is made and asked.
    *("synthesize.programs", "synthesize.seed", "limit", "pilot_rows", "infer.options.max_new_tokens"),
    *("grpo_settings.num_generations", "grpo_settings.max_completion_length"),
    *("grpo_settings.per_device_train_batch_size", "grpo_settings.gradient_accumulation_steps"),
    # Models that a package registry has. (The walk without a teacher has the paper's EasyOCR.)
    *("modules.text_encoder", "modules.ocr", "modules.speech"),
    # A planner that can write programs.
    "sft_settings.adapter",
}


def settings(tree: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of a config by their paths."""
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from settings(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def test_these_settings_alone_differ_from_the_papers() -> None:
    paper, small = (
        dict(settings(yaml.safe_load((CONFIGS / "reproduce" / f"{name}.yaml").read_text())))
        for name in ("paper", "miniature")
    )
    missing = object()
    assert {
        name for name in paper | small if paper.get(name, missing) != small.get(name, missing)
    } == DIFFERENT


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("backbone")
    make_backbone(folder)
    return folder


def test_its_template_and_added_tokens_are_qwens(backbone: Path) -> None:
    """Against the prompts of the published template and processor, token by token outside of ordinary
    text."""
    processor, words = AutoProcessor.from_pretrained(backbone), published.tokenizer()
    prompts = json.loads(published.FILE.read_text())["qwen3_vl"]["prompts"]
    controls = set(words.all_special_tokens) | set(processor.tokenizer.all_special_tokens)
    for case, (messages, _) in published.CASES.items():
        text = processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        assert text == prompts[case]["text"]
        found, expected = (
            [token for token in each.convert_ids_to_tokens(each(text)["input_ids"]) if token in controls]
            for each in (processor.tokenizer, words)
        )
        assert found == expected
    # Their order on the hub: 151643 <|endoftext|> to 151668 </think>.
    ids = processor.tokenizer.convert_tokens_to_ids
    first, config = ids("<|endoftext|>"), json.loads((backbone / "config.json").read_text())
    assert len(processor.tokenizer) == first + 26
    for name, on_the_hub in (("im_start", 151644), ("im_end", 151645), ("video_pad", 151656)):
        assert ids(f"<|{name}|>") == first + on_the_hub - 151643
    assert ids("</think>") == first + 151668 - 151643
    for name, on_the_hub in (("vision_start", 151652), ("vision_end", 151653), ("image", 151655)):
        assert config[f"{name}_token_id"] == first + on_the_hub - 151643


def test_its_weights_are_pockets_whatever_the_order_of_tokens(backbone: Path) -> None:
    text = (
        "<|im_start|>user\nWhich place is shown most of the time?\nA. farm <planning>\n    <code>\nreturn "
        "query_mc(frames)</code></planning><|im_end|>\n<|im_start|>assistant\n"
    )
    read, logits = [], []
    for folder in (model_dir(), backbone):
        words = AutoProcessor.from_pretrained(folder).tokenizer
        tokens = words(text, return_tensors="pt")["input_ids"]
        model = AutoModelForImageTextToText.from_pretrained(folder)
        read.append(words.convert_ids_to_tokens(tokens[0]))
        ids = words.get_vocab()
        row = model(input_ids=tokens).logits[0, -1].tolist()
        logits.append({token: row[number] for token, number in ids.items()})
    assert read[0] == read[1]
    assert {token: logits[1][token] for token in logits[0]} == logits[0]


def walk(folder: Path, log: Path) -> str:
    """Run the script, and return what it says. A file takes that, since a pipe would be waited for as long as
    any child holds it."""
    with log.open("w") as said:
        process = subprocess.Popen(
            ["bash", "launch/miniature.sh", str(folder)],
            cwd=ROOT,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
        try:
            status = process.wait()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    text = log.read_text(errors="replace")
    assert status == 0, text[-6000:]
    return text


@pytest.mark.road
@pytest.mark.timeout(3000)
def test_the_road_holds_and_is_resumed(tmp_path: Path) -> None:
    """What each stage has to leave is checked by the script's last command, against what went in."""
    first = walk(tmp_path / "miniature", tmp_path / "first.log")
    assert "everything is as it has to be" in first
    held = [line for line in first.splitlines() if line.startswith("ok    ")]
    for said in ("under DeepSpeed", "EasyOCR", "transcribed", "Table 5"):
        assert any(said in line for line in held), said
    again = walk(tmp_path / "miniature", tmp_path / "again.log")
    stages = [line for line in again.splitlines() if line.startswith("[")]
    stages = [line for line in stages if line.partition("]")[0].strip("[0123456789") == "/"]
    assert stages
    assert all(line.endswith(": already done") for line in stages)
