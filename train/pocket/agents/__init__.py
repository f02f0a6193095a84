"""Adapters of the pocket model for the prompts of agents (`videopro.train.pocket.agents.adapter`)."""
