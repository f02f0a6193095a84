"""Reading video files: open them safely, find frames by presentation time, convert them to RGB.

Uses FFmpeg through PyAV, or TorchCodec on request. To get frames, use `videopro.video.Video`.
"""
