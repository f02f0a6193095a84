"""How bright a frame is: the example of a module in CONTRIBUTING.md."""

from __future__ import annotations

from videopro.modules.calls import CallContext, SingleFrame, module


@module(family="extraction")
def get_brightness(call: CallContext, frame: SingleFrame) -> float:
    """Measure how bright one frame is; use it to find nights, flashes and cuts to black.

    Returns a number from 0 (black) to 1 (white).
    """
    (picture,) = call.load_frames([frame])
    return round(float(picture.image.mean()) / 255, 3)
