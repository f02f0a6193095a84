"""Generated videos, questions, training rows and an adapter: all that the parts read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import av
import numpy as np
import torch

from perf.battery.cases import Bench
from perf.battery.shapes import VideoShape
from videopro.question import Question, prompts

REPLY = """<planning>
This needs one moment: find the clips that show it, then ask about their frames.
</planning>
<code>
def execute_command(video, question):
    intervals, clips = get_informative_clips(video, "the red ring at the beach", top_k=3)
    frames = []
    for clip in clips:
        frames.extend(extract_frames(clip, num_frames=8))
    return query_mc(frames, question, choices)
</code>"""


def make_video(path: Path, shape: VideoShape, seed: int, *, key_every: int = 250) -> None:
    """Write an H.264 file in which a picture of coarse noise moves sideways, with a key frame every so many
    pictures. Does nothing if it exists."""
    if path.exists():
        return
    draw = np.random.default_rng(seed)
    coarse = draw.integers(0, 256, (shape.height // 16 + 1, shape.width // 16, 3), dtype=np.uint8)
    picture = coarse.repeat(16, 0)[: shape.height].repeat(16, 1)[:, : shape.width]
    part = path.with_suffix(".part")
    with av.open(str(part), "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=shape.rate)
        stream.options = {"g": str(key_every)}
        stream.height, stream.width, stream.pix_fmt = *picture.shape[:2], "yuv420p"
        for i in range(shape.seconds * shape.rate):
            container.mux(
                stream.encode(av.VideoFrame.from_ndarray(np.roll(picture, 3 * i, 1), format="rgb24"))
            )
        container.mux(stream.encode())
    part.rename(path)


def make_videos(bench: Bench) -> list[Path]:
    """The videos of these shapes."""
    paths = [bench.path(f"{number}.mp4") for number in range(bench.shapes.videos)]
    for number, path in enumerate(paths):
        make_video(path, bench.shapes.video, number)
    return paths


def question(number: int) -> Question:
    """A question with four options."""
    return Question(f"What is the color of ring {number}?", ("red", "blue", "green", "white"))


def write_lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write rows as JSON lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def make_sft_rows(bench: Bench, count: int, words: Sequence[int] = (0,)) -> Path:
    """An sft.jsonl with `count` plans about the videos. `words`: how many more words the prompts have, row by
    row, over and over."""
    videos = make_videos(bench)
    rows = [
        {
            "messages": [
                {
                    "role": "user",
                    "content": "<video>"
                    + prompts.plan(question(number))
                    + " ring" * words[number % len(words)],
                },
                {"role": "assistant", "content": REPLY},
            ],
            "videos": [videos[number % len(videos)].name],
        }
        for number in range(count)
    ]
    return write_lines(bench.path("sft.jsonl"), rows)


def make_grpo_rows(bench: Bench, count: int) -> Path:
    """A grpo.jsonl with `count` plans about the videos."""
    videos = make_videos(bench)
    rows = [
        {
            "id": f"ring-{number}/plan",
            "kind": "plan",
            "prompt": prompts.plan(question(number)),
            "video": videos[number % len(videos)].name,
            "question": question(number).text,
            "choices": list(question(number).choices),
            "answer": "A",
            "oracle_mode": "program",
        }
        for number in range(count)
    ]
    return write_lines(bench.path("grpo.jsonl"), rows)


def make_questions(bench: Bench, words: Sequence[int] = (0,)) -> Path:
    """A folder of questions (`--benchmark jsonl`), as many about each video; `words`: see `make_sft_rows`."""
    videos = make_videos(bench)
    rows = [
        {
            "id": f"{video.stem}-{number}",
            "video": video.name,
            "question": question(number).text + " ring" * words[number % len(words)],
            "choices": list(question(number).choices),
            "answer": "A",
            "subtitles": None,
        }
        for video in videos
        for number in range(bench.shapes.questions)
    ]
    write_lines(bench.path("questions.jsonl"), rows)
    return bench.folder


def make_adapter(bench: Bench) -> Path:
    """A LoRA adapter of the language layers with random weights, made once, as train/sft.py shapes it."""
    target = bench.path("adapter")
    if (target / "adapter_config.json").exists():
        return target
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForImageTextToText

    from perf.battery.shapes import model_config

    torch.manual_seed(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    # The layers' shapes alone are needed: the weights of the base are never filled in.
    with torch.device("meta"):
        model = AutoModelForImageTextToText.from_config(
            model_config(bench.shapes), dtype=getattr(torch, bench.shapes.dtype)
        )
    settings = LoraConfig(
        r=bench.shapes.lora_rank, lora_alpha=16, target_modules=LANGUAGE_LAYERS, init_lora_weights=False
    )
    tuned: Any = get_peft_model(model, settings, low_cpu_mem_usage=True)
    weights = {
        name.replace(".default.", "."): torch.randn(weight.shape, device=device).mul(0.01).cpu()
        for name, weight in tuned.named_parameters()
        if "lora_" in name
    }
    part = bench.path("adapter.part")
    part.mkdir(exist_ok=True)
    from safetensors.torch import save_file

    save_file({name: weight.to(getattr(torch, bench.shapes.dtype)) for name, weight in weights.items()},
              part / "adapter_model.safetensors")  # fmt: skip
    tuned.peft_config["default"].base_model_name_or_path = str(bench.folder / "model")
    tuned.peft_config["default"].save_pretrained(part)
    part.rename(target)
    return target


LANGUAGE_LAYERS = (
    r".*language_model\.layers\.\d+\..*\.(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)"
)
