"""Questions to trajectories to datasets: a teacher's programs, run for real, become supervision (3.6).

`python -m videopro.data_synthesis.run` does it; nothing else in the project knows of it.
"""

# The folder stands at the top of the checkout, and is the package videopro.data_synthesis: one name for each
# module.
if __name__ != "videopro.data_synthesis":
    raise ImportError(f"{__name__!r} is not importable: import 'videopro.data_synthesis'")
