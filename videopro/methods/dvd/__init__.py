"""Deep Video Discovery: a multi-granular database of a video, and an agent that searches in it with tools."""

from videopro.methods.dvd.agent import DvdMethod as DvdMethod
from videopro.methods.dvd.database import Database as Database
from videopro.methods.dvd.database import clip_borders as clip_borders
from videopro.methods.dvd.database_file import SubjectRegistry as SubjectRegistry
from videopro.methods.dvd.settings import DvdSettings as DvdSettings
