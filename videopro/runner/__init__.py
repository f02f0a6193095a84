"""What carries a run: its folder, the queue of work, the workers and their supervisor, the summary."""
