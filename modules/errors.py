"""What goes wrong inside a module, in words that whoever wrote the program can act on.

These are ordinary failures of one program: their messages become the log that a refinement prompt shows.
Knows nothing of how modules work.
"""

from videopro.errors import VideoProError


class ModuleError(VideoProError):
    """A module call that cannot give a result."""


class ArgumentError(ModuleError):
    """A wrong argument: its type, an empty list, a window outside the video, an unknown keyword."""


class NotFoundError(ModuleError):
    """A retrieval that finds nothing (section 3.5: an empty retrieval is a failure); the message names the
    query."""


class UnavailableError(ModuleError):
    """A module whose model, index or subtitles this video does not have."""


class ModelError(VideoProError):
    """A model behind a module that cannot be loaded; a user's matter, not a program's."""
