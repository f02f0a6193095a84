"""Questions to trajectories to datasets: a teacher's programs, run for real, become supervision (3.6).

`python -m data_synthesis.run` does it; nothing else in the project knows of it.
"""
