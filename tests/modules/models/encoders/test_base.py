"""What every encoder offers: scoring texts with clips, by the plain cosine or by a pooling of its own, and
the clip index on top of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.support.making_videos import make, read_number
from tests.support.number_encoder import NumberEncoder
from tests.support.tiny_encoders import clip, languagebind_folder
from videopro.modules.models.encoders import load_encoder
from videopro.modules.search import build_index
from videopro.video import Frame, Video


class NearestFrame(NumberEncoder):
    """Keeps a row for each of a clip's three frames; a text is as similar to a clip as to its nearest
    frame."""

    @property
    def clip_shape(self) -> tuple[int, ...]:
        return (3, self.width)

    def encode_clips(self, clips: Sequence[Sequence[Frame]]) -> np.ndarray:
        rows = [self.encode_texts([str(read_number(f.image)) for f in frames]) for frames in clips]
        return np.stack(rows)

    def similarities(self, texts: np.ndarray, clips: np.ndarray) -> np.ndarray:
        best: np.ndarray = np.einsum("td,crd->tcr", texts, clips).max(-1)
        return best


def test_scores_are_the_cosines_of_each_text_with_each_clip(tmp_path: Path) -> None:
    encoder = load_encoder(f"languagebind:{languagebind_folder(tmp_path)}", "cpu")
    clips = [clip(seed, encoder.clip_frames) for seed in range(3)]
    scores = encoder.score_clips(["w1 w2", "w7"], clips)
    assert scores.shape == (2, 3)
    assert scores.dtype == np.float32
    for i, text in enumerate(["w1 w2", "w7"]):
        for j, frames in enumerate(clips):
            a, b = encoder.encode_texts([text])[0], encoder.encode_clips([frames])[0]
            cosine = float(np.dot(a, b) / np.linalg.norm(a) / np.linalg.norm(b))
            assert scores[i, j] == pytest.approx(cosine, abs=1e-5)
    assert encoder.clip_shape == (encoder.width,)
    with pytest.raises(ValueError, match=f"a clip of 2 frames; this encoder takes {encoder.clip_frames}"):
        encoder.score_clips(["w1"], [clips[0][:2]])
    with pytest.raises(ValueError, match="nothing to embed"):
        encoder.score_clips([], clips)


def test_the_index_keeps_and_searches_what_an_encoder_pools_by_the_text(tmp_path: Path) -> None:
    # 200 numbered pictures, 2.5 a second: 80 s, 8 clips of 10 s.
    make(tmp_path / "numbered.mp4", list(range(0, 400, 2)), rate=5)
    video, encoder = Video.open(tmp_path / "numbered.mp4"), NearestFrame()
    made = build_index(video, encoder, root=tmp_path / "index")
    assert made.vectors.shape == (len(made.clips), 3, 2)
    numbers = [
        [read_number(frame.image) for frame in video.frames(encoder.clip_times(start, end))]
        for start, end in made.clips
    ]
    # Each frame finds its own clip, also those that a single row for the middle frame would miss.
    for number, row in enumerate(numbers):
        for shown in row:
            ((best, score),) = made.search(str(shown), 1)
            assert (best, round(score, 5)) == (number, 1.0)
    stored = build_index(video, NearestFrame(fails_after=0), root=tmp_path / "index")
    np.testing.assert_array_equal(stored.vectors, made.vectors)
    (found,) = made.search("0", 1, start=made.clips[1][0])
    assert found[0] == 1
