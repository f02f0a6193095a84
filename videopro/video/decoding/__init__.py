"""Reading video files: open them safely, find frames by presentation time, convert them to RGB.

Uses FFmpeg through PyAV. To get frames, use `videopro.video.Video`.
"""

from videopro.video.decoding.opening import Deadline as Deadline
from videopro.video.decoding.opening import check_file as check_file
from videopro.video.decoding.opening import check_no_url as check_no_url
from videopro.video.decoding.opening import content_id as content_id
from videopro.video.decoding.opening import content_if_readable as content_if_readable
from videopro.video.decoding.opening import open_container as open_container
from videopro.video.decoding.probe import Probe as Probe
from videopro.video.decoding.probe import probe_video as probe_video
from videopro.video.decoding.stream import made_ahead as made_ahead
