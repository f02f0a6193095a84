"""videopro prompts: prompts for GRPO without a teacher."""
