"""Questions to trajectories to datasets: a teacher's programs are run and become supervision (section 3.6).

Run it with `videopro synthesize`. Its modules that other commands use are listed below.
"""

# The folder is at the top of the checkout and is imported as videopro.data_synthesis: each module has one
# name.
if __name__ != "videopro.data_synthesis":
    raise ImportError(f"{__name__!r} is not importable: import 'videopro.data_synthesis'")

__all__ = [
    "card",
    "datasets",
    "decontamination",
    "guard",
    "planner_prompts",
    "question_settings",
    "questions",
    "run",
    "settings",
]
