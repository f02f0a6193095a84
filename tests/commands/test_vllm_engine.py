"""--engine vllm of infer and synthesize, with a program in vLLM's place that answers A to everything."""

import json
from pathlib import Path

import pytest
import yaml

from tests.support import engine_folder, stub_engine
from tests.support.benchmark_runs import in_this_process  # noqa: F401
from tests.support.engine_folder import is_alive, processes
from videopro.backbones.qwen import find_checkpoint
from videopro.commands.infer import main
from videopro.data_synthesis.run import main as synthesize
from videopro.errors import ConfigError
from videopro.pocket import adapter_dir, model_dir
from videopro.runs import Served

folder = engine_folder.folder

# The stand-in takes no video.
PICTURES = ("--backbone", "video=frames", "frames=4", "pixels=1024")


def infer(folder: Path, output: Path, *more: str, limit: int = 1) -> int:
    asked = ["--benchmark", "pocket", "--split", "test", "--limit", str(limit), "--model", "pocket"]
    engine = ["--engine", "vllm", "--vllm", f"program={folder / 'vllm'}"]
    return main([*asked, *engine, "--output", str(output), *more])


def test_a_run_starts_its_engine_ends_it_and_is_resumed(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out"
    assert infer(folder, output, *PICTURES) == 0
    (start,) = stub_engine.starts(folder)
    assert start["arguments"][:2] == ["serve", str(model_dir())]
    assert not any(map(is_alive, processes(folder)))
    settings = yaml.safe_load((output / "config.yaml").read_text())
    assert (settings["model"], settings["engine"]) == ("pocket", "vllm")
    identity = settings["identity"]["model"]
    named = {"kind": "server", "model": "pocket", "weights": str(model_dir())}
    assert identity.items() >= named.items()
    assert (output / "work" / "logs" / "rank0-engine.log").read_text().startswith("INFO the stub starts")
    # All is answered: nothing has to be started, and the model is compared by name.
    assert infer(folder, output, *PICTURES) == 0
    assert len(stub_engine.starts(folder)) == 1
    assert infer(folder, output, *PICTURES, "adapter=pocket-sft") == 2
    assert "model.adapter_model: the run has None, this command 'pocket-sft'" in capfd.readouterr().err
    assert infer(folder, output, *PICTURES, limit=2) == 0
    assert len(stub_engine.starts(folder)) == 2
    lines = [json.loads(line) for line in (output / "traces.jsonl").read_text().splitlines()]
    assert [line["final"]["letter"] for line in lines] == ["A", "A"]


def test_a_planner_is_served_beside_its_base_from_the_start(tmp_path: Path) -> None:
    program = stub_engine.install(tmp_path)
    served = Served.of("pocket", {"adapter": "pocket-sft", "dtype": "fp32"}, {"program": str(program)})
    assert served.model.adapters == {"pocket-sft": adapter_dir("pocket-sft")}
    # As its adapter_config.json has it.
    assert served.model.rank == 32
    assert served.model.dtype == "fp32"
    assert served.asked_with["adapter_model"] == "pocket-sft"
    assert not {"adapter", "dtype"} & served.asked_with.keys()


def test_an_adapter_of_another_model_is_refused_before_anything_starts(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """An engine would load it as nothing."""
    from safetensors.torch import load_file, save_file

    other = tmp_path / "other"
    other.mkdir()
    shipped = adapter_dir("pocket-sft")
    (other / "adapter_config.json").write_bytes((shipped / "adapter_config.json").read_bytes())
    weights = load_file(shipped / "adapter_model.safetensors")
    save_file(
        {name.replace("layers", "blocks"): weight for name, weight in weights.items()},
        other / "adapter_model.safetensors",
    )
    assert infer(folder, tmp_path / "out", "--backbone", f"adapter={other}") == 2
    assert "does not fit model" in capfd.readouterr().err
    assert stub_engine.starts(folder) == []


def test_an_adapter_of_the_vision_tower_is_refused_unless_the_engine_takes_it(tmp_path: Path) -> None:
    """vLLM would serve it without that part."""
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForImageTextToText

    model = AutoModelForImageTextToText.from_config(find_checkpoint(str(model_dir())).settings)
    adapted = get_peft_model(model, LoraConfig(r=2, target_modules=r".*visual\.blocks\.0\.attn\.qkv"))
    adapted.save_pretrained(str(tmp_path / "seeing"), save_embedding_layers=False)
    engine = {"program": str(stub_engine.install(tmp_path))}
    backbone = {"adapter": str(tmp_path / "seeing")}
    with pytest.raises(ConfigError, match=r"adapts more than the language model \(.*visual.*--engine local"):
        Served.of("pocket", backbone, engine)
    allowed = {**engine, "flags": "--enable-tower-connector-lora"}
    assert Served.of("pocket", backbone, allowed).model.rank == 2


def test_a_synthesis_asks_an_engine(folder: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    command = [
        *("--source", "pocket", "--split", "train", "--limit", "1", "--programs", "0", "--model", "pocket"),
        *("--engine", "vllm", "--vllm", f"program={folder / 'vllm'}", "--output", str(output)),
        *("--encoder", "none", "--ocr", "none", *PICTURES),
    ]
    assert synthesize(command) == 0
    assert len(stub_engine.starts(folder)) == 1
    assert not any(map(is_alive, processes(folder)))
    assert yaml.safe_load((output / "config.yaml").read_text())["identity"]["model"]["kind"] == "server"
    assert synthesize(command) == 0
    assert len(stub_engine.starts(folder)) == 1
