"""Convert a decoded picture to an upright RGB array of a given size."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

import numpy as np
from av.video.frame import VideoFrame
from av.video.reformatter import ColorRange, Colorspace, Interpolation, VideoReformatter

# ITU-T H.273 matrix coefficients -> swscale's coefficients.
_MATRICES = {
    1: Colorspace.ITU709,
    4: Colorspace.FCC,
    5: Colorspace.ITU601,
    6: Colorspace.ITU601,
    7: Colorspace.SMPTE240M,
    9: Colorspace.BT2020,
    10: Colorspace.BT2020,
}

# Bicubic, with a filter that swscale widens by the ratio when downscaling, and with the chroma of every
# pixel: without that flag a downscaled picture keeps only half of the file's colour resolution.
_SCALING = Interpolation.BICUBIC | Interpolation.FULL_CHR_H_INT | Interpolation.ACCURATE_RND


class RgbConverter:
    """Converts pictures to RGB; keeps swscale's tables between pictures. For a single thread."""

    def __init__(self) -> None:
        self._scaler = VideoReformatter()

    def rgb(
        self, picture: VideoFrame, size: tuple[int, int], shape: Shape, pixels: Fraction | None = None
    ) -> np.ndarray:
        """(*size, 3) uint8 RGB, read-only: matrix and range as in the stream, scaled, then rotated upright.
        `shape`: that of the video; a picture that is narrower or wider than it has black margins. `pixels`:
        width over height of a pixel, as the picture's stream says.

        Without a matrix in the stream, the default of video players is used: BT.709 from 720 lines on, else
        BT.601. HDR transfer curves are not mapped to SDR. Downscaling is bicubic with a filter widened by the
        ratio, so it does not alias.
        """
        inner = shape.fitted(picture, size, pixels)
        image = self._scaled(picture, inner, shape.turn)
        if inner != size:
            top, left = (size[0] - inner[0]) // 2, (size[1] - inner[1]) // 2
            whole = np.zeros((*size, 3), np.uint8)
            whole[top : top + inner[0], left : left + inner[1]] = image
            image = whole
        image.flags.writeable = False
        return image

    def _scaled(self, picture: VideoFrame, size: tuple[int, int], turn: Orientation) -> np.ndarray:
        height, width = reversed(size) if turn.swaps else size
        same = picture.height == height and picture.width == width
        matrix = _MATRICES.get(picture.colorspace)
        full = picture.color_range == ColorRange.JPEG or picture.format.name.startswith("yuvj")
        if matrix is None:
            hd = picture.height >= 720 or picture.width >= 1280
            matrix = Colorspace.ITU709 if hd else Colorspace.ITU601
        rgb = self._scaler.reformat(
            picture,
            width=width,
            height=height,
            format="rgb24",
            src_colorspace=None if picture.format.is_rgb else matrix,
            src_color_range=None if picture.format.is_rgb else (ColorRange.JPEG if full else ColorRange.MPEG),
            # At the same size only the colours are converted, and the filter would cost time for nothing.
            interpolation=Interpolation.BILINEAR if same else _SCALING,
            # Pictures are already spread over threads.
            threads=1,
        )
        return turn.apply(rgb.to_ndarray())


class Orientation:
    """How a picture is rotated for display: `degrees` clockwise (0, 90, 180, 270), after left-right mirroring
    if `mirrored`."""

    def __init__(self, degrees: int = 0, mirrored: bool = False) -> None:
        self.degrees = degrees
        self.mirrored = mirrored

    @classmethod
    def of(cls, picture: VideoFrame) -> Orientation:
        """From the display matrix of the picture (ISO/IEC 14496-12, 8.4.2.2); the nearest right angle."""
        try:
            # PyAV's stubs know only one kind of side data.
            matrix = cast("Mapping[str, Any]", picture.side_data)["DISPLAYMATRIX"]
        except KeyError:
            return cls()
        a, b, _, c, d = struct.unpack_from("=5i", bytes(matrix))
        # x' = a x + c y, y' = b x + d y with y downwards: (a, b) is where "right" goes, (c, d) where "down"
        # goes.
        mirrored = a * d - b * c < 0
        if mirrored:
            a, b = -a, -b
        if abs(a) >= abs(b):
            return cls(0 if a >= 0 else 180, mirrored)
        return cls(90 if b > 0 else 270, mirrored)

    @property
    def swaps(self) -> bool:
        """Whether height and width are swapped."""
        return self.degrees in (90, 270)

    def apply(self, image: np.ndarray) -> np.ndarray:
        """The upright picture, contiguous."""
        if self.mirrored:
            image = image[:, ::-1]
        return np.ascontiguousarray(np.rot90(image, k=-(self.degrees // 90)))


# A difference below this share, as between 1080 and 1088 lines, is no other shape.
_SAME_SHAPE = 0.01


@dataclass(frozen=True)
class Shape:
    """How the pictures of a video are shown: by its first one."""

    stored: tuple[int, int]
    """(height, width) as decoded."""
    pixels: Fraction
    """Width over height of a pixel, as the container or the stream says."""
    stream_pixels: Fraction
    """As the stream says."""
    turn: Orientation

    @property
    def upright(self) -> tuple[int, int]:
        """(height, width) with square pixels, rotated; the width is stretched, as players do."""
        return self._upright(self.stored, self.pixels)

    def fitted(self, picture: VideoFrame, size: tuple[int, int], pixels: Fraction | None) -> tuple[int, int]:
        """The part (height, width) of `size` that a picture fills without being stretched: all of it, unless
        the stream has changed to another shape."""
        stored, pixels = (picture.height, picture.width), square_or(pixels)
        if (stored, pixels) == (self.stored, self.stream_pixels):
            return size
        height, width = self._upright(stored, pixels)
        own_height, own_width = self.upright
        scale = min(own_height / height, own_width / width)
        shares = (height * scale / own_height, width * scale / own_width)
        if min(shares) > 1 - _SAME_SHAPE:
            return size
        return max(1, round(size[0] * shares[0])), max(1, round(size[1] * shares[1]))

    def _upright(self, stored: tuple[int, int], pixels: Fraction) -> tuple[int, int]:
        height, width = stored[0], max(1, round(stored[1] * pixels))
        return (width, height) if self.turn.swaps else (height, width)


def square_or(ratio: Fraction | None) -> Fraction:
    """The shape of a pixel as a file gives it; 1 for a ratio that is damage: no real pixels are that
    oblong."""
    return ratio if ratio and Fraction(1, 4) <= ratio <= 4 else Fraction(1)
