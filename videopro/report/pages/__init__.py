"""The trace viewer: a run as a folder of static pages that open from disk, and what `videopro.serve.viewer`
makes pages of by need.

    videopro view RUN... [--output DIR] [--open]      # prints the page to open

Reads finished and running runs, and never changes traces.
"""

from videopro.report.pages.content import StoredPrompts as StoredPrompts
from videopro.report.pages.content import page as page
from videopro.report.pages.content import page_name as page_name
from videopro.report.pages.content import row as row
from videopro.report.pages.script import assignment as assignment
from videopro.report.pages.site import OVERVIEW as OVERVIEW
from videopro.report.pages.site import Site as Site
from videopro.report.pages.site import about_run as about_run
from videopro.report.pages.site import make_pictures as make_pictures
from videopro.report.pages.site import overview_row as overview_row
from videopro.report.pages.site import packed as packed
from videopro.report.pages.site import questions_list as questions_list
from videopro.report.pages.site import read_asset as read_asset
from videopro.report.pages.site import run_names as run_names
from videopro.report.pages.site import start_overview as start_overview
from videopro.report.pages.site import video_source as video_source
from videopro.report.pages.site import write_overview as write_overview
from videopro.report.pages.site import write_pages as write_pages
from videopro.report.pages.thumbnails import LATER as LATER
from videopro.report.pages.thumbnails import SIDE as SIDE
from videopro.report.pages.thumbnails import open_video as open_video
from videopro.report.pages.thumbnails import set_name as set_name
