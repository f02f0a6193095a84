"""Training planners: fine-tuning, GRPO, and the pocket models."""

# The folder stands at the top of the checkout, and is the package videopro.train: one name for each module.
if __name__ != "videopro.train":
    raise ImportError(f"{__name__!r} is not importable: import 'videopro.train'")
