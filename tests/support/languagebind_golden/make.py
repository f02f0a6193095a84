"""Makes golden.npz: what the published LanguageBind package computes, under the transformers it was written
for.

Not part of the tests: it needs an environment of its own, which can no longer hold today's transformers.
The file beside it was made once, on a CPU, with Python 3.10:

    python3.10 -m venv old && source old/bin/activate
    pip install torch==2.1.2 torchvision==0.16.2 torchaudio==2.1.2 transformers==4.30.2 tokenizers==0.13.3 \
        peft==0.4.0 accelerate==0.20.3 einops decord opencv-python-headless==4.7.0.72 soundfile "numpy<2" \
        fvcore iopath parameterized
    pip install --no-deps languagebind==0.1.0 pytorchvideo==0.1.5
    python make.py golden.npz

transformers 4.30.2 and tokenizers 0.13.3 are what the authors' requirements.txt names. One tiny model of each
of the two published kinds, its weights drawn from a seed; pixels, texts (padded ones too) and frames for the
published preprocessing, with its random mirroring left out. Everything that the port needs is in the file:
configuration, weights, inputs, outputs.
"""

import json
import sys

import numpy as np
import torch
from languagebind.video.configuration_video import LanguageBindVideoConfig
from languagebind.video.modeling_video import LanguageBindVideo
from languagebind.video.processing_video import get_video_transform

FRAMES, SIZE, PATCH = 3, 16, 8

CONFIG = {
    "projection_dim": 10,
    "text_config": {
        "vocab_size": 50,
        "hidden_size": 16,
        "intermediate_size": 24,
        "projection_dim": 10,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": 9,
        "hidden_act": "gelu",
        "bos_token_id": 48,
        "eos_token_id": 49,
    },
    "vision_config": {
        "hidden_size": 20,
        "intermediate_size": 28,
        "projection_dim": 10,
        "num_hidden_layers": 2,
        "num_attention_heads": 5,
        "image_size": SIZE,
        "patch_size": PATCH,
        "hidden_act": "gelu",
        "add_time_attn": True,
        "num_frames": FRAMES,
        "lora_r": 0,  # as the fully fine-tuned checkpoints
    },
}


def outputs(clip_type: str) -> dict[str, np.ndarray]:
    """Configuration, weights, inputs and outputs of one model; `clip_type` "vl", or "vl_new" as in the later
    checkpoints, whose class embedding differs by frame."""
    vision = {**CONFIG["vision_config"], "clip_type": clip_type}
    config = LanguageBindVideoConfig(**{**CONFIG, "vision_config": vision})
    torch.manual_seed(0)
    model = LanguageBindVideo(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            # Biases and norms start at 0 and 1, which would hide a mistake in them.
            if weight.ndim:
                weight.add_(0.3 * torch.randn_like(weight))
    pixels = np.random.default_rng(1).normal(size=(2, 3, FRAMES, SIZE, SIZE)).astype(np.float32)
    ids = np.array(
        [
            [48, 5, 6, 7, 8, 9, 10, 11, 49],
            [48, 20, 21, 49, 49, 49, 49, 49, 49],  # padded with the end token, as its tokenizer does
            [48, 20, 21, 49, 0, 0, 0, 0, 0],
        ]
    )
    mask = np.array([[1] * 9, [1] * 4 + [0] * 5, [1] * 4 + [0] * 5])
    text = {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask)}
    with torch.no_grad():
        out = model(pixel_values=torch.from_numpy(pixels), **text)
        hidden = model.text_model(**text).last_hidden_state
    arrays = {
        "config": np.frombuffer(json.dumps(config.to_dict()).encode(), dtype=np.uint8),
        "pixels": pixels,
        "ids": ids,
        "mask": mask,
        "image_embeds": out.image_embeds.numpy(),
        "text_embeds": out.text_embeds.numpy(),
        "text_hidden": hidden.numpy(),
        "logits_per_text": out.logits_per_text.numpy(),
    }
    return arrays | {f"weight/{key}": value.numpy() for key, value in model.state_dict().items()}


def main(path: str) -> None:
    arrays = {f"{kind}/{key}": value for kind in ("vl", "vl_new") for key, value in outputs(kind).items()}

    # Its preprocessing is fixed at 224 pixels, whatever the configuration says.
    config = LanguageBindVideoConfig(**CONFIG)
    config.vision_config.video_decode_backend = "decord"
    transform = get_video_transform(config)
    transform.transforms = [t for t in transform.transforms if "Flip" not in type(t).__name__]
    for name, (height, width) in {"wide": (120, 200), "tall": (300, 230)}.items():
        t, y, x, c = np.indices((2, height, width, 3))
        frames = ((5 * y + 3 * x + 70 * c + 40 * t) // (1 + (x // 20) % 3) % 256).astype(np.uint8)
        seen = transform(torch.from_numpy(frames).permute(3, 0, 1, 2).contiguous())
        arrays[f"frames_{name}"] = frames
        # A coarse grid of the (3, 2, 224, 224) values: enough to show any shift, small enough to ship.
        arrays[f"seen_{name}"] = seen.numpy()[:, :, 3::31, 5::29]
    np.savez_compressed(path, **arrays)


if __name__ == "__main__":
    main(sys.argv[1])
