"""Questions with options, their answers, and extracting the chosen option from a reply."""

from videopro.question.answer import Answer
from videopro.question.answer_extraction import extract_letter
from videopro.question.intervals import Parser, Reading, extract_intervals
from videopro.question.letter_token import letter_confidence
from videopro.question.official_cg_bench import written_intervals, written_result
from videopro.question.official_extractors import OFFICIAL_EXTRACTORS, OR
from videopro.question.question import LETTERS, NO_OPTION, Question, right_letters

__all__ = [
    "Answer",
    "LETTERS",
    "NO_OPTION",
    "OFFICIAL_EXTRACTORS",
    "OR",
    "Parser",
    "Question",
    "Reading",
    "extract_intervals",
    "extract_letter",
    "letter_confidence",
    "right_letters",
    "written_intervals",
    "written_result",
]
