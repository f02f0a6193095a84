"""Questions to trajectories to datasets: a teacher's programs are run and become supervision (section 3.6).

Run it with `videopro synthesize`. `run` and `settings` are what other commands use.
"""

# The folder is at the top of the checkout and is imported as videopro.data_synthesis: each module has one
# name.
if __name__ != "videopro.data_synthesis":
    raise ImportError(f"{__name__!r} is not importable: import 'videopro.data_synthesis'")

__all__ = ["run", "settings"]
