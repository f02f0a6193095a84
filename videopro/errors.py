"""Errors that a user can act on. Every package raises these; only command lines turn them into an exit
status.
"""


class VideoProError(Exception):
    """A failure whose message names what is wrong and how to fix it."""


class ConfigError(VideoProError):
    """An invalid setting, flag or settings file."""


class VideoError(VideoProError):
    """A video that cannot be read, or not within the time limit."""


class SubtitleError(VideoProError):
    """Subtitles that are missing or cannot be read."""


class QuestionError(VideoProError):
    """An invalid question: too few options, or an answer that is not among them."""


class BackboneError(VideoProError):
    """A model that cannot be loaded or reached, or a request that it cannot serve."""


QUESTION_ERRORS = (VideoError, SubtitleError, BackboneError)
"""Errors that fail a single question and leave the rest of the run unaffected."""


class BenchmarkError(VideoProError):
    """A benchmark folder or annotation file that is missing or broken."""


class DatasetError(VideoProError):
    """A training file that is missing or broken, or that has a row which cannot be trained on."""


class RunError(VideoProError):
    """A run folder that cannot be written, resumed or read."""


class WorkerBug(Exception):
    """An internal error in a worker process; the message is its traceback."""
