"""Deep Video Discovery: a multi-granular database of a video, and an agent that searches in it with tools."""

from videopro.methods.dvd.agent import DvdMethod as DvdMethod
from videopro.methods.dvd.agent import DvdRun as DvdRun
from videopro.methods.dvd.database import Database as Database
from videopro.methods.dvd.database import clip_borders as clip_borders
from videopro.methods.dvd.database import spoken_in as spoken_in
from videopro.methods.dvd.database_file import CaptionedClip as CaptionedClip
from videopro.methods.dvd.database_file import CaptionSearch as CaptionSearch
from videopro.methods.dvd.database_file import SubjectRegistry as SubjectRegistry
from videopro.methods.dvd.settings import DvdSettings as DvdSettings
