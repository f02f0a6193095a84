"""The trace viewer: a run as a folder of static pages that open from disk, or live in a terminal.

    videopro view RUN... [--output DIR] [--open]      # prints the page to open
    videopro view --live RUN

Reads finished and running runs, and never changes traces.
"""

from videopro.report.pages.content import StoredPrompts as StoredPrompts
from videopro.report.pages.content import page as page
from videopro.report.pages.content import row as row
from videopro.report.pages.live import watch_run as watch_run
from videopro.report.pages.site import OVERVIEW as OVERVIEW
from videopro.report.pages.site import Site as Site
from videopro.report.pages.site import make_pictures as make_pictures
from videopro.report.pages.site import read_asset as read_asset
from videopro.report.pages.site import run_names as run_names
from videopro.report.pages.site import start_overview as start_overview
from videopro.report.pages.site import write_overview as write_overview
from videopro.report.pages.site import write_pages as write_pages
from videopro.report.pages.thumbnails import SIDE as SIDE
