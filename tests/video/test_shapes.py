"""Pictures of any shape: the margin, the models that get them with it, and what they say mapped back."""

import base64
import io
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tests.support import qwen_models
from tests.support.numbered import noise
from videopro.backbones.server import encode_frames
from videopro.modules.models.detection import Detection, Detector
from videopro.modules.models.ocr import Ocr, TextRegion
from videopro.video import Frame, pad_picture, padded_size

FAMILIES = ("qwen2_5_vl", "qwen3_vl")
ODD = [(1, 320), (320, 1), (1, 1), (3, 3), (2, 5000), (5000, 2), (8, 4096), (40, 4001)]
"""(height, width) of pictures that some model's own preprocessing refuses."""
side = st.integers(1, 5000)
large = st.integers(1, 60_000)
any_shape = (
    st.tuples(large, large) | st.tuples(st.integers(1, 64), large) | st.tuples(large, st.integers(1, 64))
)
shape = st.tuples(side, side) | st.tuples(st.integers(1, 64), side) | st.tuples(side, st.integers(1, 64))


@given(shape)
def test_every_shape_gets_the_least_margin_that_it_needs(shape: tuple[int, int]) -> None:
    tall, wide = padded_size(*shape)
    assert min(tall, wide) >= 16
    assert max(tall, wide) <= 100 * min(tall, wide)
    # Only the shorter side grows, and not a pixel further than one of the two rules asks for; a square grows
    # at both.
    for before, after, other in ((shape[0], tall, wide), (shape[1], wide, tall)):
        assert after == before or after == 16 or 100 * (after - 1) < other


@settings(deadline=None)
@given(shape.filter(lambda shape: shape[0] * shape[1] < 200_000))
def test_a_margin_is_black_and_moves_no_pixel(shape: tuple[int, int]) -> None:
    image = np.full((*shape, 3), 7, np.uint8)
    shown = pad_picture(image)
    assert (shown is image) == (padded_size(*shape) == shape)
    assert shown.shape[:2] == padded_size(*shape)
    np.testing.assert_array_equal(shown[: shape[0], : shape[1]], image)
    assert np.count_nonzero(shown) == image.size


# ---- every model that is given pictures --------------------------------------------------------------------


@settings(max_examples=12, deadline=None)
@given(shape.filter(lambda shape: shape[0] * shape[1] < 200_000), st.sampled_from(FAMILIES), st.booleans())
def test_qwens_own_processors_take_every_shape(shape: tuple[int, int], family: str, is_crop: bool) -> None:
    inputs = qwen_models.backbone(family)._inputs
    frames = [Frame(noise(*shape), float(i), box=(0, 0, 1, 1) if is_crop else None) for i in range(3)]
    for shown in (frames, frames[:1], [frames[0], Frame(noise(20, 30), 5.0)]):
        encoded = inputs.head(shown)
        grid = encoded.tensors.get("image_grid_thw", encoded.tensors.get("video_grid_thw"))
        tokens = int(grid.prod(-1).sum()) // 4
        assert sum(kind > 0 for kind in encoded.types) == tokens


@settings(deadline=None)
@given(any_shape, st.sampled_from(FAMILIES), st.integers(1, 4))
def test_every_shape_has_a_size_to_decode_at(shape: tuple[int, int], family: str, count: int) -> None:
    size = qwen_models.backbone(family)._inputs.frame_size(*shape, count)
    assert min(size) > 0
    assert max(size) <= 16_384
    if padded_size(*shape) != shape:
        # Its own, or the largest one of its shape that a frame may have.
        longest = max(16_384, *shape)
        for scaled, own in zip(size, shape, strict=True):
            assert scaled == 1 or abs(scaled - own * 16_384 / longest) <= 0.5


@pytest.mark.parametrize("shape", ODD)
def test_servers_are_sent_no_odd_shape(shape: tuple[int, int]) -> None:
    (encoded,) = encode_frames([Frame(noise(*shape), 0.0)], 50_176).jpegs
    with Image.open(io.BytesIO(base64.b64decode(encoded))) as picture:
        assert min(picture.size) >= 16
        assert max(picture.size) <= 100 * min(picture.size)


# ---- what they say, mapped back ----------------------------------------------------------------------------


def white_box(image: np.ndarray, low: int) -> tuple[float, float, float, float]:
    """The bounds of the pixels of at least `low`, in shares of the picture."""
    rows, columns = np.nonzero((image >= low).all(-1))
    x0, y0, x1, y1 = map(float, (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1))
    tall, wide = image.shape[:2]
    return x0 / wide, y0 / tall, x1 / wide, y1 / tall


class WhiteFinder(Detector):
    """Finds the one white rectangle of a picture."""

    def identity(self) -> object:
        return "white"

    def _detect(self, pictures: Sequence[Frame], text: str, **thresholds: float) -> list[list[Detection]]:
        (picture,) = pictures
        assert picture.image.shape[:2] == padded_size(*picture.image.shape[:2])
        margin = Detection((0.99, 0.99, 1.0, 1.0), 0.9, "the margin")
        return [[Detection(white_box(picture.image, 255), 1.0, "white"), margin]]


class WhiteReader(Ocr):
    """Reads a word where a picture is white."""

    def identity(self) -> object:
        return "white"

    def _read(self, image: np.ndarray) -> list[TextRegion]:
        return [TextRegion("word", white_box(image, 201), 1.0)]


@pytest.mark.parametrize(("shape", "box"), [((2, 5000), (1000, 0, 2000, 1)), ((900, 3), (1, 90, 2, 450))])
def test_boxes_are_of_the_picture_without_its_margin(
    shape: tuple[int, int], box: tuple[int, int, int, int]
) -> None:
    x0, y0, x1, y1 = box
    image = np.zeros((*shape, 3), np.uint8)
    image[y0:y1, x0:x1] = 255
    (found,) = WhiteFinder().detect(Frame(image, 0.0), "white", box_threshold=0.5, text_threshold=0.25)
    assert in_pixels(found.box, shape) == pytest.approx(box)
    (words,) = WhiteReader().read(image)
    # OCR looks at an enlarged picture, whose edges are soft.
    assert in_pixels(words.box, shape) == pytest.approx(box, abs=0.6)


def in_pixels(box: Sequence[float], shape: tuple[int, int]) -> list[float]:
    height, width = shape
    return [box[0] * width, box[1] * height, box[2] * width, box[3] * height]


# ---- a video of an odd shape -------------------------------------------------------------------------------
