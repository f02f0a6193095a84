"""The pocket model: training batches against transformers' own processor, and the shipped weights."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForImageTextToText, AutoProcessor
from transformers.video_utils import VideoMetadata

from videopro.backbones import load_backbone
from videopro.pocket import world
from videopro.question import Question
from videopro.train.pocket import architecture as checkpoint
from videopro.train.pocket.batches import BatchEncoder, patches, still_size
from videopro.train.pocket.language import hidden, loss_of
from videopro.train.pocket.qa_pairs import PocketExample
from videopro.video import Video


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    processor = checkpoint.build_processor()
    checkpoint.save(checkpoint.build_model(processor.tokenizer, 0), processor, folder)
    return folder


def loaded(folder: Path) -> tuple[Any, Any]:
    return AutoProcessor.from_pretrained(folder), AutoModelForImageTextToText.from_pretrained(folder).eval()


def test_a_shared_row_reads_as_each_exchange_would_alone(saved: Path) -> None:
    """Expected ids, pixels and logits come from transformers' processor and a plain forward pass."""
    processor, model = loaded(saved)
    rng = np.random.default_rng(0)
    frames = rng.integers(0, 255, (8, *checkpoint.FRAME_SIZE, 3), dtype=np.uint8)
    times = [1.3, 2.9, 4.0, 5.5, 100.2, 101.0, 110.0, 120.7]
    row = PocketExample(
        [("What?\nA. red", "A"), ("Is it rainy?", "Yes"), ("Where is", "red ball")], frames, times
    )
    batch = BatchEncoder(processor.tokenizer).batch(
        [row, PocketExample([("Pick", "B")], frames[:2], times[:2])]
    )
    with torch.no_grad():
        shared = model.lm_head(hidden(model, batch))[0]
    for number, (said, reply) in enumerate(row.exchanges, 1):
        content = [{"type": "video", "video": "x"}, {"type": "text", "text": said}]
        text = processor.apply_chat_template(
            [{"role": "user", "content": content}], add_generation_prompt=True, tokenize=False
        )
        expected = processor(
            text=[f"{text}{reply}<|im_end|>"],
            videos=[torch.from_numpy(frames).permute(0, 3, 1, 2)],
            video_metadata=[VideoMetadata(total_num_frames=8, fps=1, frames_indices=list(times))],
            do_sample_frames=False,
            do_resize=False,
            return_tensors="pt",
        )
        with torch.no_grad():
            alone = model(**expected).logits[0]
        part = (batch.exchange[0] == 0) | (batch.exchange[0] == number)
        assert torch.equal(batch.input_ids[0][part], expected["input_ids"][0])
        torch.testing.assert_close(shared[part], alone, atol=1e-4, rtol=1e-4)
        pixels = expected["pixel_values_videos"]
        torch.testing.assert_close(batch.pixels[: len(pixels)].float() / 127.5 - 1, pixels)


def test_only_replies_are_learned(saved: Path) -> None:
    processor, model = loaded(saved)
    batch = BatchEncoder(processor.tokenizer).batch(
        [PocketExample([("Pick red.", "A"), ("Say it.", " red ball")])]
    )
    learned = [processor.tokenizer.decode(batch.input_ids[0][i]) for i in batch.weights[0].nonzero()[:, 0]]
    assert learned == ["A", "<|im_end|>", " red", " ball", "<|im_end|>"]
    logits = model.lm_head(hidden(model, batch))[0].log_softmax(-1)
    at = batch.weights[0].nonzero()[:, 0]
    losses = -logits[at - 1, batch.input_ids[0][at]]
    by_hand = (losses[:2].sum() / 2**0.5 + losses[2:].sum() / 3**0.5) / 2
    torch.testing.assert_close(loss_of(model, batch), by_hand, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("size", [(22, 60), (96, 160), (192, 320), (150, 40)])
def test_stills_get_the_size_that_the_processor_gives_them(saved: Path, size: tuple[int, int]) -> None:
    processor = AutoProcessor.from_pretrained(saved)
    picture = torch.zeros(3, *size, dtype=torch.uint8)
    grid = processor.image_processor(images=[picture], return_tensors="pt")["image_grid_thw"][0].tolist()
    height, width = still_size(*size)
    assert patches(np.zeros((2, height, width, 3), dtype=np.uint8))[1] == tuple(grid)


def test_the_shipped_model_sees_what_it_is_shown(tmp_path: Path) -> None:
    """On val videos: colour and shape from the evidence, the weather from the whole, and its confidence."""
    names = ["short_000", "short_001"]
    folder = world.ensure("val", tmp_path, videos=names, quiet=True)
    rows = [json.loads(line) for line in (folder / "questions.jsonl").read_text().splitlines()]
    rows = [row for row in rows if Path(row["video"]).stem in names]
    backbone = load_backbone("pocket")
    assert backbone.frames == checkpoint.FRAMES
    assert backbone.frame_size(192, 320, 16) == checkpoint.FRAME_SIZE
    right, confidences = [], []
    for row in rows:
        gist = "weather" in row["question"]
        if row["family"] != "attribute" and not gist:
            continue
        video = Video.open(folder / row["video"])
        start, end = (0.0, video.duration) if gist else row["evidence"][0]
        frames = video.sample(16, start=start, end=end, size=checkpoint.FRAME_SIZE)
        answer = backbone.answer(frames, Question(row["question"], tuple(row["choices"])))
        right.append(answer.letter == row["answer"])
        confidences.append(answer.confidence)
    assert len(right) == 6
    assert sum(right) >= 5
    assert np.median(confidences) > 0.9
