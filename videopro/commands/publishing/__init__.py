"""Pushing adapters, planners, datasets and runs to the hub, and pulling them."""
