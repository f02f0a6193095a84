"""A question with options, and reading the option that a reply settles on."""

from videopro.question.answer_extraction import read_letter
from videopro.question.official_extractors import OFFICIAL_READERS
from videopro.question.question import LETTERS, NO_OPTION, Question, right_letters

__all__ = ["LETTERS", "NO_OPTION", "OFFICIAL_READERS", "Question", "read_letter", "right_letters"]
