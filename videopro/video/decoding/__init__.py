"""Reading video files: open them safely, find frames by presentation time, convert them to RGB.

Uses FFmpeg through PyAV, or TorchCodec on request. Use `videopro.video.video` to get frames.
"""
