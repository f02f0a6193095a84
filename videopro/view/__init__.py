"""The trace viewer: a run as a folder of static pages that open from disk, or live in a terminal.

    videopro view RUN... [--output DIR] [--open]      # prints the page to open
    videopro view --live RUN

Reads finished and running runs, and never changes traces.
"""
