"""Folders as training and synthesis write them, to be pushed: small, and full of what must not go up."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
import yaml
from safetensors.torch import save_file

MACHINE = "/scratch/mina/video-lm"
"""A folder of the machine that made them."""


def adapter(folder: Path, *, base: str = f"{MACHINE}/models/Qwen3-VL-8B") -> Path:
    """An adapter of `videopro sft`, with checkpoints, trained on `base`."""
    folder.mkdir(parents=True)
    save_file({"layer.lora_A.weight": torch.arange(6.0)}, folder / "adapter_model.safetensors")
    _json(folder / "adapter_config.json", {"peft_type": "LORA", "r": 8, "base_model_name_or_path": base})
    record = {"frames": 64, "pixels": 50176, "base": {"name": base, "weights": "0" * 16}, "planner": {}}
    _json(folder / "videopro.json", {**record, "versions": {"torch": "2.14.1"}})
    run = {"seed": 3, "learning_rate": 2e-5, "data": "5214788663f4ef55", "frames": 64, "pixels": 50176}
    dropped = {"q7": f"{MACHINE}/videos/q7.mp4: is damaged"}
    history = [{"step": 10, "loss": 2.5}, {"step": 20, "loss": 1.25}]
    training = {"run": run, "rows": 41, "kinds": {"plan_program": 30, "native": 11}, "dropped": dropped}
    training["videos"] = {"sft": ["0a", "0b", "0c"]}
    _json(folder / "training_record.json", {**training, "versions": {"torch": "2.14.1"}, "history": history})
    (folder / "README.md").write_text("# Model Card for Model ID\n")
    (folder / "training_args.bin").write_bytes(b"\x80pickle of " + MACHINE.encode())
    (folder / "checkpoint-20").mkdir()
    (folder / "checkpoint-20" / "optimizer.pt").write_bytes(b"states")
    return folder


def planner(folder: Path) -> Path:
    """A merged planner in two files of weights."""
    folder.mkdir(parents=True)
    weights = {"model-00001-of-00002.safetensors": "a", "model-00002-of-00002.safetensors": "b"}
    for name, tensor in weights.items():
        save_file({tensor: torch.full((3,), float(ord(tensor)))}, folder / name)
    _json(folder / "model.safetensors.index.json", {"weight_map": {t: n for n, t in weights.items()}})
    _json(folder / "config.json", {"model_type": "qwen3_vl"})
    record = {"base": "Qwen/Qwen3-VL-8B-Instruct", "weights": "1" * 16}
    _json(folder / "videopro.json", {"frames": 64, "pixels": 50176, "planner": record, "versions": {}})
    return folder


def dataset(folder: Path, videos: Path) -> Path:
    """A dataset about a film in `videos` and one in a folder below it."""
    folder.mkdir(parents=True)
    grpo = [_prompt(1, videos / "a.mp4", str(videos / "a.srt")), _prompt(2, videos / "long" / "b.mp4")]
    turns = [{"role": "user", "content": "<video>Q"}, {"role": "assistant", "content": "A"}]
    sft = [{"messages": turns, "videos": [str(videos / "a.mp4")], "id": "1/native"}]
    texts = {
        f"{name}.jsonl": "".join(json.dumps(row) + "\n" for row in rows)
        for name, rows in (("sft", sft), ("grpo", grpo))
    }
    (folder / "held_out.jsonl").write_text("{}\n")
    digests = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}
    for name, text in texts.items():
        (folder / name).write_text(text)
    asked = {"not asked": {"no known answer": 3}}
    _json(folder / "card.json", {"about": {"source": "jsonl"}, "questions": asked, "sha256": digests})
    listed = "; ".join(f"{name} `{digest}`" for name, digest in digests.items())
    (folder / "CARD.md").write_text(f"# Data card: jsonl\n\nSHA-256: {listed}.\n")
    config = {"source": "jsonl", "root": str(videos.parent), "output": str(folder), "run_key": "abc"}
    model = {"model": "server:qwen@http://gpu17:8000/v1", "identity": {"synthesis": {"source": "jsonl"}}}
    (folder / "config.yaml").write_text(yaml.safe_dump({**config, **model}))
    return folder


def _prompt(number: int, video: Path, subtitles: str | None = None) -> dict[str, Any]:
    asked = {"question": "Which?", "choices": ["red", "blue"], "answer": "A", "subtitles": subtitles}
    prompt = {"kind": "plan", "prompt": "Write a program.", "oracle_mode": "program"}
    about = {"id": f"{number}/plan", "question_id": str(number), "video": str(video), "videos": [str(video)]}
    return {**about, **asked, **prompt}


def _json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content))
