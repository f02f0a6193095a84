"""Deep Video Discovery: a multi-granular database of a video, and an agent that searches in it with tools."""

from videopro.methods.dvd.agent import DvdRun
from videopro.methods.dvd.caption_search import CaptionSearch
from videopro.methods.dvd.database import Database
from videopro.methods.dvd.database_file import CaptionedClip, LineCost
from videopro.methods.dvd.method import DvdMethod
from videopro.methods.dvd.registry import SubjectRegistry
from videopro.methods.dvd.segmentation import clip_borders, spoken_in
from videopro.methods.dvd.settings import DvdSettings

__all__ = [
    "CaptionSearch",
    "CaptionedClip",
    "Database",
    "DvdMethod",
    "DvdRun",
    "DvdSettings",
    "LineCost",
    "SubjectRegistry",
    "clip_borders",
    "spoken_in",
]
