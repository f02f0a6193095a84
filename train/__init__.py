"""Planner training: fine-tuning, GRPO and the pocket models."""

# The folder is at the top of the checkout and is imported as videopro.train: each module has one name.
if __name__ != "videopro.train":
    raise ImportError(f"{__name__!r} is not importable: import 'videopro.train'")
