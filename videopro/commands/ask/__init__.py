"""`videopro ask`: one question about a video file, and what the terminal shows of its way to an answer."""
