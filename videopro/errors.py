"""Errors that a user can act on. Every part raises these; only command lines turn them into an exit status.

Knows nothing of any part.
"""


class VideoProError(Exception):
    """A failure whose message names the thing that is wrong and what would mend it."""


class ConfigError(VideoProError):
    """A setting, flag or file of settings that cannot be used."""


class VideoError(VideoProError):
    """A video that cannot be read, or not within its time limit."""


class SubtitleError(VideoProError):
    """Subtitles that are missing or cannot be read."""


class QuestionError(VideoProError):
    """A question that is not one: too few options, an answer that is not among them."""


class BackboneError(VideoProError):
    """A model that cannot be loaded or reached, or a request that it cannot serve."""


QUESTION_ERRORS = (VideoError, SubtitleError, BackboneError)
"""What may be wrong with one question without anything being wrong with the run."""


class BenchmarkError(VideoProError):
    """A benchmark folder or annotation file that is missing or broken."""


class DatasetError(VideoProError):
    """A training file that is missing or broken, or a row of it that cannot be trained on."""


class RunError(VideoProError):
    """A run folder that cannot be written, resumed or read."""


class WorkerBug(Exception):
    """A worker process met a fault of ours; the text is its traceback."""
