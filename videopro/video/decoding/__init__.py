"""Reading video files: open them safely, find frames by presentation time, convert them to RGB.

Uses FFmpeg through PyAV. To get frames, use `videopro.video.Video`.
"""

from videopro.video.decoding.ahead import made_ahead
from videopro.video.decoding.opening import (
    Deadline,
    check_file,
    check_no_url,
    content_id,
    content_if_readable,
    open_container,
)
from videopro.video.decoding.probe import Probe, probe_video

__all__ = [
    "Deadline",
    "Probe",
    "check_file",
    "check_no_url",
    "content_id",
    "content_if_readable",
    "made_ahead",
    "open_container",
    "probe_video",
]
