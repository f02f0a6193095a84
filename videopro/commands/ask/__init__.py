"""`videopro ask`: ask one question about a video file and watch the answer being worked out."""
