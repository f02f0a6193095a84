"""The trace viewer: a run as a folder of static pages that open from disk, or live in a terminal.

    videopro view RUN... [--output DIR] [--open]      # prints the page to open
    videopro view --live RUN

Reads finished and running runs, and never changes traces.
"""

from videopro.view.content import page, row
from videopro.view.live import watch_run
from videopro.view.several import OVERVIEW, run_names, start_overview, write_overview
from videopro.view.site import Site, make_pictures, read_asset, write_pages
from videopro.view.stored_prompts import StoredPrompts
from videopro.view.thumbnails import SIDE

__all__ = [
    "OVERVIEW",
    "SIDE",
    "Site",
    "StoredPrompts",
    "make_pictures",
    "page",
    "read_asset",
    "row",
    "run_names",
    "start_overview",
    "watch_run",
    "write_overview",
    "write_pages",
]
