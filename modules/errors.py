"""Errors of modules, with messages that the author of a program can act on.

They are ordinary failures of a program: their messages go into the log that a refinement prompt shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from videopro.errors import VideoProError

if TYPE_CHECKING:
    from videopro.backbones import Generation


class ModuleError(VideoProError):
    """A module call that cannot return a result."""


class ArgumentError(ModuleError):
    """A wrong argument: a wrong type, an empty list, a window outside the video, an unknown keyword."""


class NotFoundError(ModuleError):
    """A retrieval that finds nothing (section 3.5: an empty retrieval is a failure); the message names the
    query."""


class UnavailableError(ModuleError):
    """A module whose model, index or subtitles are missing for this video."""


class CallError(ModuleError):
    """A call that failed in the video, a model or a library, though the question can be answered without it:
    what the program asked for cannot be done."""


class ModelError(VideoProError):
    """A module's model that cannot be loaded; for the user to fix, not the program."""


def written_text(reply: Generation) -> str:
    """The text of a backbone's reply. Raises ModuleError for one that the limit of tokens ended before the
    model said anything: nothing found and nothing said are not the same."""
    text = reply.text.strip()
    if not text and reply.finish == "length":
        doing = "while the model was thinking" if reply.thoughts else "before the model said anything"
        raise ModuleError(f"the reply was cut off after {reply.tokens_out} tokens, {doing}")
    return text
