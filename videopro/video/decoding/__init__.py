"""Reading video files: opening them safely, finding frames by presentation time, turning them into RGB.

Knows FFmpeg (through PyAV, or TorchCodec where asked for). Must not know models, questions or runs; users of
frames go through `videopro.video.video`.
"""
