"""Compares fine-tuning on videos with train/sft.py with the same run in plain TRL, frames as images.

    python perf/sft.py [--size pocket] [--rows 32] [--videos 8] [--batch 4] [--rounds 3] [--work FOLDER]
    python perf/sft.py --size 8b --rows 48 --videos 12 --batch 1 --rounds 1     (a GPU with 80 GB)

Both train the same LoRA layers of the same model on the same rows with the same frames and pixels, each in
its own process, in turn. Plain TRL takes a video as images, which is what it supports: the frames come from
JPEG files that were written beforehand, and each is a separate image to the model. `samples_per_s` is
Trainer's own figure, without start-up and loading; `peak_mib` is the peak memory of the process (of the GPU,
if there is one); `tokens_a_row` excludes padding. "8b": the shapes of Qwen3-VL-8B with random weights, 64
frames of at most 50,176 pixels, bf16. Writes perf/sft.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import av
import numpy as np
import torch
from PIL import Image
from transformers import AutoConfig, AutoModelForImageTextToText, AutoProcessor, PretrainedConfig

from videopro import prompts
from videopro.pocket import model_dir
from videopro.question import Question
from videopro.video import Video

RESULTS = Path(__file__).with_suffix(".json")
HERE = Path(__file__).resolve().parent
# video: seconds, pictures per second, height, width; sampled frames, pixels per frame
SIZES: dict[str, dict[str, Any]] = {
    "pocket": {"video": (60, 8, 192, 320), "frames": 16, "pixels": 96 * 160, "dtype": "float32"},
    "8b": {"video": (300, 8, 360, 640), "frames": 64, "pixels": 50_176, "dtype": "bfloat16"},
}
_8B_TEXT = {
    "hidden_size": 4096,
    "intermediate_size": 12_288,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151_936,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 5_000_000.0,
        "mrope_section": [24, 20, 20],
        "mrope_interleaved": True,
    },
}
_8B_VISION = {
    "depth": 27,
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_heads": 16,
    "out_hidden_size": 4096,
    "num_position_embeddings": 2304,
    "deepstack_visual_indexes": [8, 16, 24],
}
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


def large() -> PretrainedConfig:
    """The config of Qwen3-VL-8B with the shipped tokenizer's token ids."""
    small = AutoConfig.from_pretrained(model_dir())
    ends = {name: getattr(small.text_config, name) for name in ("eos_token_id", "pad_token_id")}
    tokens = ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id")
    return AutoConfig.for_model(
        small.model_type,
        text_config={**_8B_TEXT, **ends},
        vision_config={**_8B_VISION, "patch_size": 16, "spatial_merge_size": 2, "temporal_patch_size": 2},
        tie_word_embeddings=False,
        **{name: getattr(small, name) for name in tokens},
    )


def make_model(size: str, folder: Path) -> Path:
    """A checkpoint of that size: the shipped one, or random weights with the shipped tokenizer and
    processor."""
    if size == "pocket":
        return model_dir()
    target = folder / "model"
    if not (target / "config.json").exists():
        processor = AutoProcessor.from_pretrained(model_dir())
        torch.manual_seed(0)
        with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
            model = AutoModelForImageTextToText.from_config(large(), dtype=torch.bfloat16)
        model.save_pretrained(target)
        processor.save_pretrained(target)
    return target


def make_rows(size: str, folder: Path, n_rows: int, n_videos: int) -> None:
    """Write videos of moving noise, and `sft.jsonl` with rows about them."""
    seconds, rate, height, width = SIZES[size]["video"]
    draw = np.random.default_rng(0)
    for number in range(n_videos):
        path = folder / f"{number}.mp4"
        if path.exists():
            continue
        coarse = draw.integers(0, 256, (height // 16, width // 16, 3), dtype=np.uint8)
        picture = coarse.repeat(16, 0)[:height].repeat(16, 1)[:, :width]
        part = path.with_suffix(".part")
        with av.open(str(part), "w", format="mp4") as container:
            stream = container.add_stream("libx264", rate=rate)
            stream.height, stream.width, stream.pix_fmt = *picture.shape[:2], "yuv420p"
            for i in range(seconds * rate):
                container.mux(
                    stream.encode(av.VideoFrame.from_ndarray(np.roll(picture, 3 * i, 1), format="rgb24"))
                )
            container.mux(stream.encode())
        part.rename(path)
    rows = []
    for number in range(n_rows):
        question = Question(f"What is the color of ring {number}?", ("red", "blue", "green", "white"))
        rows.append(
            {
                "messages": [
                    {"role": "user", "content": "<video>" + prompts.plan(question)},
                    {"role": "assistant", "content": REPLY},
                ],
                "videos": [f"{number % n_videos}.mp4"],
            }
        )
    (folder / "sft.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def cut_frames(size: str, folder: Path, n_videos: int) -> float:
    """Write the frames as JPEG files, as users of plain TRL do beforehand; returns the seconds it took."""
    began = time.perf_counter()
    for number in range(n_videos):
        target = folder / "frames" / str(number)
        target.mkdir(parents=True, exist_ok=True)
        for i, frame in enumerate(Video.open(folder / f"{number}.mp4").sample(SIZES[size]["frames"])):
            Image.fromarray(frame.image).save(target / f"{i:03d}.jpg", quality=95)
    return time.perf_counter() - began


def measure(command: list[str], output: Path, rows: int) -> dict[str, float]:
    """One run over `rows` rows, in its own process."""
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
    began = time.perf_counter()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status != 0:
        raise SystemExit(f"failed with status {status}: {' '.join(command)}")
    wall = time.perf_counter() - began
    history = json.loads((output / "trainer_state.json").read_text())["log_history"]
    done = next(line for line in history if "train_samples_per_second" in line)
    # The memory before training, and how much training added at its peak.
    names = ("before_init_mem_gpu", "init_mem_gpu_alloc_delta")
    gpu = [done.get(name, 0) for name in (*names, "train_mem_gpu_alloc_delta", "train_mem_gpu_peaked_delta")]
    peak = sum(gpu) / 2**20 if any(gpu) else used.ru_maxrss / 1024
    return {
        "samples_per_s": done["train_samples_per_second"],
        "peak_mib": peak,
        "wall_s": wall,
        "loss": done["train_loss"],
        "tokens_a_row": max(line.get("num_tokens", 0) for line in history) / rows,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--size", choices=list(SIZES), default="pocket")
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--videos", type=int, default=8)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work", type=Path, default=None)
    given = parser.parse_args()
    if given.rows % given.batch or given.videos > given.rows:
        parser.error("--rows must be a multiple of --batch, and no fewer than --videos")
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.work or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        model = make_model(given.size, folder)
        make_rows(given.size, folder, given.rows, given.videos)
        cutting = cut_frames(given.size, folder, given.videos)
        ours, plain = folder / "ours", folder / "plain"
        size = SIZES[given.size]
        common = [
            *("--model_name_or_path", str(model), "--per_device_train_batch_size", str(given.batch)),
            *(
                "--dtype",
                size["dtype"],
                "--learning_rate",
                "1e-4",
                "--max_steps",
                str(given.rows // given.batch),
            ),
            *("--logging_steps", "1", "--skip_memory_metrics", "false", "--gradient_checkpointing", "true"),
            *("--save_strategy", "no", "--report_to", "none", "--disable_tqdm", "true", "--seed", "0"),
            *("--use_peft", "true", "--lora_r", "64", "--lora_alpha", "16", "--lora_dropout", "0"),
            *("--bf16", "true" if torch.cuda.is_available() else "false"),
            *(() if torch.cuda.is_available() else ("--use_cpu", "true")),
            *("--train_data", str(folder / "sft.jsonl"), "--frames", str(size["frames"])),
            *("--pixels", str(size["pixels"])),
        ]
        ways = {
            "videopro": (
                [
                    *(sys.executable, str(HERE.parent / "train" / "sft.py"), "--output_dir", str(ours)),
                    *("--frame_cache", str(folder / "cache"), *common),
                ],
                ours,
            ),
            "plain TRL, frames as images": (
                [sys.executable, str(HERE / "sft_plain.py"), "--output_dir", str(plain), *common],
                plain,
            ),
        }
        runs: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
        for _ in range(given.rounds):
            for name, (command, output) in ways.items():
                runs[name].append(measure(command, output, given.rows))
    found = {
        name: {key: statistics.median(run[key] for run in rounds) for key in rounds[0]}
        for name, rounds in runs.items()
    }
    first, second = found.values()
    result = {
        "size": given.size,
        "rows": given.rows,
        "videos": given.videos,
        "batch": given.batch,
        "rounds": given.rounds,
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else platform.machine(),
        "cutting_frames_s": cutting,
        "ways": found,
        "runs": runs,
        "ratios": {
            "samples_per_s": first["samples_per_s"] / second["samples_per_s"],
            "peak_mib": first["peak_mib"] / second["peak_mib"],
            "tokens_a_row": first["tokens_a_row"] / second["tokens_a_row"],
        },
        "versions": {name: metadata.version(name) for name in ("torch", "transformers", "trl", "peft")},
    }
    text = json.dumps(result, indent=1) + "\n"
    RESULTS.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
